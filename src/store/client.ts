/**
 * The store: one connection to MongoDB and a part per collection. MongoDB's own types stay in this folder.
 *
 * Writes are on a majority and journaled, reads see what a majority has (architecture 6). Every operation has
 * an end: the driver's own time limits cover waiting for a server, for a connection and for the answer.
 */
import {
  type Db,
  type IndexDescription,
  MongoClient,
  MongoDriverError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoOperationTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
} from 'mongodb';
import pRetry from 'p-retry';
import { mail as mailLimits } from '../../schemas/limits.ts';
import { createAccountStore } from './accounts.ts';
import { isDuplicate } from './actors.ts';
import { createAssetStore } from './assets.ts';
import { createAttemptStore } from './attempts.ts';
import { createAuditStore } from './audit.ts';
import { createBulkJobs } from './bulk-jobs.ts';
import { createCrawlQuotaStore } from './crawl-quota.ts';
import { createCrawlStore } from './crawls.ts';
import { createDeepCrawlStore } from './deep-crawls.ts';
import { createDeliveryStore } from './deliveries.ts';
import { createDumpStore } from './dump.ts';
import { createErasedAccounts } from './erased-accounts.ts';
import { createIdempotencyStore } from './idempotency.ts';
import { createIdentityStore } from './identities.ts';
import { createMailOutbox } from './mail-outbox.ts';
import { createMailTokenStore } from './mail-tokens.ts';
import { createMailboxStore } from './mailbox.ts';
import { createMeasures } from './measures.ts';
import { createMigrations } from './migrations.ts';
import { createModelProviderStore } from './model-providers.ts';
import { createOperatorChanges } from './operator-changes.ts';
import { createOperatorViews } from './operator-views.ts';
import { createPartitionStore } from './partitions.ts';
import { type PoolStats, watchPool } from './pool.ts';
import { createPredictionStore } from './predictions.ts';
import { createProjectStore } from './projects.ts';
import { createQuotaStore } from './quota.ts';
import { createReferenceStore } from './references.ts';
import { noBox, type SecretBox } from './sealed.ts';
import { createSecretStore } from './secrets.ts';
import { createSessionStore } from './sessions.ts';
import { createStreamStore } from './streams.ts';
import { createTokenStore } from './tokens.ts';
import { createUploadStore } from './uploads.ts';
import { createUsageStore } from './usage.ts';
import { createUserStore } from './users.ts';
import { createWebhookStore } from './webhooks.ts';

export type StoreLog = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
};

export type Store = ReturnType<typeof createParts> & {
  /** @throws when the store does not answer. */
  ping(signal: AbortSignal): Promise<void>;
  /** Its connections. */
  pool(): PoolStats;
  close(): Promise<void>;
};

const connectMs = 30_000;
/** Longest silence of a server that has been asked something. */
const answerMs = 10_000;
/** Longest wait for a server, and for one of its connections. */
const waitMs = 5_000;
const maxConnections = 50;

/**
 * Connects, tried again for half a minute, and makes the indexes that are missing. Safe to repeat.
 *
 * @param box seals secrets; without one the store does everything but them
 * @param minMembers data-bearing members that the replica set must have
 * @param access `upgrade` also brings the data to this build's version; `restore` takes a database that is being
 *   filled from a backup, which everybody else is refused
 * @throws when the server is not to be had in time, or the signal's reason.
 */
export async function openStore(
  url: string,
  databaseName: string,
  {
    log,
    signal,
    box = noBox,
    minMembers = 1,
    access = 'use',
  }: {
    log: StoreLog;
    signal?: AbortSignal;
    box?: SecretBox;
    minMembers?: number;
    access?: 'use' | 'upgrade' | 'restore';
  },
): Promise<Store> {
  const connect = async () => {
    const client = new MongoClient(url, {
      w: 'majority',
      journal: true,
      readConcernLevel: 'majority',
      retryWrites: true,
      maxPoolSize: maxConnections,
      serverSelectionTimeoutMS: waitMs,
      waitQueueTimeoutMS: waitMs,
      connectTimeoutMS: waitMs,
      socketTimeoutMS: answerMs,
    });
    const pool = watchPool(client);
    try {
      return { client: await client.connect(), pool };
    } catch (cause) {
      await client.close();
      throw cause;
    }
  };
  const { client, pool } = await pRetry(connect, {
    retries: 30,
    minTimeout: 100,
    maxTimeout: 2_000,
    maxRetryTime: connectMs,
    ...(signal ? { signal } : {}),
    onFailedAttempt: ({ error, attemptNumber }) =>
      log.warn({ attempt: attemptNumber, reason: error.message }, 'the store does not answer'),
  });

  const db = client.db(databaseName);
  const parts = createParts(db, client, box);
  try {
    checkReplicaSet(await db.command({ hello: 1 }), minMembers);
    if (access !== 'restore') await parts.migrations.check();
    // Before the indexes: a step may have to put in order what they could not be made over.
    for (const name of access === 'upgrade' ? await parts.migrations.run() : [])
      log.info({ step: name }, 'the data is migrated');
    await ensureIndexes(Object.values(parts));
  } catch (cause) {
    await client.close();
    throw cause;
  }
  return {
    ...parts,
    async ping(signal) {
      signal.throwIfAborted();
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      });
      await Promise.race([db.command({ ping: 1 }), aborted]);
    },
    pool,
    close: () => client.close(),
  };
}

/**
 * A standalone server has no transactions and confirms nothing on a majority, and a set of fewer than three loses what
 * it has confirmed, or stands still, when one is lost.
 *
 * @param hello the server's answer to `hello`
 * @throws when it belongs to no replica set, or to one with fewer members than wanted
 */
export function checkReplicaSet(
  { setName, msg, hosts = [], passives = [] }: Hello,
  minMembers: number,
): void {
  // A router of a sharded cluster says so instead.
  if (msg === 'isdbgrid') return;
  if (setName === undefined) {
    throw new Error('MongoDB runs standalone: make it a replica set (one member will do)');
  }
  const members = hosts.length + passives.length;
  if (members >= minMembers) return;
  throw new Error(
    `the replica set ${setName} has ${members} of the ${minMembers} members that production needs (or SINGLE_MACHINE=true)`,
  );
}

type Hello = { setName?: string; msg?: string; hosts?: string[]; passives?: string[] };

/**
 * Whether an error of the store means that it cannot be reached, rather than that a request was wrong: such a
 * request is answered 503 and may be sent again.
 */
export function isStoreOutage(cause: unknown): boolean {
  return (
    cause instanceof MongoNetworkError ||
    cause instanceof MongoServerSelectionError ||
    cause instanceof MongoOperationTimeoutError ||
    cause instanceof MongoTopologyClosedError ||
    cause instanceof MongoNotConnectedError ||
    // So many wait for a connection that the wait is over before one is free. The driver does not export it.
    (cause instanceof MongoDriverError && cause.name === 'MongoWaitQueueTimeoutError') ||
    (cause instanceof MongoServerError &&
      (cause.hasErrorLabel('RetryableWriteError') || outages.has(Number(cause.code)))) ||
    isCutOff(cause)
  );
}

/** A connection that the other end has closed a moment ago: the driver lets the error of node's socket through. */
function isCutOff(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && (cause.code === 'EPIPE' || cause.code === 'ECONNRESET');
}

/**
 * MongoDB's codes for an operation that has passed the time it was given, and for those that met a stop or a change
 * of primary: the driver tries these once more, and an election may take longer than that.
 */
const outages = new Set([50, 6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436]);

/** Whether an insert failed because a record with a unique value of its own was there first. */
export const isTaken = isDuplicate;

function createParts(db: Db, client: MongoClient, box: SecretBox) {
  const users = createUserStore(db);
  const sessions = createSessionStore(db);
  const quota = createQuotaStore(db);
  const audit = createAuditStore(db);
  const projects = createProjectStore(db, client, box);
  const tokens = createTokenStore(db);
  const mailTokens = createMailTokenStore(db);
  const outbox = createMailOutbox(db);
  return {
    users,
    projects,
    sessions,
    identities: createIdentityStore(db),
    tokens,
    mailTokens,
    outbox,
    mailbox: createMailboxStore(db, { kept: mailLimits.mailboxKept, days: mailLimits.mailboxDays }),
    attempts: createAttemptStore(db),
    uploads: createUploadStore(db),
    idempotency: createIdempotencyStore(db),
    assets: createAssetStore(db),
    quota,
    crawlQuota: createCrawlQuotaStore(db),
    usage: createUsageStore(db),
    audit,
    operatorChanges: createOperatorChanges(client, { users, sessions, quota, audit }),
    operatorViews: createOperatorViews(db),
    bulkJobs: createBulkJobs(db),
    crawls: createCrawlStore(db),
    deepCrawls: createDeepCrawlStore(db, client),
    partitions: createPartitionStore(db),
    streams: createStreamStore(db),
    webhooks: createWebhookStore(db, box),
    deliveries: createDeliveryStore(db),
    predictions: createPredictionStore(db),
    modelProviders: createModelProviderStore(db),
    secrets: createSecretStore(db, box),
    measures: createMeasures(db),
    accounts: createAccountStore(client, { users, projects, sessions, tokens, mailTokens, outbox }),
    erasedAccounts: createErasedAccounts(db, client, projects),
    migrations: createMigrations(db),
    dump: createDumpStore(db, client),
    references: createReferenceStore(db),
  };
}

/** Names of all indexes that the parts make, by collection. Asks no server. */
export async function wantedIndexes(): Promise<Map<string, string[]>> {
  const wanted = new Map<string, string[]>();
  const note = (collection: string, specs: IndexDescription[]) => {
    const names = specs.map(({ key, name }) => name ?? Object.entries(key).flat().join('_'));
    wanted.set(collection, [...(wanted.get(collection) ?? []), ...names]);
  };
  const collection = (name: string) => ({
    createIndex: async (key: IndexDescription['key'], options: object = {}) =>
      note(name, [{ key, ...options }]),
    createIndexes: async (specs: IndexDescription[]) => note(name, specs),
  });
  // The parts take nothing else of a database before they are asked for something.
  const db = { collection } as unknown as Db;
  await ensureIndexes(Object.values(createParts(db, undefined as unknown as MongoClient, noBox)));
  return wanted;
}

/** One after another: all at once take as long, and a connection each. */
async function ensureIndexes(parts: object[]): Promise<void> {
  for (const part of parts) {
    if ('ensureIndexes' in part) await (part.ensureIndexes as () => Promise<void>)();
  }
}
