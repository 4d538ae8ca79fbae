/**
 * Images on their way in: each is uploaded and prepared by itself, a few at once, and says how far it is.
 *
 * What a rate limit refuses waits as long as it was told and goes on; everything else stops with its reason and can be
 * tried again.
 */
import { createStore } from '@xstate/store';
import type { AssetOptions, PrepareResponse, UploadResponse } from '../../../schemas/asset.ts';
import { ApiError, get, post } from '../api.ts';
import { reasonAgainst } from '../ui/drop-zone.tsx';

export type Upload = {
  id: number;
  projectId: string;
  name: string;
  step: 'waiting' | 'sending' | 'paused' | 'starting' | 'started' | 'refused';
  /** 0 to 1, while it is sent. */
  share: number;
  /** Of our clock, while it is paused. */
  untilTs: number | undefined;
  assetId: string | undefined;
  error: unknown;
};

export const uploads = createStore({
  context: { rows: [] as readonly Upload[] },
  on: {
    added: ({ rows }, { row }: { row: Upload }) => ({ rows: [...rows, row] }),
    changed: ({ rows }, { id, fields }: { id: number; fields: Partial<Upload> }) => ({
      rows: rows.map((row) => (row.id === id ? { ...row, ...fields } : row)),
    }),
    removed: ({ rows }, { id }: { id: number }) => ({ rows: rows.filter((row) => row.id !== id) }),
  },
});

type Job = { file: File; options: AssetOptions; url: string | undefined };

const jobs = new Map<number, Job>();
const waiting: number[] = [];
const atOnce = 3;
const maxPauses = 5;
const maxRows = 100;
let running = 0;
let next = 1;

/** Takes files for a project. What is no image we take gets a row that says so. */
export function addFiles(projectId: string, files: readonly File[], options: AssetOptions = {}): void {
  const room = Math.max(0, maxRows - uploads.getSnapshot().context.rows.filter(isOpen).length);
  for (const file of files.slice(0, room)) add(projectId, file, options, reasonAgainst(file));
  for (const file of files.slice(room, room + 1)) {
    add(
      projectId,
      file,
      options,
      `Only ${maxRows} images at once: drop the other ${files.length - room} later.`,
    );
  }
  work();
}

/** Once more, from where it failed. */
export function tryAgain(id: number): void {
  change(id, { step: 'waiting', error: undefined, share: 0 });
  waiting.push(id);
  work();
}

/** Forgets a row that has come to its end. */
export function dismiss(id: number): void {
  jobs.delete(id);
  uploads.trigger.removed({ id });
}

/** Why it cannot be tried again: the file itself is refused. */
export const isFinal = ({ error }: Upload): boolean =>
  typeof error === 'string' || (error instanceof ApiError && [400, 403, 413, 415].includes(error.status));

const isOpen = ({ step }: Upload): boolean => step !== 'started' && step !== 'refused';

function add(projectId: string, file: File, options: AssetOptions, reason: string | undefined): void {
  const id = next;
  next += 1;
  uploads.trigger.added({
    row: {
      id,
      projectId,
      name: file.name,
      step: reason === undefined ? 'waiting' : 'refused',
      share: 0,
      untilTs: undefined,
      assetId: undefined,
      error: reason,
    },
  });
  if (reason !== undefined) return;
  jobs.set(id, { file, options, url: undefined });
  waiting.push(id);
}

const change = (id: number, fields: Partial<Upload>) => uploads.trigger.changed({ id, fields });

function work(): void {
  while (running < atOnce) {
    const id = waiting.shift();
    if (id === undefined) return;
    running += 1;
    void run(id).finally(() => {
      running -= 1;
      work();
    });
  }
}

async function run(id: number): Promise<void> {
  const row = uploads.getSnapshot().context.rows.find((one) => one.id === id);
  const job = jobs.get(id);
  if (!row || !job) return;
  try {
    // An upload that went well is not repeated when what comes after it fails.
    job.url ??= (
      await patiently(id, () => send(job.file, (share) => change(id, { step: 'sending', share })))
    ).url;
    change(id, { step: 'starting', share: 1 });
    const body = { project_id: row.projectId, src: job.url, ...job.options };
    const { asset_id: assetId } = await patiently(id, () =>
      post<PrepareResponse>('/api/v1/prepare', body, { once: true }),
    );
    jobs.delete(id);
    change(id, { step: 'started', assetId });
  } catch (error) {
    change(id, { step: 'refused', error });
  }
}

/** Waits out limits of the kind that pass by themselves. */
async function patiently<Answer>(id: number, work: () => Promise<Answer>): Promise<Answer> {
  for (let pauses = 0; ; pauses += 1) {
    try {
      return await work();
    } catch (cause) {
      if (!(cause instanceof ApiError) || cause.upgradeUrl || cause.retryAfterMs === undefined) throw cause;
      if (pauses >= maxPauses) throw cause;
      const ms = Math.max(1_000, cause.retryAfterMs);
      change(id, { step: 'paused', untilTs: Date.now() + ms });
      await new Promise((resolve) => setTimeout(resolve, ms));
      change(id, { step: 'waiting', untilTs: undefined });
    }
  }
}

/** With XMLHttpRequest, which alone tells how far an upload is. */
async function send(file: File, onProgress: (share: number) => void): Promise<UploadResponse> {
  const first = await sendOnce(file, onProgress);
  if (first.status !== 401) return answerOf(first);
  // Brings up the dialog, and goes on when somebody has signed in.
  await get('/api/user/me');
  return answerOf(await sendOnce(file, onProgress));
}

function sendOnce(file: File, onProgress: (share: number) => void): Promise<XMLHttpRequest> {
  return new Promise((resolve) => {
    const form = new FormData();
    form.append('file', file);
    const request = new XMLHttpRequest();
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    request.onloadend = () => resolve(request);
    request.open('POST', '/api/v1/upload');
    onProgress(0);
    request.send(form);
  });
}

function answerOf(request: XMLHttpRequest): UploadResponse {
  const { status, responseText } = request;
  if (status === 200) return JSON.parse(responseText) as UploadResponse;
  const headers = new Headers();
  for (const name of ['x-request-id', 'retry-after']) {
    const value = status === 0 ? null : request.getResponseHeader(name);
    if (value !== null) headers.set(name, value);
  }
  throw new ApiError(status, errorOf(status, responseText), headers);
}

function errorOf(status: number, text: string): ConstructorParameters<typeof ApiError>[1] {
  if (status === 0) return { error: 'The upload was cut off. Your connection may be down.' };
  try {
    return JSON.parse(text) as { error: string };
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    return { error: `The upload was refused with status ${status}.` };
  }
}
