/**
 * Processes named so that a reused id is not taken for them: by id and by when they started.
 *
 * The name outlives the process that wrote it down, which is what the lock of a data folder and the list of its
 * servers need after a crash.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { z } from 'zod';

const pollMs = 20;
/** How long a killed process may take to disappear. */
const killedMs = 2_000;

export const ProcessName = z.object({ pid: z.int().positive(), startedAt: z.string() });
export type ProcessName = z.infer<typeof ProcessName>;

/** Names a running process; undefined when there is none with that id. Systems without `proc` are asked through ps. */
export function nameProcess(pid: number, proc = '/proc'): ProcessName | undefined {
  const startedAt = existsSync(`${proc}/self/stat`) ? startInProc(pid) : startInPs(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

/** Whether that very process still runs. */
export function isRunning({ pid, startedAt }: ProcessName): boolean {
  return nameProcess(pid)?.startedAt === startedAt;
}

/**
 * Ends a process: SIGTERM, then SIGKILL after `graceMs`. Does nothing when it is gone already.
 * @throws {Error} when it is still there after both
 */
export async function endProcess(name: ProcessName, graceMs: number): Promise<void> {
  if (await endedBy(name, 'SIGTERM', graceMs)) return;
  if (await endedBy(name, 'SIGKILL', killedMs)) return;
  throw new Error(`process ${name.pid} cannot be stopped`);
}

async function endedBy(name: ProcessName, signal: NodeJS.Signals, withinMs: number): Promise<boolean> {
  if (!isRunning(name)) return true;
  sendSignal(name.pid, signal);
  const deadline = performance.now() + withinMs;
  while (performance.now() < deadline) {
    if (!isRunning(name)) return true;
    await wait(pollMs);
  }
  return false;
}

/** Sends a signal to a process that may have ended meanwhile. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (cause) {
    if (!(cause instanceof Error && 'code' in cause && cause.code === 'ESRCH')) throw cause;
  }
}

/** Clock ticks since boot at which it started, with the boot's id. A zombie counts as gone. */
function startInProc(pid: number): string | undefined {
  try {
    // The second field is the program's name in brackets, which may itself hold spaces and brackets.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    return `${fields[18]} ${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}`;
  } catch {
    // No such process.
    return undefined;
  }
}

function startInPs(pid: number): string | undefined {
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    // ps fails when there is no such process.
    return undefined;
  }
}
