/**
 * The routes of the public proxy over a project and assets in memory, with files in a real folder: what a process
 * is that knows all that is asked for. For benchmarks; everything between socket and storage is the real thing.
 */
import { createMediaFiles } from '../http/media-files.ts';
import { createPace } from '../http/pace.ts';
import { proxyRoutes } from '../http/proxy.ts';
import { createLookups } from '../http/proxy-lookups.ts';
import { createMediaServer } from '../http/serve-media.ts';
import { type Server, startServer } from '../http/server.ts';
import type { Services } from '../http/services.ts';
import { createLog } from '../log.ts';
import { createFileStorage } from '../media/file-storage.ts';
import { hubClock } from '../sse/clock.ts';
import { createRunEnds } from '../sse/run-ends.ts';

export const key = 'pk_abcdefghijklmnopqrstuvwx';
export const secret = 'sk_abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq';
export const allowedOrigin = 'https://www.example.com';
const baseUrl = 'https://animate.example.net';

/** Storage key of an asset's animation or poster. */
export const keyOf = (assetId: string, extension: 'mp4' | 'jpg'): string =>
  `media/${assetId}/1-0123456789abcdef.${extension}`;

/** An asset is finished unless its id begins with `ast_pending`. */
export type ProxyWorld = {
  server: Server;
  /** Reads of projects and assets from where a database would be. */
  reads(): number;
  waiting(): number;
  /** Tells of the end of a run, after which the asset is finished. */
  finish(assetId: string): void;
};

export async function startProxyWorld(folder: string): Promise<ProxyWorld> {
  const storage = await createFileStorage(folder);
  const files = createMediaFiles(storage);
  let reads = 0;
  const finished = new Set<string>();
  const calls = new Set<(fact: unknown) => void>();
  const runEnds = createRunEnds(
    {
      onFactsNamed: (event, call) => {
        if (event === 'ready') calls.add(call);
        return { stop: () => void calls.delete(call) };
      },
    },
    hubClock,
  );
  const project = {
    id: 'prj_1',
    proxyKey: key,
    signingSecret: { open: () => secret },
    allowedOrigins: ['https://example.com'],
    sourceHosts: null,
  };
  const lookups = createLookups<typeof project>({
    async findProjectByKey(asked) {
      reads += 1;
      return asked === key ? project : undefined;
    },
    async findAsset(id) {
      reads += 1;
      return assetOf(id, id.startsWith('ast_pending') && !finished.has(id)) as never;
    },
    isLive: () => true,
    now: Date.now,
  });
  runEnds.onChange(({ assetId }) => lookups.forgetAsset(assetId));
  const none = () => {
    throw new Error('nothing is made here');
  };
  const routes = proxyRoutes<typeof project>({
    config: { baseUrl, mode: 'production', trustedProxies: [] },
    lookups,
    assets: { lookup: async () => undefined, prepare: none, etaMs: async () => 5_000 },
    files,
    media: createMediaServer(files, createPace()),
    posters: { find: none, findMade: none },
    judgeSource: () => ({ ok: true }),
    waitForEnd: runEnds.waitForEnd,
    now: Date.now,
  });
  const services = { log: createLog('info'), config: { baseUrl, trustedProxies: [] } };
  return {
    server: await startServer({
      host: '127.0.0.1',
      port: 0,
      routes,
      services: services as unknown as Services,
    }),
    reads: () => reads,
    waiting: () => runEnds.waiting,
    finish(assetId) {
      finished.add(assetId);
      const fact = { event: 'ready', ts: Date.now(), attempt: 1, request_id: 'req_bench', run: 1 };
      for (const call of calls) call({ ...fact, asset_id: assetId, project_id: project.id });
    },
  };
}

function assetOf(id: string, isPending: boolean) {
  const media = { run: 1, mp4Key: keyOf(id, 'mp4'), posterKey: keyOf(id, 'jpg') };
  return {
    id,
    projectId: 'prj_1',
    status: isPending ? 'pending' : 'ready',
    state: isPending ? 'pending.single' : 'ready',
    src: 'https://images.example.com/a.png',
    run: 1,
    media: isPending ? null : media,
    error: null,
    facts: [],
  };
}
