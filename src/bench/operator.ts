/**
 * `npm run bench operator -- --assets 100000`: how long what operators look at takes, beside how many machines there
 * are. Each view is asked for again and again, from different places of its list; prints one JSON line with the p95 of
 * each in ms. With MONGODB_URL it uses that server, else it starts its own.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { pipeline, webhook } from '../../schemas/limits.ts';
import type { MachineFilterQuery } from '../../schemas/operator-console.ts';
import { createLog } from '../log.ts';
import { createConsole } from '../operator/console.ts';
import { createStateTable } from '../operator/states.ts';
import { openStore } from '../store/client.ts';
import { newId } from '../store/ids.ts';
import type { MachinePlace } from '../store/operator-views.ts';
import { quantile, report } from './cpu.ts';
import { startServers } from './fronts.ts';
import { fillStore } from './operator-world.ts';

const { values } = parseArgs({
  options: { assets: { type: 'string', default: '100000' }, times: { type: 'string', default: '100' } },
});
const times = Number(values.times);
const pageSize = 50;
const limitMs = 50;
const nobody = { listen: () => ({ stop: () => undefined }), send: () => undefined };

async function run(): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'operator-'));
  const { mongodbUrl, stop } = await startServers(folder);
  const store = await openStore(mongodbUrl, newId('bench'), { log: createLog('silent') });
  try {
    const { projects } = await fillStore(store, Number(values.assets));
    const [project = ''] = projects;
    const console = createConsole({
      store,
      bus: { ...nobody, connected: () => true } as never,
      workers: { alive: () => [], listenedMs: () => 0, look: async () => [], stop: () => undefined },
      times: { pipeline, webhook },
      providers: ['replicate', 'fal'],
      providerStatus: async () => [],
      newId,
      now: Date.now,
    });
    const views: Record<string, MachineFilterQuery> = {
      'under way': {},
      ready: { state: 'ready' },
      'one state': { state: 'pending.stage1.waiting' },
      'state and attempt': { state: 'pending.stage1', attempt: 2 },
      attempt: { attempt: 2 },
      error: { error: 'i2v_failed' },
      project: { project },
      'project and state': { project, state: 'pending' },
      provider: { provider: 'fal' },
      version: { version: 1 },
      stuck: { stuck: 'true' },
      'deliveries under way': { kind: 'delivery' },
      'dead deliveries': { kind: 'delivery', state: 'dead' },
      'stuck deliveries': { kind: 'delivery', stuck: 'true' },
      'failed deliveries': { kind: 'delivery', error: 'timeout' },
    };
    const p95: Record<string, number> = {};
    for (const [name, query] of Object.entries(views)) {
      let after: MachinePlace | undefined;
      p95[name] = await measure(async () => {
        const found = await console.list(query, pageSize, after);
        const last = found?.records.at(-1);
        const ts = last && (found?.isByAge ? last.createdTs : last.enteredTs);
        after =
          last && ts !== undefined && found?.records.length === pageSize ? { ts, id: last._id } : undefined;
      });
    }
    const [{ _id: id = '' } = {}] = (await console.list({ state: 'failed' }, 1))?.records ?? [];
    p95['machine'] = await measure(() => console.detail('asset', id));
    p95['search'] = await measure(() => console.search(id));
    p95['request'] = await measure(() => console.request('req_none'));
    const states = [...createStateTable({ pipeline, webhook }).asset.keys()];
    p95['counts'] = await measure(() => store.operatorViews.countStates('asset', states));
    report({ bench: 'operator', assets: Number(values.assets), limitMs, p95 });
    return Object.entries(p95).every(([, ms]) => ms <= limitMs);
  } finally {
    await store.close();
    await stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(ask: () => Promise<unknown>): Promise<number> {
  await ask();
  const took: number[] = [];
  for (let n = 0; n < times; n += 1) {
    const startedAt = performance.now();
    await ask();
    took.push(performance.now() - startedAt);
  }
  return Number(quantile(took, 0.95).toFixed(1));
}

process.exitCode = (await run()) ? 0 : 1;
