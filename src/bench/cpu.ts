/** CPU time of processes, and what the benchmarks print. */
import { readdirSync, readFileSync } from 'node:fs';

const ticksPerSecond = 100;

/** User and system time of a process, in ms, its dead children not counted. 0 for one that is gone. */
export function cpuMsOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond;
  } catch {
    return 0;
  }
}

/** User and system time of this process, in ms. */
export function cpuMsHere(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** How long this process's main thread could have run and waited for a core, in ms. */
export function waitedMsHere(): number {
  return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6;
}

/** Resident memory of a process, in MB. */
export function rssMbOf(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line?.[1] ?? 0) / 1024;
}

/** Open files and sockets of a process. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Pids of a process's children. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((one) => {
      try {
        return Number(readFileSync(`/proc/${one}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]) === pid;
      } catch {
        return false;
      }
    });
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Median, least and most, rounded for reading. */
export function spread(values: readonly number[], digits = 2) {
  const round = (value: number) => Number(value.toFixed(digits));
  return { median: round(median(values)), min: round(Math.min(...values)), max: round(Math.max(...values)) };
}

/** With one digit. */
export const round1 = (value: number): number => Number(value.toFixed(1));

/** Prints the one JSON line of a benchmark. */
export function report(line: Record<string, unknown>): void {
  console.log(JSON.stringify(line));
}
