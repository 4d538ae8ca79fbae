/** A client of a service that may be down at any moment: asks again, listens on, and keeps what it was told. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import sharp from 'sharp';
import { type AssetEvent, isTerminal } from '../../schemas/events.ts';

/** Longest time without any asset moving before a run counts as stuck: longer than a reconcile takes to come. */
const stuckMs = 360_000;
const askMs = 10_000;
const againMs = 200;

export type Call = { method?: string; path: string; body?: object; headers?: Record<string, string> };

/** What one try came to; `status` is 0 when there was no answer. */
export type Tried = { status: number; text: string; headers: Headers };

export async function tryOnce(base: string, call: Call, timeoutMs = askMs): Promise<Tried> {
  const { method = 'GET', path, body, headers = {} } = call;
  try {
    const answer = await fetch(`${base}${path}`, {
      method,
      headers: { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      signal: AbortSignal.timeout(timeoutMs),
    });
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  } catch (cause) {
    const text = cause instanceof Error ? `${cause.message} ${cause.cause ?? ''}` : String(cause);
    return { status: 0, text, headers: new Headers() };
  }
}

/** Asks until it is answered below 400. @throws when that never comes, or the service says that the request is wrong. */
export async function request(base: string, call: Call): Promise<Tried> {
  const givenUpAt = performance.now() + stuckMs;
  let last = '';
  while (performance.now() < givenUpAt) {
    const tried = await tryOnce(base, call);
    const { status, text } = tried;
    if (status > 0 && status < 400) return tried;
    last = `${call.method ?? 'GET'} ${call.path}: ${status} ${text}`;
    // 409: an earlier try of a request with a key is still running.
    if (status >= 400 && status < 500 && status !== 409) throw new Error(last);
    await sleep(againMs);
  }
  throw new Error(`${last}, for ${stuckMs} ms`);
}

export type Account = { email: string; cookie: string; project: string };

/** Signs up; an address that an unanswered try has registered is signed in. */
export async function signUp(base: string, email: string): Promise<Account> {
  const password = 'crash-test-password';
  const body = { email, password, name: 'Crash' };
  const tried = await request(base, { method: 'POST', path: '/api/user/signup', body }).catch(() =>
    request(base, { method: 'POST', path: '/api/user/signin', body: { email, password } }),
  );
  const cookie = tried.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const projects = await request(base, { path: '/api/projects', headers: { cookie } });
  const { projects: list } = JSON.parse(projects.text) as { projects: { id: string }[] };
  return { email, cookie, project: list[0]?.id ?? '' };
}

/** @param env tells the operator's command where the database is */
export async function setPlan(email: string, plan: string, env: Record<string, string>): Promise<void> {
  const granted = spawn(process.execPath, ['dist/src/cli.js', 'user', 'plan', email, plan], {
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  const [code] = await once(granted, 'exit');
  if (code !== 0) throw new Error('the plan could not be set');
}

export type Owned = { id: string; account: Account };

/** Ends early when nothing moves any more, and says what is stuck: the audit then counts it as lost. */
export async function untilAllEnd(base: string, assets: readonly Owned[]): Promise<void> {
  const open = new Map(assets.map((one) => [one, '']));
  let movedAt = performance.now();
  while (open.size > 0 && performance.now() - movedAt < stuckMs) {
    for (const one of [...open.keys()]) {
      const { state, status } = await readAsset(base, one);
      if (state !== open.get(one)) movedAt = performance.now();
      if (status === 'pending') open.set(one, state);
      else open.delete(one);
    }
    await sleep(500);
  }
  for (const [{ id }, state] of open) console.error(`${id} is stuck in ${state}`);
}

export async function readAsset(base: string, { id, account: { cookie } }: Owned) {
  const { text } = await request(base, { path: `/api/assets/${id}`, headers: { cookie } });
  return (JSON.parse(text) as { asset: { status: string; state: string; run: number } }).asset;
}

export async function readTimeline(base: string, { id, account: { cookie } }: Owned): Promise<AssetEvent[]> {
  const { text } = await request(base, { path: `/api/assets/${id}/timeline`, headers: { cookie } });
  return (JSON.parse(text) as { events: AssetEvent[] }).events;
}

/** Runs with exactly one terminal fact, those without, and those that are ready. */
export function countEnds(timelines: readonly (readonly AssetEvent[])[]) {
  let lost = 0;
  let ready = 0;
  for (const events of timelines) {
    const byRun = new Map<number, number>();
    for (const { run } of events) byRun.set(run, 0);
    for (const { run, event } of events) {
      if (isTerminal(event)) byRun.set(run, (byRun.get(run) ?? 0) + 1);
      if (event === 'ready') ready += 1;
    }
    lost += byRun.size === 0 ? 1 : [...byRun.values()].filter((ends) => ends !== 1).length;
  }
  return { lost, ready };
}

export async function readUsed(base: string, { cookie }: Account): Promise<number> {
  const { text } = await request(base, { path: '/api/user/me', headers: { cookie } });
  return (JSON.parse(text) as { aiGenerationsUsed: number }).aiGenerationsUsed;
}

export type Listener = {
  events: AssetEvent[];
  /** When each arrived, in ms of the monotonic clock. */
  times: number[];
  stop(): void;
};

/** Follows a project from the beginning, over every loss of its connection, as a browser would. */
export function follow(base: string, { cookie, project }: Account): Listener {
  const stopping = new AbortController();
  const events: AssetEvent[] = [];
  const times: number[] = [];
  let lastId = '1';
  const take = (text: string): string => {
    const frames = text.split('\n\n');
    const rest = frames.pop() ?? '';
    for (const frame of frames) {
      lastId = /^id: (.*)$/m.exec(frame)?.[1] ?? lastId;
      const data = /^data: (.*)$/m.exec(frame)?.[1];
      if (data === undefined) continue;
      events.push(JSON.parse(data) as AssetEvent);
      times.push(performance.now());
    }
    return rest;
  };
  const listen = async (): Promise<void> => {
    const answer = await fetch(`${base}/api/projects/${project}/activity`, {
      headers: { cookie, 'last-event-id': lastId },
      signal: stopping.signal,
    });
    const decoder = new TextDecoder();
    let text = '';
    for await (const chunk of answer.body ?? []) text = take(text + decoder.decode(chunk, { stream: true }));
  };
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      // Lost or refused: it comes again with what it has heard last.
      await listen().catch(() => undefined);
      await sleep(againMs);
    }
  };
  void run();
  return { events, times, stop: () => stopping.abort() };
}

/** Everything that a listener of the project is told from the beginning, until it is quiet. */
export async function readStream(base: string, account: Account): Promise<AssetEvent[]> {
  const listener = follow(base, account);
  for (let count = -1; count < listener.events.length; ) {
    count = listener.events.length;
    await sleep(count === 0 ? 3_000 : 1_500);
  }
  listener.stop();
  return listener.events;
}

/** Facts of one asset, run, stage and attempt happen once, and ts strictly increases. */
export function countFlaws(events: readonly AssetEvent[]) {
  const keys = events.map(factKey);
  return {
    doubled: keys.length - new Set(keys).size,
    disordered: events.filter(({ ts }, n) => n > 0 && ts <= (events[n - 1]?.ts ?? 0)).length,
  };
}

/** Names a fact; two deliveries of one asset may each have their own of a kind. */
export function factKey(event: AssetEvent): string {
  const { asset_id, run, event: name, stage, attempt } = event;
  const { delivery_id = '' } = event as { delivery_id?: string };
  return `${asset_id}:${run}:${name}:${stage}:${attempt}:${delivery_id}`;
}

/** The demo's photo at any address of a server of its own. */
export async function serveSource(): Promise<{ url: string; close(): void }> {
  // Small, so that machines are kept busy rather than renderers.
  const bytes = await sharp('src/demo/photo.jpg').resize(480).jpeg().toBuffer();
  const server = createServer((_, response) => response.setHeader('content-type', 'image/jpeg').end(bytes));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}
