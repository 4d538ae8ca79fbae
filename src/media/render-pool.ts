/**
 * The threads of the engine: at most so many, each with one task at a time, the rest in a bounded queue.
 *
 * A thread that dies fails its task and is replaced by the next one; one that does not obey an abort is ended.
 */
import { rm } from 'node:fs/promises';
import { extname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { EffectError, type ErrorCode } from '../../schemas/errors.ts';
import type { ClipInfo } from './clip-check.ts';
import type { FromWorker, Task, TaskFailure, ToWorker } from './render-worker.ts';

export type Pool = {
  /**
   * Runs a task in a thread. `onProgress` gets shares from 0 to 1.
   *
   * @throws {EffectError} what the task throws, or transient when its thread dies or the queue is full. The signal's
   * reason when it aborts.
   */
  run(task: Task, signal: AbortSignal, onProgress?: (share: number) => void): Promise<ClipInfo | null>;
  /** Aborts all tasks and ends all threads. */
  close(): Promise<void>;
};

/** Tasks that may wait for a thread before more are refused. */
const maxWaiting = 256;

/**
 * The young generation of a thread, in MB. Frames live outside the heap, so little is collected here; with the size that
 * suits the main thread each thread would hold 32 MB, and give them back and take them again from minute to minute.
 */
const youngGenerationMb = 8;

/** How long a thread may take to stop its task before it is ended by force, in ms. */
const abortMs = 3_000;

type Job = {
  id: number;
  task: Task;
  signal: AbortSignal;
  onProgress: ((share: number) => void) | undefined;
  resolve(info: ClipInfo | null): void;
  reject(reason: unknown): void;
};

type Thread = { worker: Worker; job: Job | undefined; childPid: number | null };

/** The file that threads run. */
const workerUrl = new URL(`./render-worker${extname(import.meta.url)}`, import.meta.url);

/** Makes a pool. Threads start when tasks come, and idle ones do not keep the process alive. */
export function createPool(options: {
  ffmpegPath: string;
  stallMs: number;
  threads: number;
  threadUrl?: URL;
}): Pool {
  const { ffmpegPath, stallMs, threadUrl = workerUrl } = options;
  const threads = new Set<Thread>();
  const waiting: Job[] = [];
  const unsettled = new Set<Promise<unknown>>();
  let nextId = 1;
  let isClosed = false;

  function startThread(): Thread {
    const worker = new Worker(threadUrl, {
      resourceLimits: { maxYoungGenerationSizeMb: youngGenerationMb },
    });
    const thread: Thread = { worker, job: undefined, childPid: null };
    threads.add(thread);
    worker.on('message', (message: FromWorker) => hear(thread, message));
    worker.once('error', (error) => lose(thread, String(error)));
    worker.once('exit', (code) => lose(thread, `exit ${code}`));
    return thread;
  }

  function assign(): void {
    while (!isClosed && waiting.length > 0) {
      const idle = [...threads].find((one) => !one.job);
      if (!idle && threads.size >= options.threads) return;
      const job = waiting.shift();
      if (!job) return;
      const thread = idle ?? startThread();
      thread.job = job;
      // A task keeps the process alive, an idle thread does not.
      thread.worker.ref();
      send(thread, { type: 'run', id: job.id, task: job.task, ffmpegPath, stallMs });
    }
  }

  function hear(thread: Thread, message: FromWorker): void {
    if (message.type === 'child') thread.childPid = message.pid;
    const { job } = thread;
    if (job?.id !== message.id) return;
    if (message.type === 'progress') job.onProgress?.(message.share);
    if (message.type === 'done') free(thread, () => job.resolve(message.info));
    if (message.type === 'failed') free(thread, () => job.reject(errorOf(message.failure, job.signal)));
  }

  function free(thread: Thread, settle: () => void): void {
    thread.job = undefined;
    thread.worker.unref();
    settle();
    assign();
  }

  /** A dead thread takes its task with it, and neither its ffmpeg nor its file may stay. */
  function lose(thread: Thread, why: string): void {
    if (!threads.delete(thread)) return;
    if (thread.childPid !== null) killChild(thread.childPid);
    const { job } = thread;
    if (!job) return;
    rm(job.task.part, { force: true })
      .catch((error: unknown) => {
        why += `, and its file stays: ${String(error)}`;
      })
      .finally(() => {
        job.reject(errorOf(failureOf(job.task, `render thread died: ${why}`), job.signal));
        assign();
      });
  }

  function abort(job: Job): void {
    const at = waiting.indexOf(job);
    if (at >= 0) {
      waiting.splice(at, 1);
      job.reject(job.signal.reason);
      return;
    }
    const thread = [...threads].find((one) => one.job === job);
    if (!thread) return;
    send(thread, { type: 'abort', id: job.id });
    const force = setTimeout(() => {
      if (thread.job === job) void thread.worker.terminate();
    }, abortMs);
    force.unref();
  }

  function enqueue(
    task: Task,
    signal: AbortSignal,
    onProgress: Job['onProgress'],
    settled: AbortSignal,
  ): Promise<ClipInfo | null> {
    return new Promise((resolve, reject) => {
      const job: Job = { id: nextId, task, signal, onProgress, resolve, reject };
      nextId += 1;
      signal.addEventListener('abort', () => abort(job), { once: true, signal: settled });
      waiting.push(job);
      assign();
    });
  }

  return {
    async run(task, signal, onProgress) {
      signal.throwIfAborted();
      if (isClosed) throw errorOf(failureOf(task, 'the media engine is closed'), signal);
      if (waiting.length >= maxWaiting) throw errorOf(failureOf(task, 'the media engine is busy'), signal);
      const settled = new AbortController();
      const work = enqueue(task, signal, onProgress, settled.signal);
      unsettled.add(work);
      try {
        return await work;
      } finally {
        unsettled.delete(work);
        settled.abort();
      }
    },
    async close() {
      isClosed = true;
      for (const job of waiting.splice(0)) {
        job.reject(errorOf(failureOf(job.task, 'the media engine closes'), job.signal));
      }
      for (const thread of threads) {
        if (thread.job) send(thread, { type: 'abort', id: thread.job.id });
      }
      await Promise.race([Promise.allSettled(unsettled), delay(abortMs, undefined, { ref: false })]);
      await Promise.all([...threads].map(({ worker }) => worker.terminate()));
    },
  };
}

function send({ worker }: Thread, message: ToWorker): void {
  worker.postMessage(message);
}

function failureOf(task: Task, message: string): TaskFailure {
  const code: ErrorCode = task.kind === 'merge' ? 'merge_failed' : 'i2v_failed';
  return { code, retry: 'transient', message };
}

function errorOf({ code, message, ...options }: TaskFailure, signal: AbortSignal): unknown {
  return signal.aborted ? signal.reason : new EffectError(code, message, options);
}

/** True when a process was there to kill. */
function killChild(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch {
    return false;
  }
}
