/**
 * A server that runs as our child: how it is launched, watched and stopped, and what becomes of it when we crash.
 *
 * It gets a process group of its own, so that Ctrl-C in a terminal reaches it only through us, after we have
 * finished with it. When we are killed, the kernel sends it SIGTERM (where setpriv can ask for that). What survives
 * all the same is ended at the next start, from the list kept in the data folder.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type Binary, findInPath } from './find.ts';
import { endProcess, nameProcess, ProcessName, sendSignal } from './processes.ts';

/** How long a server of an earlier, crashed run may take to end by itself, in ms. */
const survivorGraceMs = 5_000;
const pollMs = 10;
const maxErrorChars = 500;

export type Child = {
  name: string;
  pid: number;
  /** Resolves, once it has ended, with its exit code or the signal that ended it. */
  exited: Promise<number | string>;
  hasExited(): boolean;
  /** Ends it: SIGTERM, then SIGKILL after `graceMs`. Safe to repeat. */
  stop(graceMs: number): Promise<void>;
  /** The end of what it printed, for error messages. */
  lastWords(): string;
};

export type Launch = (name: string, binary: Binary, args: string[]) => Promise<Child>;

/**
 * Ends the servers that a crashed run left behind in this data folder. Answers how to launch new ones there, and a
 * list of those that were. To be called by the holder of the folder's lock only, in the main thread: the kernel's
 * SIGTERM comes when the launching thread ends.
 */
export async function createLauncher(
  dataDir: string,
): Promise<{ launch: Launch; children: readonly Child[] }> {
  const list = join(dataDir, 'children.json');
  await Promise.all(readList(list).map((survivor) => endProcess(survivor, survivorGraceMs)));
  writeList(list, []);

  const prefix = await dieWithParent();
  const children: Child[] = [];
  const launch: Launch = async (name, { path, env }, args) => {
    const child = await start(name, [...prefix, path, ...args], env, join(dataDir, 'logs'));
    children.push(child);
    writeList(
      list,
      children.flatMap(({ pid }) => nameProcess(pid) ?? []),
    );
    return child;
  };
  return { launch, children };
}

async function start(
  name: string,
  [command = name, ...args]: string[],
  env: Record<string, string>,
  logs: string,
): Promise<Child> {
  const outputFile = join(logs, `${name}.out`);
  const output = openSync(outputFile, 'w');
  // Nothing else of the environment: it holds secrets that are none of a server's business.
  const child = spawn(command, args, {
    detached: true,
    stdio: ['ignore', output, output],
    env: { PATH: process.env['PATH'], ...env },
  });
  closeSync(output);
  await once(child, 'spawn');
  const { pid } = child;
  if (pid === undefined) throw new Error(`${name} has no process id`);

  const endWithUs = () => sendSignal(pid, 'SIGTERM');
  process.once('exit', endWithUs);
  const exited = new Promise<number | string>((resolve) => {
    child.once('exit', (code, signal) => {
      process.off('exit', endWithUs);
      resolve(code ?? signal ?? -1);
    });
  });
  const hasExited = () => child.exitCode !== null || child.signalCode !== null;
  return {
    name,
    pid,
    exited,
    hasExited,
    async stop(graceMs) {
      if (hasExited()) return;
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await exited;
      clearTimeout(kill);
    },
    lastWords: () => readFileSync(outputFile, 'utf8').trim().slice(-maxErrorChars),
  };
}

/**
 * Asks again and again until `probe` answers something. A probe that throws is asked again too.
 * @throws {Error} when the child ends first, or `signal` aborts (its cause is what the last probe threw)
 */
export async function untilReady<T>(
  child: Child,
  probe: () => Promise<T | undefined>,
  signal: AbortSignal,
): Promise<T> {
  let lastError: unknown;
  while (!signal.aborted && !child.hasExited()) {
    try {
      const answer = await probe();
      if (answer !== undefined) return answer;
    } catch (cause) {
      lastError = cause;
    }
    await wait(pollMs);
  }
  if (child.hasExited()) {
    throw new Error(
      `${child.name} ended with ${await child.exited} before it was ready: ${child.lastWords()}`,
    );
  }
  const reason = signal.reason instanceof Error ? signal.reason.message : 'aborted';
  throw new Error(`${child.name} is not ready: ${reason}`, { cause: lastError ?? signal.reason });
}

/** The command in front of another one that makes it die with the process that started it; empty where there is none. */
async function dieWithParent(): Promise<string[]> {
  const setpriv = findInPath('setpriv');
  if (setpriv === undefined) return [];
  const command = [setpriv, '--pdeathsig', 'TERM'] as const;
  try {
    await promisify(execFile)(setpriv, [...command.slice(1), 'true'], { timeout: survivorGraceMs });
    return [...command];
  } catch {
    // A smaller setpriv (busybox) without that option: the next start ends what is left.
    return [];
  }
}

function readList(file: string): ProcessName[] {
  if (!existsSync(file)) return [];
  return z.array(ProcessName).parse(JSON.parse(readFileSync(file, 'utf8')));
}

function writeList(file: string, names: ProcessName[]): void {
  writeFileSync(`${file}.new`, JSON.stringify(names));
  renameSync(`${file}.new`, file);
}
