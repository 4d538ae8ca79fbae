/**
 * Draws pages whose content is made by scripts, where the operator has a browser for it: each in a process of its
 * own, one at a time, bounded in time and memory, ended whatever happens. A page that cannot be drawn is read as it
 * came.
 */
import { fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { browser as limits } from '../../schemas/limits.ts';
import { createLimiter, LimitError } from '../sse/limiter.ts';
import type { BrowserEnd, BrowserJob } from './browser-child.ts';

export type BrowserLog = { warn(fields: object, message: string): void };

export type BrowserOptions = Omit<BrowserJob, 'url' | 'drawMs' | 'quietMs'> & {
  log: BrowserLog;
  /** How long it may take: see limits.ts for what is left out. */
  patience?: { totalMs: number; drawMs: number; quietMs: number };
};

/** The text of a page after its scripts have run; undefined when it cannot be had. Never throws. */
export type Draw = (url: string, signal: AbortSignal) => Promise<string | undefined>;

const childFile = fileURLToPath(new URL(`./browser-child${extname(import.meta.url)}`, import.meta.url));
/** The process itself may fail to end. */
const killAfterMs = 1_500;
/** Of the process beside the browser. */
const childHeapMb = 192;

export function createBrowser({ log, patience = limits, ...settings }: BrowserOptions): Draw {
  const { totalMs, drawMs, quietMs } = patience;
  const limiter = createLimiter(limits.atOnce, limits.maxWaiting);
  return async (url, signal) => {
    const control = new AbortController();
    const stop = () => control.abort(new Error('the browser took too long'));
    // Waiting for one's turn counts: who asked has no more time than this.
    const timer = setTimeout(stop, totalMs);
    signal.addEventListener('abort', stop, { once: true });
    const late = new Promise<never>((_, reject) => {
      control.signal.addEventListener('abort', () => reject(control.signal.reason), { once: true });
    });
    try {
      const drawing = limiter.run(async () => {
        control.signal.throwIfAborted();
        return drawIn({ ...settings, url, drawMs, quietMs }, control.signal);
      });
      return await Promise.race([drawing, late]);
    } catch (cause) {
      if (!signal.aborted && !(cause instanceof LimitError))
        log.warn({ err: cause, url }, 'a page was not drawn by the browser');
      return undefined;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
    }
  };
}

/** Ends with everything that it began, also when it is aborted: soon after. */
async function drawIn(job: BrowserJob, signal: AbortSignal): Promise<string> {
  // The browser's profile is in there; it is taken away also when nobody tidied up.
  const folder = await mkdtemp(join(tmpdir(), 'brand-browser-'));
  const child = fork(childFile, {
    env: { TMPDIR: folder, HOME: folder },
    execArgv: [...process.execArgv, `--max-old-space-size=${childHeapMb}`],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  // One that could not be begun does not end.
  const ended =
    child.pid === undefined
      ? Promise.resolve()
      : new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = () => child.kill('SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    const end = await new Promise<BrowserEnd>((resolve, reject) => {
      child.once('message', (message) => resolve(message as BrowserEnd));
      child.once('error', reject);
      child.once('exit', () => resolve({ type: 'failed', message: 'the browser ended' }));
      child.send(job, (cause) => cause && reject(cause));
    });
    if (end.type === 'failed') throw new Error(end.message);
    return end.html;
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
    const force = setTimeout(() => child.kill('SIGKILL'), killAfterMs);
    await ended;
    clearTimeout(force);
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome'];

/** The file of a setting: a path as it is, `auto` the first browser in the folders of `searchPath`. */
export function findBrowser(setting: string, searchPath: string): string | undefined {
  const paths =
    setting === 'auto'
      ? searchPath.split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)))
      : [setting];
  return paths.find((one) => existsSync(one));
}
