/** Processes of the service under a supervisor: what ends by itself is started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

export type Supervised = {
  name: string;
  pid(): number;
  /** How often it was started again. */
  restarts(): number;
  /** Resolves when the process that runs now, or one after it, has said that it is ready. */
  ready(): Promise<void>;
  /** Answers false for one that has ended by itself in this very moment. */
  kill(signal: NodeJS.Signals): boolean;
  /** Ends it by SIGTERM and keeps it ended. Answers its exit code, null when it had to be killed. */
  stop(): Promise<number | null>;
  /** A stop, then another process in its place that is ready. Answers the exit code of the first. */
  replace(env?: Record<string, string>): Promise<number | null>;
};

/** How the image, the unit and `npm start` begin the service: options of Node, and variables that the C library reads. */
export const nodeOptions = ['--min-semi-space-size=16'];
export const memoryEnv = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '131072' };

const program = [...nodeOptions, 'dist/src/main.js'];
const restartAfterMs = 200;
/** Longer than the service gives itself. */
const stopMs = 15_000;
const readyText = '"msg":"ready"';

/** @param logFile takes what it prints, of all its lives */
export function supervise(name: string, env: Record<string, string>, logFile: string): Supervised {
  const log = createWriteStream(logFile, { flags: 'a' });
  let settings = env;
  let restarts = 0;
  let isStopped = false;
  let child: ChildProcess;
  let ready: Promise<void> | undefined;
  let tellReady: (() => void) | undefined;

  const start = (): void => {
    // Who waits for one that has ended before it was ready waits for the next.
    if (tellReady === undefined) {
      ready = new Promise((resolve) => {
        tellReady = resolve;
      });
    }
    const started = spawn(process.execPath, program, {
      env: { ...process.env, ...memoryEnv, NODE_ENV: 'development', LOG_LEVEL: 'info', ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    started.stdout.on('data', (data: Buffer) => {
      log.write(data);
      if (!data.includes(readyText)) return;
      tellReady?.();
      tellReady = undefined;
    });
    started.stderr.on('data', (data: Buffer) => log.write(data));
    started.once('exit', () => {
      if (isStopped || started !== child) return;
      setTimeout(() => {
        if (isStopped || started !== child) return;
        restarts += 1;
        start();
      }, restartAfterMs);
    });
    child = started;
  };
  start();

  const end = async (): Promise<number | null> => {
    isStopped = true;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    // One that was paused hears nothing else.
    child.kill('SIGCONT');
    const kill = setTimeout(() => child.kill('SIGKILL'), stopMs);
    await exited;
    clearTimeout(kill);
    return child.exitCode;
  };

  return {
    name,
    pid: () => child.pid ?? 0,
    restarts: () => restarts,
    ready: async () => ready,
    kill: (signal) => child.kill(signal),
    async stop() {
      const code = await end();
      log.end();
      return code;
    },
    async replace(more = {}) {
      const code = await end();
      settings = { ...settings, ...more };
      isStopped = false;
      start();
      await ready;
      return code;
    },
  };
}
