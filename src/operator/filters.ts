/** From a filter as operators write it to one that the store can look for. */
import type { MachineFilterQuery, MachineKind } from '../../schemas/operator-console.ts';
import type { Store } from '../store/client.ts';
import { isByAge, type MachineFilter } from '../store/operator-views.ts';
import { activeStates, type StateTable, statesOf } from './states.ts';
import { expectationOf, type Usual } from './usual.ts';

type View = { kind: MachineKind; filter: MachineFilter; isByAge: boolean };

export type Filters = ReturnType<typeof createFilters>;

/** Projects of one user that a view goes through at most. */
const maxProjects = 200;

export function createFilters({
  store,
  table,
  usual,
  now,
}: {
  store: Pick<Store, 'projects'>;
  table: StateTable;
  usual(): Promise<Usual>;
  now(): number;
}) {
  /** By state, the time (unix ms) before which who has entered it is stuck. */
  const stuckBefore = async (kind: MachineKind): Promise<Record<string, number>> => {
    const measured = await usual();
    const before: Record<string, number> = {};
    for (const [state, info] of table[kind]) {
      const { expectedMs } = expectationOf(info, measured);
      if (expectedMs !== undefined) before[state] = Math.floor(now() - expectedMs);
    }
    return before;
  };

  const projectsOf = async ({ project, user }: MachineFilterQuery): Promise<string[] | undefined> => {
    if (user === undefined) return project === undefined ? undefined : [project];
    const owned = (await store.projects.list(user, maxProjects)).map(({ id }) => id);
    return project === undefined ? owned : owned.filter((id) => id === project);
  };

  return {
    stuckBefore,

    /** undefined when it names a state that there is not. What names nothing is of what is under way. */
    async read(query: MachineFilterQuery): Promise<View | undefined> {
      const { kind = 'asset', state } = query;
      const isStuck = query.stuck === 'true';
      const word = state ?? (namesSomething(query) ? undefined : 'active');
      const states = statesOf(table, kind, word);
      if (states.length === 0) return undefined;
      const active = activeStates(table, kind);
      const filter: MachineFilter = {
        states: isStuck ? states.filter((one) => active.includes(one)) : states,
        isAnyState: word === undefined && !isStuck,
        ...present({
          minAttempt: query.attempt,
          error: query.error,
          // A delivery has no model provider.
          provider: kind === 'asset' ? query.provider : undefined,
          projects: await projectsOf(query),
          version: query.version,
          stuckBefore: isStuck ? await stuckBefore(kind) : undefined,
        }),
      };
      return { kind, filter, isByAge: isByAge(filter) };
    },
  };
}

type Optional<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> };

/** The fields that are there. */
function present<Fields extends object>(fields: Fields): Optional<Fields> {
  const there = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(there) as Optional<Fields>;
}

function namesSomething({ attempt, error, project, user, provider, version }: MachineFilterQuery): boolean {
  return [attempt, error, project, user, provider, version].some((one) => one !== undefined);
}
