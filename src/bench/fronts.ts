/** Front ends in processes of their own over shared servers, as benchmarks need them that look at several processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { newKey } from '../auth/secret-box.ts';
import { freePort } from '../demo/free-port.ts';
import { startEmbedded } from '../embedded/embedded.ts';
import { createLog } from '../log.ts';

export type Front = { base: string; child: ChildProcess };

const main = fileURLToPath(new URL('../main.js', import.meta.url));
/** The same for all processes: what one seals, the others open. */
const secretsKey = newKey();
const startMs = 60_000;

/** The servers of MONGODB_URL and NATS_URL, else new ones in a folder. */
export async function startServers(dataDir: string) {
  const { MONGODB_URL, NATS_URL } = process.env;
  if (MONGODB_URL && NATS_URL)
    return { mongodbUrl: MONGODB_URL, natsUrl: NATS_URL, stop: async () => undefined };
  const embedded = await startEmbedded({
    dataDir,
    log: createLog('silent'),
    mongodb: true,
    nats: true,
    onExit: (name, code) => console.error(`${name} ended by itself (${code})`),
  });
  return {
    mongodbUrl: embedded.mongodbUrl ?? '',
    natsUrl: embedded.natsUrl ?? '',
    stop: () => embedded.stop(),
  };
}

/** Starts a process. @param shared settings that all of them have, those of the servers among them. */
export async function startFront(dataDir: string, shared: Record<string, string>): Promise<Front> {
  const port = await freePort();
  const env = {
    ...process.env,
    ...shared,
    SECRETS_KEY: secretsKey,
    DATA_DIR: dataDir,
    PORT: String(port),
    ROLE: 'http',
    LOG_LEVEL: 'error',
  };
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', process.stderr, 'inherit'] });
  process.on('exit', () => child.kill('SIGTERM'));
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit(1));
  return { base: `http://127.0.0.1:${port}`, child };
}

export async function untilReady({ base, child }: Front): Promise<void> {
  for (const until = performance.now() + startMs; performance.now() < until; await sleep(100)) {
    if (child.exitCode !== null) throw new Error('a front end ended by itself');
    const answer = await fetch(`${base}/readyz`).catch(() => undefined);
    if (answer?.status === 200) return;
  }
  throw new Error('a front end did not start in time');
}

export async function endFront({ child }: Front): Promise<void> {
  child.kill('SIGTERM');
  if (child.exitCode === null) await once(child, 'exit');
}
