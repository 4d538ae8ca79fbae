/**
 * The three streams and what the server must be able to do.
 *
 * Old servers drop settings they do not know without a word, so what comes back is compared with what was
 * asked for, and a server that is too old is refused.
 */
import {
  type JetStreamManager,
  type NatsConnection,
  nanos,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from 'nats';
import { sse } from '../../schemas/limits.ts';
import type { Subjects } from './subjects.ts';

const minServer: [major: number, minor: number] = [2, 12];
const duplicateWindowMs = 10 * 60_000;
/** Above every stored position with room for messages whose positions were not flushed yet. */
const restartGap = 1_000_000;

export type StreamOptions = {
  replicas: number;
  /** Highest stored position: a command stream that has less has lost messages (architecture 3a). */
  lastPosition: () => Promise<number>;
  /**
   * After which sequence a command stream that is made anew begins: above every stored position and every
   * stream of before. Without it, after the highest stored position.
   */
  beginAfter?: () => Promise<number>;
};

/** @throws when the server is older than 2.12 or has no JetStream. */
export function checkServer(connection: NatsConnection): void {
  const version = connection.info?.version ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < minServer[0] || (major === minServer[0] && minor < minServer[1])) {
    throw new Error(`nats-server ${version} is too old: ${minServer.join('.')} or newer is needed`);
  }
  if (connection.info?.jetstream !== true)
    throw new Error('nats-server runs without JetStream: start it with -js');
}

/**
 * Makes the streams that are missing and checks those that are there. Safe to repeat and to race.
 *
 * A command stream that ends below the stored positions, an old copy perhaps, would never be read: it is emptied
 * and goes on above them. What it held is found in the documents, as after the loss of all (src/actors/reconcile.ts).
 */
export async function ensureStreams(
  manager: JetStreamManager,
  subjects: Subjects,
  { replicas, lastPosition, beginAfter = lastPosition }: StreamOptions,
): Promise<void> {
  const common = {
    storage: StorageType.File,
    num_replicas: replicas,
    duplicate_window: nanos(duplicateWindowMs),
    allow_direct: true,
    allow_atomic: true,
  };
  await ensure(manager, {
    ...common,
    name: subjects.streams.facts,
    subjects: [subjects.allFacts],
    retention: RetentionPolicy.Limits,
    max_age: nanos(sse.keptHours * 3_600_000),
  });
  await ensure(manager, {
    ...common,
    name: subjects.streams.work,
    subjects: [subjects.allWork],
    retention: RetentionPolicy.Workqueue,
  });
  await ensure(
    manager,
    {
      ...common,
      name: subjects.streams.commands,
      subjects: [subjects.commandsPublished],
      retention: RetentionPolicy.Limits,
      subject_transform: { src: subjects.commandsPublished, dest: subjects.commandTransform },
    },
    async () => {
      const last = await beginAfter();
      return last === 0 ? {} : { first_seq: last + restartGap };
    },
  );
  const { state } = await manager.streams.info(subjects.streams.commands);
  if (state.last_seq < (await lastPosition())) {
    const seq = (await beginAfter()) + restartGap;
    await manager.streams.purge(subjects.streams.commands, { seq });
  }
}

/** When the streams were made: another answer means that what they held before is gone. */
export async function whenMade(manager: JetStreamManager, subjects: Subjects): Promise<string> {
  const { facts, work, commands } = subjects.streams;
  const made = [facts, work, commands].map(async (name) => (await manager.streams.info(name)).created);
  return (await Promise.all(made)).join();
}

/** Younger than the client's types: many messages may be stored as one batch. */
type Config = Partial<StreamConfig> & { name: string } & Younger;
type Younger = { allow_atomic?: boolean };

async function ensure(
  manager: JetStreamManager,
  config: Config,
  onCreate: () => Promise<Partial<StreamConfig>> = async () => ({}),
): Promise<void> {
  const find = () => manager.streams.info(config.name).catch(ignoreMissing);
  const make = async () =>
    add(manager, { ...config, ...(await onCreate()) }).catch(async (cause: unknown) => {
      // Another process was first, perhaps with another beginning.
      const other = await find();
      if (other) return other.config;
      throw cause;
    });
  const there: StreamConfig & Younger = (await find())?.config ?? (await make());
  // One that was made before there were batches is told of them.
  const found = there.allow_atomic ? there : await allowBatches(manager, config.name);
  for (const key of ['allow_atomic', 'retention', 'subjects', 'subject_transform', 'num_replicas'] as const) {
    if (config[key] === undefined || JSON.stringify(found[key]) === JSON.stringify(config[key])) continue;
    throw new Error(
      `stream ${config.name} has ${key} ${JSON.stringify(found[key])}, wanted ${JSON.stringify(config[key])}`,
    );
  }
}

async function allowBatches(manager: JetStreamManager, name: string): Promise<StreamConfig & Younger> {
  const changes: Partial<StreamConfig> & Younger = { allow_atomic: true };
  return (await manager.streams.update(name, changes)).config;
}

async function add(manager: JetStreamManager, config: Config): Promise<StreamConfig> {
  try {
    return (await manager.streams.add(config)).config;
  } catch (cause) {
    if (!tooFewServers.has(codeOf(cause))) throw cause;
    throw new Error(
      `NATS has too few servers for ${config.num_replicas} replicas of each stream: add some, or lower NATS_REPLICAS`,
      { cause },
    );
  }
}

const streamNotFound = 10059;
/** No suitable peers, and a server that belongs to no cluster. */
const tooFewServers = new Set([10005, 10074]);

/** Whether a request has failed because its stream is not there. */
export function isStreamMissing(cause: unknown): boolean {
  return codeOf(cause) === streamNotFound;
}

function ignoreMissing(cause: unknown): undefined {
  if (!isStreamMissing(cause)) throw cause;
}

function codeOf(cause: unknown): number {
  return (cause as { api_error?: { err_code?: number } }).api_error?.err_code ?? 0;
}
