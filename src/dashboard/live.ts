/**
 * What happens in the project, as it happens: the one stream of this tab (specification 4.4, decisions 5).
 *
 * Read with fetch, not with EventSource, which hides why a stream was refused and the comment that says that more has
 * happened than is kept. Events come in the order of their `ts` and each once; where some may be missing, who listens
 * is told to read its state anew (`resync`).
 */
import { createStore } from '@xstate/store';
import type { AssetEvent, CrawlProgress } from '../../schemas/events.ts';
import { ApiError, get } from './api.ts';
import { observeDate } from './clock.ts';

export type LiveStatus = 'idle' | 'connecting' | 'live' | 'gone' | 'resumed';

/** How the stream does, for the notice. */
export const live = createStore({
  context: { status: 'idle' as LiveStatus },
  on: {
    became: (_, { status }: { status: LiveStatus }) => ({ status }),
  },
});

type Listener = {
  /** Events that came together, oldest first. */
  events?(events: readonly AssetEvent[]): void;
  /** How far the crawl of the project is that somebody waits for. */
  crawl?(progress: CrawlProgress): void;
  /** Some events may be missing: read the state again. Also called when the stream first runs. */
  resync?(): void;
};

const listeners = new Set<Listener>();
let current: { projectId: string; control: AbortController } | undefined;

/**
 * Listens until the answer is called. Who listens first and reads its state then misses nothing.
 *
 * @returns what ends it
 */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Follows this project from now on, and no other; nothing when there is none. */
export function follow(projectId: string | undefined): void {
  if (current?.projectId === projectId) return;
  current?.control.abort();
  current = undefined;
  gathered = [];
  live.trigger.became({ status: 'idle' });
  if (projectId === undefined) return;
  current = { projectId, control: new AbortController() };
  void run(current);
}

/** A stream that is silent for so long is gone: the service sends a comment every 15 s. */
const silenceMs = 40_000;
const noticeMs = 2_500;
const resumedMs = 4_000;
const firstPauseMs = 500;
const maxPauseMs = 15_000;

type Following = NonNullable<typeof current>;
type Place = { lastId: number; retryMs: number; failures: number; isFirst: boolean };

async function run(following: Following): Promise<void> {
  const { control } = following;
  const place: Place = { lastId: 0, retryMs: 2_000, failures: 0, isFirst: true };
  while (!control.signal.aborted) {
    const gone = setTimeout(() => tell(following, 'gone'), place.isFirst ? maxPauseMs : noticeMs);
    try {
      await readOnce(following, place, () => clearTimeout(gone));
      place.failures = 0;
    } catch (cause) {
      if (control.signal.aborted) break;
      if (cause instanceof EndOfStream) break;
      place.failures += 1;
    } finally {
      clearTimeout(gone);
    }
    if (place.failures > 0) tell(following, 'gone');
    await pause(place, control.signal);
  }
}

/** There will be no stream any more: the project is gone, or nobody is signed in. */
class EndOfStream extends Error {}

async function readOnce(following: Following, place: Place, onOpen: () => void): Promise<void> {
  const { projectId, control } = following;
  const cut = new AbortController();
  const stop = () => cut.abort();
  control.signal.addEventListener('abort', stop);
  // Sooner than the silence would tell.
  addEventListener('offline', stop);
  let silence = setTimeout(stop, silenceMs);
  try {
    const headers: Record<string, string> = place.lastId > 0 ? { 'last-event-id': String(place.lastId) } : {};
    const answer = await fetch(`/api/projects/${projectId}/activity`, {
      headers,
      credentials: 'same-origin',
      signal: cut.signal,
    });
    observeDate(answer.headers.get('date'));
    if (answer.status === 401) await askAgain();
    if (answer.status === 404) throw new EndOfStream();
    if (!answer.ok || !answer.body) throw new Error(`the stream was refused with ${answer.status}`);
    onOpen();
    opened(following, place);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = createParser(place, () => resync());
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(stop, silenceMs);
      const events = parser(value);
      if (events.length > 0) collect(events);
    }
  } finally {
    clearTimeout(silence);
    control.signal.removeEventListener('abort', stop);
    removeEventListener('offline', stop);
    cut.abort();
  }
}

/** A request that needs a session brings up the dialog, and returns when somebody has signed in. */
async function askAgain(): Promise<void> {
  try {
    await get('/api/user/me');
  } catch (cause) {
    throw cause instanceof ApiError && cause.status === 401 ? new EndOfStream() : cause;
  }
  throw new Error('signed in again');
}

function opened(following: Following, place: Place): void {
  const { status } = live.getSnapshot().context;
  // Without an id to go on from, what happened until now is nowhere but in the state itself.
  if (place.lastId === 0) resync();
  place.isFirst = false;
  place.failures = 0;
  tell(following, status === 'gone' ? 'resumed' : 'live');
  if (status === 'gone') setTimeout(() => settle(following), resumedMs);
}

function settle(following: Following): void {
  if (live.getSnapshot().context.status === 'resumed') tell(following, 'live');
}

function tell(following: Following, status: LiveStatus): void {
  if (current !== following || live.getSnapshot().context.status === status) return;
  live.trigger.became({ status });
}

/** Told together, so that fifty events a second are not drawn fifty times. */
const gatherMs = 30;
let gathered: AssetEvent[] = [];
let telling: ReturnType<typeof setTimeout> | undefined;

function collect(events: readonly AssetEvent[]): void {
  gathered.push(...events);
  telling ??= setTimeout(tellGathered, gatherMs);
}

function tellGathered(): void {
  clearTimeout(telling);
  telling = undefined;
  const events = gathered;
  gathered = [];
  if (events.length > 0) for (const listener of listeners) listener.events?.(events);
}

function tellCrawl(progress: CrawlProgress): void {
  for (const listener of listeners) listener.crawl?.(progress);
}

function resync(): void {
  // In their order: what is read now is newer than they are.
  tellGathered();
  for (const listener of listeners) listener.resync?.();
}

/** Comes back after the time the service asked for, or sooner when the computer says it is online again. */
function pause({ retryMs, failures }: Place, signal: AbortSignal): Promise<void> {
  const ms =
    failures === 0 ? Math.min(retryMs, maxPauseMs) : Math.min(firstPauseMs * 2 ** (failures - 1), maxPauseMs);
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      removeEventListener('online', finish);
      document.removeEventListener('visibilitychange', finish);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    // Not all at once: the service may be coming back for everybody.
    const timer = setTimeout(finish, ms * (0.75 + Math.random() / 2));
    addEventListener('online', finish);
    document.addEventListener('visibilitychange', finish);
    signal.addEventListener('abort', finish);
  });
}

/** Makes events of the text of a stream, in any pieces. Moves the place on, and drops what came before. */
function createParser(place: Place, onLost: () => void): (piece: string) => AssetEvent[] {
  let rest = '';
  let data = '';
  const line = (text: string, events: AssetEvent[]) => {
    if (text.startsWith('data:')) data += text.slice(5);
    else if (text.startsWith('retry:')) place.retryMs = Number(text.slice(6)) || place.retryMs;
    else if (text.startsWith(':') && /older than what is kept/.test(text)) onLost();
    else if (text === '' && data !== '') {
      take(JSON.parse(data) as AssetEvent | CrawlProgress, events);
      data = '';
    }
  };
  const take = (event: AssetEvent | CrawlProgress, events: AssetEvent[]) => {
    // It has no id, and is no place to go on from.
    if (event.event === 'crawl_progress') return tellCrawl(event);
    if (event.ts <= place.lastId) return;
    place.lastId = event.ts;
    events.push(event);
  };
  return (piece) => {
    const events: AssetEvent[] = [];
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    for (const text of lines) line(text.endsWith('\r') ? text.slice(0, -1) : text, events);
    return events;
  };
}
