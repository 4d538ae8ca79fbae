/**
 * The local engine as a video provider: jobs rendered in this process, files in a temporary directory.
 *
 * A job is named by its token: submitting it again joins it while it runs and finds its file when it is done. What an
 * earlier process left is unknown here (`gone`), and submitting it again renders the same frames.
 */
import { createHash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EffectError } from '../../schemas/errors.ts';
import { asset, source } from '../../schemas/limits.ts';
import type { Engine } from '../media/engine.ts';
import type { Failure, FailureReason, VideoJob, VideoProvider, VideoStatus } from './provider.ts';

export type LocalVideo = VideoProvider & {
  /** Aborts what runs and removes the files. Safe to repeat. */
  close(): Promise<void>;
};

type Job = {
  id: string;
  path: string;
  controller: AbortController;
  status: VideoStatus;
  /** Unix ms of its end; undefined while it waits or runs. */
  endedAt?: number;
  start(): Promise<void>;
};

/** How long the file of a finished job stays, and how many finished jobs are remembered. */
const keptMs = 60 * 60_000;
const keptJobs = 500;

/** Jobs that may wait for their turn before more are refused. */
const maxWaiting = 200;

const sweepMs = 60_000;
const pollRunningMs = 400;
const pollQueuedMs = 800;

/** Makes the provider. `poolSize` jobs render at once. `now` is the clock in unix ms. */
export function createLocalVideo(options: {
  engine: Pick<Engine, 'renderClip'>;
  tempDir: string;
  poolSize: number;
  now?: () => number;
}): LocalVideo {
  const { engine, poolSize, now = Date.now } = options;
  const directory = join(options.tempDir, 'local-video');
  const jobs = new Map<string, Job>();
  const waiting: Job[] = [];
  const running = new Set<Promise<void>>();
  let isClosed = false;

  const ready = rm(directory, { recursive: true, force: true }).then(() =>
    mkdir(directory, { recursive: true }),
  );
  ready.catch(() => undefined);
  const sweeper = setInterval(() => void sweep(), sweepMs);
  sweeper.unref();

  function startNext(): void {
    while (!isClosed && running.size < poolSize) {
      const job = waiting.shift();
      if (!job) return;
      const work = job.start().finally(() => {
        running.delete(work);
        startNext();
      });
      running.add(work);
    }
  }

  async function render(job: Job, request: VideoJob): Promise<void> {
    const { signal } = job.controller;
    const deadline = setTimeout(() => job.controller.abort(overdue), Math.max(0, request.deadline - now()));
    job.status = { state: 'running', progress: 0, pollAfterMs: pollRunningMs };
    try {
      await ready;
      const bytes = await request.source.read(signal);
      const info = await engine.renderClip(
        { ...clipOf(request), source: bytes, output: job.path },
        signal,
        (share) => {
          job.status = { state: 'running', progress: share, pollAfterMs: pollRunningMs };
        },
      );
      end(job, {
        state: 'succeeded',
        outputUrl: pathToFileURL(job.path).href,
        seconds: info.seconds,
        costMicros: 0,
        expiresAt: now() + keptMs,
      });
    } catch (error) {
      end(job, statusOf(error, signal));
    } finally {
      clearTimeout(deadline);
    }
  }

  function end(job: Job, status: VideoStatus): void {
    job.status = status;
    job.endedAt = now();
  }

  async function sweep(): Promise<void> {
    const ended = [...jobs.values()]
      .filter((job) => job.endedAt !== undefined)
      .sort((one, two) => (one.endedAt ?? 0) - (two.endedAt ?? 0));
    const old = ended.filter((job, i) => i < ended.length - keptJobs || now() - (job.endedAt ?? 0) >= keptMs);
    for (const job of old) jobs.delete(job.id);
    await Promise.allSettled(old.map(({ path }) => rm(path, { force: true })));
  }

  function create(request: VideoJob): Job {
    const id = request.token;
    const job: Job = {
      id,
      path: join(directory, `${createHash('sha256').update(id).digest('hex').slice(0, 32)}.mp4`),
      controller: new AbortController(),
      status: { state: 'queued', position: waiting.length + 1, pollAfterMs: pollQueuedMs },
      start: () => render(job, request),
    };
    return job;
  }

  return {
    name: 'local',
    capabilities: {
      lastFrame: true,
      loopFlag: false,
      seconds: [asset.minSeconds, asset.maxSeconds],
      seed: true,
      maxInlineBytes: source.maxBytes,
      callback: 'none',
      cancel: 'running',
      repeatable: true,
    },
    async submit(request, signal) {
      signal.throwIfAborted();
      if (isClosed) throw new EffectError('i2v_failed', 'the local video provider is closed');
      await sweep();
      const known = jobs.get(request.token)?.status.state;
      if (known && known !== 'failed' && known !== 'cancelled') return { id: request.token };
      if (waiting.length >= maxWaiting) {
        throw new EffectError('i2v_failed', `${waiting.length} local jobs wait already`, {
          retryAfterMs: 5_000,
        });
      }
      const job = create(request);
      jobs.set(job.id, job);
      waiting.push(job);
      startNext();
      return { id: job.id };
    },
    async status({ id }) {
      const job = jobs.get(id);
      if (!job) return { state: 'failed', failure: gone };
      const at = waiting.indexOf(job);
      return at < 0 ? job.status : { state: 'queued', position: at + 1, pollAfterMs: pollQueuedMs };
    },
    async cancel({ id }) {
      const job = jobs.get(id);
      if (!job) return 'unknown';
      if (job.endedAt !== undefined) return job.status.state === 'cancelled' ? 'cancelled' : 'too_late';
      const at = waiting.indexOf(job);
      if (at >= 0) waiting.splice(at, 1);
      job.controller.abort();
      end(job, { state: 'cancelled' });
      return 'cancelled';
    },
    async close() {
      isClosed = true;
      clearInterval(sweeper);
      waiting.length = 0;
      for (const job of jobs.values()) job.controller.abort();
      await Promise.allSettled(running);
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const overdue = new EffectError('i2v_timeout', 'the local job passed its deadline');

const gone: Failure = {
  kind: 'transient',
  reason: 'gone',
  message: 'the job is unknown to this process',
};

function clipOf({ plan, motion, mode, segment, loopMode, seconds, aspect, model, seed }: VideoJob) {
  return { plan, motion, mode, segment, loopMode, seconds, aspect, model, seed };
}

function statusOf(error: unknown, signal: AbortSignal): VideoStatus {
  if (signal.aborted && signal.reason !== overdue) return { state: 'cancelled' };
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof EffectError)) {
    return { state: 'failed', failure: { kind: 'transient', reason: 'unknown', message } };
  }
  const { code, retry, retryAfterMs } = error;
  const failure: Failure = { kind: retry, reason: reasons[code] ?? 'unknown', providerCode: code, message };
  return { state: 'failed', failure: retryAfterMs === undefined ? failure : { ...failure, retryAfterMs } };
}

const reasons: { [code in EffectError['code']]?: FailureReason } = {
  vision_blocked: 'rejected_content',
  source_unsupported: 'bad_input',
  i2v_timeout: 'timeout',
  vision_timeout: 'timeout',
};
