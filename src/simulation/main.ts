/**
 * `npm run simulate`: thousands of histories a minute of the durable runtime on virtual time, each audited.
 *
 *   npm run simulate -- [--seeds 1000] [--from 1] [--minutes 5] [--workers 2] [--trace] [--bug outbox|fence|timer]
 *
 * Runs until the seeds or the minutes are used up, or an invariant is broken: then it prints what happened last
 * in that history and the command that shows it again. Prints one JSON line; exit code 1 for a broken invariant.
 */
import { once } from 'node:events';
import { extname } from 'node:path';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import type { Bug } from './history.ts';
import { bugs } from './history.ts';
import { add, commandFor, emptySummary, type RunOptions, runHistories, type Summary } from './run.ts';

const defaultSeeds = 1_000;
const noTraceLines = 40;
const minuteMs = 60_000;

type Task = Omit<RunOptions, 'until'> & { minutes: number };

async function work(task: Task): Promise<Summary> {
  return runHistories({ ...task, until: performance.now() + task.minutes * minuteMs });
}

async function workInThread(task: Task): Promise<Summary> {
  const worker = new Worker(new URL(`./main${extname(import.meta.url)}`, import.meta.url), {
    workerData: task,
  });
  const [summary] = (await once(worker, 'message')) as [Summary];
  return summary;
}

function readOptions(args: string[]) {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: 'string' },
      from: { type: 'string', default: '1' },
      minutes: { type: 'string' },
      workers: { type: 'string', default: '1' },
      trace: { type: 'boolean', default: false },
      bug: { type: 'string' },
    },
  });
  const bug = bugs.find((one) => one === values.bug);
  if (values.bug !== undefined && bug === undefined)
    throw new TypeError(`--bug is one of ${bugs.join(', ')}`);
  const minutes = numberOf('minutes', values.minutes, Number.POSITIVE_INFINITY);
  const unlimited = values.minutes === undefined ? defaultSeeds : Number.POSITIVE_INFINITY;
  return {
    seeds: numberOf('seeds', values.seeds, unlimited),
    from: numberOf('from', values.from, 1),
    minutes,
    workers: numberOf('workers', values.workers, 1),
    isTraced: values.trace,
    bug,
  };
}

function numberOf(name: string, text: string | undefined, otherwise: number): number {
  const number = text === undefined ? otherwise : Number(text);
  if (number > 0) return number;
  throw new TypeError(`--${name} is a number above 0`);
}

async function main(): Promise<boolean> {
  const { seeds, from, minutes, workers, isTraced, bug } = readOptions(process.argv.slice(2));
  const began = performance.now();
  const tasks = Array.from({ length: workers }, (_, n) => ({
    from: from + n,
    step: workers,
    seeds: Math.ceil((seeds - n) / workers),
    minutes,
    ...(bug ? { bug } : {}),
  }));
  const [only] = tasks;
  const summaries = workers === 1 && only ? [await work(only)] : await Promise.all(tasks.map(workInThread));
  const total = emptySummary();
  for (const summary of summaries) add(total, summary);
  report(total, performance.now() - began, isTraced, bug);
  return total.failed === undefined;
}

function report(
  { failed, ...total }: Summary,
  tookMs: number,
  isTraced: boolean,
  bug: Bug | undefined,
): void {
  if (failed) {
    const lines = isTraced ? failed.lines : failed.lines.slice(-noTraceLines);
    process.stderr.write(`${lines.join('\n')}\n\nseed ${failed.seed}: ${failed.violation}\n`);
    process.stderr.write(`again: ${commandFor(failed.seed, bug)}\n`);
  }
  const perMinute = Math.round((total.histories / tookMs) * minuteMs);
  const violation = failed ? { seed: failed.seed, violation: failed.violation, hash: failed.hash } : {};
  process.stdout.write(`${JSON.stringify({ bench: 'simulate', ...total, perMinute, ...violation })}\n`);
}

if (isMainThread) process.exitCode = (await main()) ? 0 : 1;
else parentPort?.postMessage(await work(workerData as Task));
