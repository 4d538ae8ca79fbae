/**
 * The servers that the service needs, started as children with their data in one folder.
 *
 *   DATA_DIR/lock            who uses the folder          DATA_DIR/mongodb    data of mongod, and its port
 *   DATA_DIR/children.json   servers to end after a crash DATA_DIR/nats       configuration and JetStream
 *   DATA_DIR/logs            one bounded log for each
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdir, stat, truncate } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Child, createLauncher } from './child.ts';
import { findFfmpeg } from './ffmpeg.ts';
import { type Binary, findBinary } from './find.ts';
import { lockFolder } from './lock.ts';
import { startMongod } from './mongod.ts';
import { startNatsServer } from './nats-server.ts';

const startTimeoutMs = 60_000;
/** Within the time a stop may take altogether (decisions 10). */
const stopGraceMs = 7_000;
const maxLogBytes = 20 * 1024 * 1024;
const logCheckMs = 10 * 60_000;

export type Log = {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
};

export type EmbeddedOptions = {
  dataDir: string;
  log: Log;
  /** Which servers to start: those that no URL names. */
  mongodb: boolean;
  nats: boolean;
  /** A server has ended by itself. The others still run; nothing is restarted. */
  onExit?: (name: string, code: number | string) => void;
};

export type Embedded = {
  mongodbUrl: string | undefined;
  natsUrl: string | undefined;
  natsMonitorUrl: string | undefined;
  ffmpegPath: string;
  pids: number[];
  /** Ends the servers cleanly within 8 s and frees the data folder. Safe to repeat. */
  stop(): Promise<void>;
};

/**
 * Starts what is asked for and waits until it can be used. Without servers it only looks for ffmpeg and leaves the
 * data folder alone.
 * @throws {Error} when a program is missing, another process uses the folder, a server does not start, or `signal`
 *   aborts. Nothing is left running then.
 */
export async function startEmbedded(options: EmbeddedOptions, signal?: AbortSignal): Promise<Embedded> {
  const { mongodb, nats } = options;
  const dataDir = resolve(options.dataDir);
  const ffmpegPath = await findFfmpeg();
  if (!mongodb && !nats) {
    return { ...noUrls, ffmpegPath, pids: [], stop: async () => undefined };
  }

  const mongodBinary = mongodb ? await findBinary('mongod') : undefined;
  const natsBinary = nats ? await findBinary('natsServer') : undefined;
  const unlock = lockFolder(dataDir);
  try {
    const logs = join(dataDir, 'logs');
    await mkdir(logs, { recursive: true });
    const running = await startServers({ dataDir, logs, mongodBinary, natsBinary }, signal);
    return { ffmpegPath, ...watch(running, { ...options, mongodLog: join(logs, mongodLogName), unlock }) };
  } catch (cause) {
    unlock();
    throw cause;
  }
}

const noUrls = { mongodbUrl: undefined, natsUrl: undefined, natsMonitorUrl: undefined };
const mongodLogName = 'mongod.log';

type Plan = {
  dataDir: string;
  logs: string;
  mongodBinary: Binary | undefined;
  natsBinary: Binary | undefined;
};

/** Starts both at once; when one fails the other is ended too. */
async function startServers({ dataDir, logs, mongodBinary, natsBinary }: Plan, signal?: AbortSignal) {
  const mongodLog = join(logs, mongodLogName);
  await boundLog(mongodLog);
  const { launch, children } = await createLauncher(dataDir);
  const giveUp = new AbortController();
  const limits = giveUp.signal;
  const leave = () => giveUp.abort(signal?.reason);
  signal?.addEventListener('abort', leave, { once: true });
  // Programs were looked for until here, which takes a while on a busy machine.
  if (signal?.aborted) leave();
  const timer = setTimeout(
    () => giveUp.abort(new Error(`not ready within ${startTimeoutMs} ms`)),
    startTimeoutMs,
  );
  const starts = [
    mongodBinary &&
      startMongod(
        { binary: mongodBinary, folder: join(dataDir, 'mongodb'), logFile: mongodLog, launch },
        limits,
      ),
    natsBinary &&
      startNatsServer(
        {
          binary: natsBinary,
          folder: join(dataDir, 'nats'),
          logFile: join(logs, 'nats-server.log'),
          maxLogBytes,
          launch,
        },
        limits,
      ),
  ] as const;
  try {
    const [mongo, bus] = await Promise.all(starts);
    return { mongodbUrl: mongo?.url, natsUrl: bus?.url, natsMonitorUrl: bus?.monitorUrl, children };
  } catch (cause) {
    giveUp.abort(cause);
    await Promise.allSettled(starts);
    await stopAll(children);
    throw cause;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', leave);
  }
}

type Running = Awaited<ReturnType<typeof startServers>>;
type WatchOptions = EmbeddedOptions & { mongodLog: string; unlock: () => void };

/** Reports servers that end by themselves, keeps the log of mongod small, and stops everything when asked. */
function watch({ children, ...urls }: Running, { log, onExit, mongodLog, unlock }: WatchOptions) {
  let stopping: Promise<void> | undefined;
  const logCheck = setInterval(() => {
    boundLog(mongodLog).catch((err: unknown) => log.warn({ err }, 'cannot bound the log of mongod'));
  }, logCheckMs);
  logCheck.unref();

  for (const { name, pid, exited } of children.filter((child) => !child.hasExited())) {
    log.info({ server: name, pid }, 'embedded server started');
    void exited.then((code) => {
      if (stopping !== undefined) return;
      log.error({ server: name, pid, code }, 'embedded server ended by itself');
      onExit?.(name, code);
    });
  }

  const stop = async () => {
    clearInterval(logCheck);
    await stopAll(children);
    unlock();
  };
  return {
    ...urls,
    pids: children.filter((child) => !child.hasExited()).map(({ pid }) => pid),
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}

async function stopAll(children: readonly Child[]): Promise<void> {
  await Promise.all(children.map((child) => child.stop(stopGraceMs)));
}

/** Keeps a log that its writer only appends to below the limit: what there is moves to `<name>.1`. */
async function boundLog(file: string): Promise<void> {
  if (!existsSync(file) || (await stat(file)).size < maxLogBytes) return;
  await copyFile(file, `${file}.1`);
  await truncate(file);
}
