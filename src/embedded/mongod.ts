/**
 * mongod as a child on loopback: a replica set of one, since transactions and majority writes need a set.
 *
 * Its port stays with the data folder, because the set's own configuration names it. When something else has taken
 * the port, another is chosen and the set is told by force, which is safe with one member.
 */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { type Db, MongoClient, MongoServerError } from 'mongodb';
import { z } from 'zod';
import { type Child, type Launch, untilReady } from './child.ts';
import type { Binary } from './find.ts';

const setName = 'rs0';
const maxPorts = 3;
const commandTimeoutMs = 5_000;
/** mongod's exit code when its address is in use. */
const addressInUse = 48;
const notYetInitialized = 94;
const alreadyInitialized = 23;

const PortFile = z.object({ port: z.int().min(1).max(65_535) });
const SetConfig = z.looseObject({ version: z.int(), members: z.array(z.looseObject({ host: z.string() })) });

export type MongodOptions = {
  binary: Binary;
  /** Its data folder, made when absent. */
  folder: string;
  logFile: string;
  launch: Launch;
};

/** Starts mongod and waits until it is primary. Answers its URL. @throws {Error} when it does not become primary. */
export async function startMongod(options: MongodOptions, signal: AbortSignal) {
  await mkdir(options.folder, { recursive: true });
  for (let tries = 1; ; tries++) {
    const port = await choosePort(options.folder);
    const child = await options.launch('mongod', options.binary, mongodArgs(port, options));
    try {
      await untilReady(child, () => accepts(port), signal);
      await becomePrimary(child, `127.0.0.1:${port}`, signal);
      return { child, url: `mongodb://127.0.0.1:${port}/?replicaSet=${setName}` };
    } catch (cause) {
      // Somebody else took the port between the choice and mongod's start.
      const isTaken = child.hasExited() && (await child.exited) === addressInUse;
      if (!isTaken || tries === maxPorts) throw cause;
    }
  }
}

function mongodArgs(port: number, { folder, logFile }: MongodOptions): string[] {
  return [
    ...['--dbpath', folder, '--port', String(port), '--bind_ip', '127.0.0.1', '--nounixsocket'],
    ...['--replSet', setName, '--oplogSize', '512'],
    ...['--wiredTigerCacheSizeGB', '0.5', '--wiredTigerCollectionBlockCompressor', 'zstd'],
    ...['--logpath', logFile, '--logappend', '--quiet', '--slowms', '1000'],
    ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
    // There is no other member to hand over to, so nothing to wait for at SIGTERM.
    ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
  ];
}

/** The folder's port while it is free, else a new one, which is kept with the folder. */
async function choosePort(folder: string): Promise<number> {
  const file = join(folder, 'port.json');
  const kept = existsSync(file) ? PortFile.safeParse(JSON.parse(readFileSync(file, 'utf8'))) : undefined;
  if (kept?.success === true && (await freePort(kept.data.port)) !== undefined) return kept.data.port;
  const port = await freePort(0);
  if (port === undefined) throw new Error('no port is free on 127.0.0.1');
  await writeFile(`${file}.new`, JSON.stringify({ port }));
  await rename(`${file}.new`, file);
  return port;
}

/** The port, or any free one for 0; undefined when it is taken. */
function freePort(port: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? address?.port : undefined));
    });
  });
}

/** True once somebody accepts connections there: the driver by itself would ask only every half second. */
function accepts(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    socket.setTimeout(commandTimeoutMs, () => socket.destroy());
    socket.once('connect', () => {
      resolve(true);
      socket.destroy();
    });
    socket.once('error', () => socket.destroy());
    socket.once('close', () => resolve(undefined));
  });
}

async function becomePrimary(child: Child, host: string, signal: AbortSignal): Promise<void> {
  const client = new MongoClient(`mongodb://${host}/?directConnection=true`, {
    serverSelectionTimeoutMS: commandTimeoutMs,
    socketTimeoutMS: commandTimeoutMs,
  });
  try {
    await untilReady(child, () => stepTowardsPrimary(client.db('admin'), host), signal);
  } finally {
    await client.close();
  }
}

/** Looks how far the set is and does the next thing; every one of them is safe to repeat. True when it is primary. */
async function stepTowardsPrimary(admin: Db, host: string): Promise<true | undefined> {
  const hello = await admin.command({ hello: 1 });
  if (hello['isWritablePrimary'] === true) return true;
  const config = await readConfig(admin);
  if (config === undefined) {
    await initiate(admin, host);
  } else if (config.members[0]?.host !== host) {
    const moved = { ...config, version: config.version + 1, members: [{ _id: 0, host }] };
    await admin.command({ replSetReconfig: moved, force: true });
  }
  return undefined;
}

async function readConfig(admin: Db): Promise<z.infer<typeof SetConfig> | undefined> {
  try {
    return SetConfig.parse((await admin.command({ replSetGetConfig: 1 }))['config']);
  } catch (cause) {
    if (cause instanceof MongoServerError && cause.code === notYetInitialized) return undefined;
    throw cause;
  }
}

async function initiate(admin: Db, host: string): Promise<void> {
  try {
    await admin.command({ replSetInitiate: { _id: setName, members: [{ _id: 0, host }] } });
  } catch (cause) {
    // The configuration on disk was still being loaded when it was asked for.
    if (!(cause instanceof MongoServerError && cause.code === alreadyInitialized)) throw cause;
  }
}

/**
 * Address of the mongod whose data are in a folder, as its last start kept it: for tools that talk to a running
 * service. Undefined when none was ever started there.
 */
export function keptMongodbUrl(folder: string): string | undefined {
  const file = join(folder, 'port.json');
  if (!existsSync(file)) return undefined;
  const { port } = PortFile.parse(JSON.parse(readFileSync(file, 'utf8')));
  return `mongodb://127.0.0.1:${port}/?replicaSet=${setName}`;
}
