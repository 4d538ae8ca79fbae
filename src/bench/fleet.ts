/**
 * The service as it runs for real, on one machine: two http, two workers and a scheduler behind a balancer, over a
 * cluster of NATS and MongoDB, with stand-ins for model providers.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../demo/free-port.ts';
import { type FakeProviders, startFakeProviders } from '../fake-providers/server.ts';
import { type Balancer, startBalancer } from './balancer.ts';
import { type Cluster, type ClusterOptions, startCluster } from './cluster.ts';
import { type Supervised, supervise } from './processes.ts';
import { addLink } from './toxiproxy.ts';

export type Fleet = {
  cluster: Cluster;
  /** Where clients connect. */
  base: string;
  processes: Supervised[];
  process(name: string): Supervised;
  /** One more process, not ready yet. */
  addProcess(name: string, env: Record<string, string>): Supervised;
  /** What a command needs to reach the same database. */
  env: Record<string, string>;
  providers: FakeProviders;
  /** The same port, through a proxy of that name where there are proxies. */
  link(name: string, port: number): Promise<number>;
  /** Names of all links that can be spoilt. */
  links: string[];
  stop(): Promise<void>;
};

export type FleetOptions = ClusterOptions & {
  /** Of every process, beside what the fleet needs. */
  env?: Record<string, string>;
  /** Of one process. */
  envOf?: Record<string, Record<string, string>>;
  cluster?: Cluster;
};

/** Time that a stand-in takes for a clip, in ms. */
const clipMs = 300;

/** Started and ready. Its data goes with it. */
export async function startFleet({ env = {}, envOf = {}, ...given }: FleetOptions = {}) {
  const cluster = given.cluster ?? (await startCluster(given));
  const { toxiproxyUrl, folder } = cluster;
  const links = toxiproxyUrl === undefined ? [] : [...cluster.links];
  const link: Fleet['link'] = async (name, port) => {
    if (toxiproxyUrl === undefined) return port;
    links.push(name);
    return addLink(toxiproxyUrl, name, port);
  };
  const providers = await startFakeProviders({
    clip: await readFile('src/fake-providers/clip.mp4'),
    runMs: clipMs,
  });
  const providerPort = await link('providers', Number(new URL(providers.url).port));
  const names = ['http-1', 'http-2'] as const;
  const ports = await Promise.all(names.map(() => freePort()));
  const shown: number[] = [];
  for (const [n, name] of names.entries()) shown.push(await link(name, ports[n] ?? 0));
  const balancer = await startBalancer(shown);
  const common = {
    MONGODB_URL: cluster.mongodbUrl,
    MONGODB_DATABASE: `fleet_${randomBytes(4).toString('hex')}`,
    NATS_URL: cluster.natsUrl,
    NATS_PREFIX: `f${randomBytes(4).toString('hex')}.`,
    NATS_REPLICAS: '3',
    NATS_MONITOR_URL: cluster.natsMonitorUrl,
    BASE_URL: balancer.url,
    STORAGE_URL: `file:${join(folder, 'media')}`,
    SECRETS_KEY: randomBytes(32).toString('base64'),
    RENDER_THREADS: '1',
    RATE_LIMIT_FACTOR: '1000',
    ...providerSettings(`http://127.0.0.1:${providerPort}`),
    ...env,
  };
  await mkdir(join(folder, 'logs'), { recursive: true });
  const start = (name: string, own: Record<string, string>) =>
    supervise(
      name,
      { ...common, DATA_DIR: join(folder, name), ...own, ...envOf[name] },
      join(folder, 'logs', `${name}.log`),
    );
  // One after the other: the first makes what all of them need.
  const processes = [start('scheduler', { ROLE: 'scheduler' })];
  await processes[0]?.ready();
  processes.push(
    start('worker-1', { ROLE: 'worker' }),
    start('worker-2', { ROLE: 'worker' }),
    ...names.map((name, n) => start(name, { ROLE: 'http', PORT: String(ports[n]) })),
  );
  await Promise.all(processes.map((one) => one.ready()));

  const fleet: Fleet = {
    cluster,
    base: balancer.url,
    processes,
    process(name) {
      const found = processes.find((one) => one.name === name);
      if (!found) throw new TypeError(`no process is called ${name}`);
      return found;
    },
    addProcess(name, own) {
      const added = start(name, own);
      processes.push(added);
      return added;
    },
    env: common,
    providers,
    link,
    links,
    stop: () => stopAll(processes, balancer, providers, given.cluster ? undefined : cluster),
  };
  return fleet;
}

async function stopAll(
  processes: Supervised[],
  balancer: Balancer,
  providers: FakeProviders,
  cluster: Cluster | undefined,
): Promise<void> {
  await Promise.all(processes.map((one) => one.stop()));
  balancer.close();
  await providers.close();
  await cluster?.stop();
}

function providerSettings(url: string): Record<string, string> {
  return {
    VISION_PROVIDER: 'openai',
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: `${url}/openai/v1`,
    VIDEO_PROVIDER: 'replicate,fal',
    REPLICATE_API_TOKEN: 'r8_test',
    REPLICATE_BASE_URL: `${url}/replicate/v1`,
    FAL_KEY: 'id:secret',
    FAL_BASE_URL: `${url}/fal`,
    FAL_KEYS_URL: `${url}/.well-known/jwks.json`,
    VIDEO_LIMITS: 'replicate=100/1000,fal=100/1000',
  };
}
