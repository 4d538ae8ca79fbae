/** What users do in a history: make assets, change their minds, and send messages to tallies. */

import type { RunOptions } from '../../schemas/asset-messages.ts';
import { contextOf } from '../actors/asset.ts';
import { sleep } from '../actors/clock.ts';
import { type ActorKind, newDocument } from '../actors/kind.ts';
import type { ModelBus, ModelConnection } from './model-bus.ts';
import type { ModelStore } from './model-store.ts';
import { assetKind } from './service.ts';
import { createTallyKind, tallyKind } from './tally.ts';
import { Host, type World } from './world.ts';

export type UserParts = {
  world: World;
  store: ModelStore;
  bus: ModelBus;
  projects: readonly string[];
  busyMs: number;
};

export type Users = {
  assets: string[];
  tallies: string[];
  isDone(): boolean;
};

const maxAssets = 3;
const maxTallies = 2;
const maxCounts = 12;
const againMs = 200;

export function startUsers({ world, store, bus, projects, busyMs }: UserParts): Users {
  const host = new Host(world, 'users');
  const { bus: connection } = bus.connect(host);
  const noStore = store.actorStore(host, 'none');
  const tally = createTallyKind(noStore);
  const users: Users = { assets: [], tallies: [], isDone: () => left === 0 };
  let left = 0;

  const begin = (act: () => Promise<void>): void => {
    left += 1;
    const done = () => {
      left -= 1;
    };
    void sleep(host, world.between(0, busyMs)).then(act).then(done);
  };

  const insert = (kind: ActorKind, id: string, project: string, input: unknown): Promise<boolean> =>
    untilDone(host, () =>
      store.insert(host, kind.name, newDocument(kind, { id, project, input, ts: host.now() })),
    );

  const send = async (
    project: string,
    kind: string,
    id: string,
    body: object,
    name: string,
  ): Promise<void> => {
    const message = { subject: connection.subjects.command(project, kind, id), id: `${id}:${name}`, body };
    await untilDone(host, () => connection.publish(message));
  };

  const makeAsset = async (id: string, project: string): Promise<void> => {
    const mode = world.chance(0.4) ? 'loop' : 'animate-in';
    await insert(assetKind, id, project, {
      ...requestOf(1, mode),
      projectId: project,
      src: 'https://a.example/1.png',
    });
    // Who asked may have died before this.
    if (world.chance(0.2)) return;
    const subject = connection.subjects.command(project, 'asset', id);
    await connection.publish({ subject, id: `${id}:start`, body: { type: 'START' } }).catch(() => undefined);
  };

  const changeMind = async (id: string, project: string): Promise<void> => {
    const document = store.find('asset', id);
    if (!document) return;
    const { run } = contextOf(document.machine);
    const wish = world.random();
    if (wish < 0.5) {
      const body = { type: 'REGENERATE', ...requestOf(run + 1, 'animate-in') };
      await send(project, 'asset', id, body, `${run + 1}:regenerate`);
    } else if (wish < 0.9) await send(project, 'asset', id, { type: 'CANCEL', run }, `${run}:cancel`);
    else await send(project, 'asset', id, { type: 'ERASE' }, 'erase');
  };

  for (let n = world.between(1, maxAssets); n > 0; n -= 1) {
    const project = world.pick(projects) ?? '';
    const id = `ast_${n}`;
    users.assets.push(id);
    begin(() => makeAsset(id, project));
    for (let wishes = world.between(0, 5) - 3; wishes > 0; wishes -= 1) begin(() => changeMind(id, project));
  }
  for (let n = world.between(0, maxTallies); n > 0; n -= 1) {
    const project = world.pick(projects) ?? '';
    const id = `tly_${n}`;
    users.tallies.push(id);
    const counts = world.between(1, maxCounts);
    begin(async () => {
      await insert(tally, id, project, {});
      for (let tag = 1; tag <= counts; tag += 1) begin(() => count(connection, id, project, tag));
    });
  }

  function count(_: ModelConnection, id: string, project: string, tag: number): Promise<void> {
    return send(project, tallyKind, id, { type: 'COUNT', tag }, `count:${tag}`);
  }

  return users;
}

async function untilDone<Result>(host: Host, run: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await run();
    } catch {
      await sleep(host, againMs);
    }
  }
}

function requestOf(run: number, mode: RunOptions['mode']) {
  const options: RunOptions = {
    motion: 'subtle',
    mode,
    seconds: 2,
    seed: null,
    promptOverride: null,
    aspect: 'source',
    model: 'fast',
    loopMode: mode === 'loop' ? 'crossfade' : 'none',
  };
  return { run, requestId: `req_${run}`, options, plan: 'free' as const, holdId: `hld_${run}` };
}
