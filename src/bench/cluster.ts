/** deploy/cluster.mjs as a child: its addresses, its servers by name, and who leads at the moment. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { MongoClient } from 'mongodb';

export type ClusterServer = { name: string; host: string; shown: string; monitorUrl?: string };

export type Cluster = {
  mongodbUrl: string;
  natsUrl: string;
  natsMonitorUrl: string;
  /** API of the proxies; undefined without them. */
  toxiproxyUrl: string | undefined;
  /** Proxies of the links, by name. */
  links: string[];
  /** Where its data is, and room for more that goes with it. */
  folder: string;
  servers: ClusterServer[];
  /** Process of a server; what was killed is started again under another one. */
  pidOf(name: string): number | undefined;
  /** Name of the mongod that takes writes; undefined while there is none. */
  primary(): Promise<string | undefined>;
  /** Name of the nats-server that leads the stream of commands; undefined while there is none. */
  leader(): Promise<string | undefined>;
  stop(): Promise<void>;
};

type Told = { servers: (ClusterServer & { pid: number })[] } & Pick<
  Cluster,
  'mongodbUrl' | 'natsUrl' | 'natsMonitorUrl' | 'folder'
> & { toxiproxyUrl?: string };

/** `data`: a folder that is kept, with the logs. */
export type ClusterOptions = { isProxied?: boolean; data?: string | undefined };

const askMs = 1_000;

/** Starts it and waits until it can be used. @throws when it cannot be started; it has said why. */
export async function startCluster({ isProxied = false, data }: ClusterOptions = {}): Promise<Cluster> {
  const args = [
    ...['deploy/cluster.mjs', '--attached'],
    ...(isProxied ? ['--toxiproxy'] : []),
    ...(data === undefined ? [] : ['--data', data]),
  ];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const lines = createInterface(child.stdout);
  const first = await Promise.race([once(lines, 'line'), exited.then(() => undefined)]);
  if (!first) throw new Error('the cluster does not start');
  const { servers, toxiproxyUrl, ...urls } = JSON.parse(String(first[0])) as Told;
  const pids = new Map(servers.map(({ name, pid }) => [name, pid]));
  lines.on('line', (line) => {
    const { restarted, pid } = JSON.parse(line) as { restarted: string; pid: number };
    pids.set(restarted, pid);
  });
  const nats = servers.filter(({ monitorUrl }) => monitorUrl !== undefined);
  return {
    ...urls,
    toxiproxyUrl,
    servers,
    links: [...servers.map(({ name }) => name), ...nats.map(({ name }) => `${name}-route`)],
    pidOf: (name) => pids.get(name),
    async primary() {
      const mongods = servers.filter(({ monitorUrl }) => monitorUrl === undefined);
      const answers = await Promise.all(
        mongods.map(async ({ name, host }) => (await isPrimary(host)) && name),
      );
      return answers.find((name) => name !== false);
    },
    async leader() {
      for (const { monitorUrl } of nats) {
        const leader = await commandLeader(monitorUrl ?? '');
        if (leader) return leader;
      }
      return undefined;
    },
    async stop() {
      child.stdin.end();
      await exited;
    },
  };
}

async function isPrimary(host: string): Promise<boolean> {
  const client = new MongoClient(`mongodb://${host}/?directConnection=true`, {
    serverSelectionTimeoutMS: askMs,
    socketTimeoutMS: askMs,
  });
  try {
    return (await client.db('admin').command({ hello: 1 }))['isWritablePrimary'] === true;
  } catch {
    // It has just been killed, or starts.
    return false;
  } finally {
    await client.close();
  }
}

type StreamsAnswer = {
  account_details?: { stream_detail?: { name: string; cluster?: { leader?: string } }[] }[];
};

async function commandLeader(monitorUrl: string): Promise<string | undefined> {
  try {
    const answer = await fetch(`${monitorUrl}/jsz?accounts=true&streams=true`, {
      signal: AbortSignal.timeout(askMs),
    });
    const { account_details = [] } = (await answer.json()) as StreamsAnswer;
    const streams = account_details.flatMap(({ stream_detail = [] }) => stream_detail);
    return streams.find(({ name }) => name.endsWith('CMD'))?.cluster?.leader;
  } catch {
    // The next one knows as well.
    return undefined;
  }
}
