/**
 * Erases accounts: one transaction takes the user and its projects away (store/erased-accounts.ts), then everything
 * else goes, list by list, until a pass finds nothing any more.
 *
 * A pass may end anywhere and is begun again. Requests that were under way may still leave something: passes are
 * repeated for `keptMs`.
 */
import { erasure as limits } from '../../schemas/limits.ts';
import type { Bus } from '../bus/bus.ts';
import { type ProjectChanged, projectChanged, type SessionEnded, sessionEnded } from '../sse/messages.ts';
import type { Store } from '../store/client.ts';
import type { ErasedAccount } from '../store/erased-accounts.ts';
import type { Eraser } from './erasers.ts';

export type AccountErasurePorts = {
  store: Pick<Store, 'erasedAccounts' | 'projects'> & { assets: Pick<Store['assets'], 'erased'> };
  bus: Pick<Bus, 'send' | 'purgeFacts'>;
  erasers: readonly Eraser[];
  now(): number;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
};

const leaseMs = 60_000;
const projectsAtOnce = 200;

export function createAccountErasure({ store, bus, erasers, now, log }: AccountErasurePorts) {
  const { erasedAccounts, projects, assets } = store;

  const announceProject = ({ id, proxyKey }: { id: string; proxyKey: string | null }): void => {
    const key = proxyKey === null ? {} : { key: proxyKey };
    bus.send(projectChanged, { projectId: id, isDeleted: true, ...key } satisfies ProjectChanged);
  };

  /** Every process forgets the keys, and the streams of the user end. */
  const announce = (userId: string, gone: { id: string; proxyKey: string | null }[]): void => {
    for (const project of gone) announceProject(project);
    bus.send(sessionEnded, { userId } satisfies SessionEnded);
  };

  async function* pagesOf(userId: string): AsyncGenerator<string[]> {
    for (let after = ''; ; ) {
      const ids = await projects.former.idsOf(userId, after, projectsAtOnce);
      const last = ids.at(-1);
      if (last === undefined) return;
      await erasedAccounts.postpone(userId, now() + leaseMs);
      yield ids;
      after = last;
    }
  }

  /** Goes through a page of projects. Answers how many of their assets are not gone yet. */
  const eraseProjects = async (ids: string[], ageMs: number): Promise<number> => {
    // Said again: the request may have died before it could.
    if (ageMs < limits.settleMs) for (const id of ids) announceProject({ id, proxyKey: null });
    for (const { ofProjects } of erasers) await ofProjects?.(ids);
    const left = await assets.erased.countKept(ids);
    // As long as an asset is left its project's owner must be known.
    if (ageMs < limits.keptMs || left > 0) return left;
    // Once, and last: it costs the server some ms a project.
    for (const id of ids) await bus.purgeFacts(id);
    await projects.former.remove(ids);
    return 0;
  };

  const pass = async ({ id, ts }: ErasedAccount): Promise<void> => {
    const ageMs = now() - ts;
    // Those that a request under way has made since.
    announce(id, await projects.removeAll(id));
    for (const { ofUser } of erasers) await ofUser?.(id);
    let count = 0;
    let assetsLeft = 0;
    for await (const ids of pagesOf(id)) {
      assetsLeft += await eraseProjects(ids, ageMs);
      count += ids.length;
    }
    const isOver = ageMs >= limits.keptMs && assetsLeft === 0;
    if (isOver) await erasedAccounts.finish(id);
    else await erasedAccounts.postpone(id, now() + limits.passMs);
    const fields = { user: id, projects: count, assetsLeft, ms: now() - ts };
    log.info(fields, isOver ? 'account erased' : 'erasing an account');
  };

  return {
    /** Ends an account: from now on nobody finds it. Answers false when there is none. */
    async erase(userId: string): Promise<boolean> {
      const gone = await erasedAccounts.begin(userId, now());
      if (!gone) return false;
      announce(userId, gone);
      return true;
    },

    /** Goes once through an account that is due. Answers false when there is none. */
    async next(): Promise<boolean> {
      const account = await erasedAccounts.claim(now(), leaseMs);
      if (!account) return false;
      await pass(account).catch((err: unknown) =>
        log.warn({ err, user: account.id }, 'erasing an account goes on when its lease is over'),
      );
      return true;
    },
  };
}
