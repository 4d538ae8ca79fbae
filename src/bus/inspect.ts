/** NATS seen from outside the running bus: for `doctor`, and for a restore, which needs a bus without streams. */
import { connect, type JetStreamManager, type StreamInfo } from 'nats';
import { runtime } from '../../schemas/limits.ts';
import { readAddress } from './address.ts';
import { isStreamMissing } from './streams.ts';
import { createSubjects } from './subjects.ts';

export type StreamFacts = {
  name: string;
  messages: number;
  bytes: number;
  replicas: number;
  isOnDisk: boolean;
  /** Replicas that are away or behind, and `no leader`. */
  ailing: string[];
};

export type NatsFacts = {
  version: string;
  hasJetStream: boolean;
  servers: number;
  roundTripMs: number;
  /** The server's clock minus ours; undefined when no stream is there to be asked for. */
  skewMs: number | undefined;
  /** Of the account; a negative limit means none. */
  storage: { usedBytes: number; limitBytes: number } | undefined;
  streams: StreamFacts[];
};

const connectMs = 4_000;
const answerMs = 5_000;

/** Asks for everything and hangs up. @throws when the server is not to be had. */
export async function inspectNats(url: string, prefix: string): Promise<NatsFacts> {
  return withManager(url, async (manager, connection) => {
    const roundTripMs = await connection.rtt();
    const info = connection.info;
    const base = {
      version: info?.version ?? 'unknown',
      servers: Math.max(1, info?.connect_urls?.length ?? 0),
      roundTripMs,
    };
    if (info?.jetstream !== true)
      return { ...base, hasJetStream: false, skewMs: undefined, storage: undefined, streams: [] };
    const account = await manager.getAccountInfo();
    const found = await streamsOf(manager, prefix);
    return {
      ...base,
      hasJetStream: true,
      skewMs: found.map(({ skewMs }) => skewMs).find((ms) => ms !== undefined),
      storage: { usedBytes: account.storage, limitBytes: account.limits.max_storage },
      streams: found.map(({ info: one }) => toFacts(one)),
    };
  });
}

/** Streams of the installation with that prefix, and how much is in them. */
export async function listStreams(url: string, prefix: string): Promise<StreamFacts[]> {
  return withManager(url, async (manager) =>
    (await streamsOf(manager, prefix)).map(({ info }) => toFacts(info)),
  );
}

/** Deletes them: what they hold is made again of the documents. Safe to repeat. */
export async function deleteStreams(url: string, prefix: string): Promise<void> {
  await withManager(url, async (manager) => {
    for (const { info } of await streamsOf(manager, prefix)) await manager.streams.delete(info.config.name);
  });
}

type Connection = Awaited<ReturnType<typeof connect>>;

async function withManager<Result>(
  url: string,
  work: (manager: JetStreamManager, connection: Connection) => Promise<Result>,
): Promise<Result> {
  const connection = await connect({
    ...readAddress(url),
    name: 'animated-asset-service admin',
    timeout: connectMs,
    reconnect: false,
  });
  try {
    return await work(await connection.jetstreamManager({ timeout: answerMs, checkAPI: false }), connection);
  } finally {
    await connection.close();
  }
}

async function streamsOf(manager: JetStreamManager, prefix: string) {
  const { streams } = createSubjects(prefix, runtime.partitions);
  const found = await Promise.all(
    Object.values(streams).map(async (name) => {
      const askedTs = Date.now();
      const askedAt = performance.now();
      const info = await manager.streams.info(name).catch((cause: unknown) => {
        if (isStreamMissing(cause)) return undefined;
        throw cause;
      });
      if (info === undefined) return [];
      const middleTs = askedTs + (performance.now() - askedAt) / 2;
      const serverTs = Date.parse(String((info as StreamInfo & { ts?: string }).ts));
      return [{ info, skewMs: Number.isNaN(serverTs) ? undefined : serverTs - middleTs }];
    }),
  );
  return found.flat();
}

function toFacts({ config, state, cluster }: StreamInfo): StreamFacts {
  const replicas = cluster?.replicas ?? [];
  const ailing = replicas
    .filter(({ current, offline }) => offline === true || !current)
    .map(({ name, offline }) => `${name} is ${offline === true ? 'away' : 'behind'}`);
  const hasLeader = config.num_replicas === 1 || cluster?.leader !== undefined;
  return {
    name: config.name,
    messages: state.messages,
    bytes: state.bytes,
    replicas: config.num_replicas,
    isOnDisk: config.storage === 'file',
    ailing: hasLeader ? ailing : [...ailing, 'no leader'],
  };
}
