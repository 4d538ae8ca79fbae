/**
 * `npm run bench dashboard`: what a gallery of a thousand assets costs in a browser. It is opened, scrolled to its
 * end and searched; then events come at fifty a second, every second one of a card that is drawn, and each is
 * followed from when it was published to when the card shows it. Prints one line of JSON with the longest task of
 * each part, by the clock and in CPU time, which a busy machine does not lengthen; the layout shift of all; and how
 * late the cards were. Exit code 1 when a limit is passed.
 *
 * Needs Chromium. `--assets 10000` and `--seconds 60` measure more; `--rate 200` sends faster.
 */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium, type Page } from 'playwright-core';
import { quantile, report } from './cpu.ts';
import { openRig, type Rig } from './sse-rig.ts';

const { values } = parseArgs({
  options: {
    assets: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '50' },
    seconds: { type: 'string', default: '20' },
  },
});
const assets = Number(values.assets);
const rate = Number(values.rate);
const events = rate * Number(values.seconds);
const limits = { longestTaskMs: 50, toDomMs: 250, shift: 0.05 };
/** Events that come late are waited for so long. */
const lastMs = 2_000;
const settleMs = 1_000;
const givenUpMs = 120_000;
const states = ['pending.vision.describing', 'pending.single.waiting'] as const;
const photo = new URL('../demo/photo.jpg', import.meta.url);

/** Notes shifts that no input caused, and when each card began to show a state. */
const watch = `
  window.seen = { shift: 0, changes: [] };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) seen.shift += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
  new MutationObserver((mutations) => {
    for (const { target } of mutations) {
      const card = target.closest('[data-asset]');
      if (card) seen.changes.push({ id: card.dataset.asset, state: target.dataset.state, ts: Date.now() });
    }
  }).observe(document, { subtree: true, attributeFilter: ['data-state'] });
`;

type Change = { id: string; state: string; ts: number };

async function run(): Promise<boolean> {
  const executablePath = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find((path) => existsSync(path));
  if (executablePath === undefined) throw new Error('no Chromium is installed');
  const folder = await mkdtemp(join(tmpdir(), 'dashboard-'));
  const rig = await openRig({ folder, assets });
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await signIn(context, rig);
    const longestTaskMs = {
      opening: await longestOf(page, () => openGallery(page, rig)),
      scrolling: await longestOf(page, () => scrollToEnd(page)),
      searching: await longestOf(page, () => search(page)),
      following: { clock: 0, cpu: 0 },
    };
    let published: Published[] = [];
    longestTaskMs.following = await longestOf(page, async () => {
      published = await publish(page, rig);
    });
    const seen = (await page.evaluate('window.seen')) as { shift: number; changes: Change[] };
    const late = latenessOf(published, seen.changes);
    const toDomMs = {
      median: Math.round(quantile(late, 0.5)),
      p95: Math.round(quantile(late, 0.95)),
      max: Math.max(...late),
    };
    const shift = Number(seen.shift.toFixed(3));
    report({
      bench: 'dashboard',
      assets,
      eventsPerSecond: rate,
      events: published.length,
      followed: late.length,
      toDomMs,
      longestTaskMs,
      shift,
      limits,
    });
    const isQuick = Object.values(longestTaskMs).every(({ cpu }) => cpu <= limits.longestTaskMs);
    return isQuick && shift < limits.shift && late.length > 0 && toDomMs.p95 <= limits.toDomMs;
  } finally {
    await browser.close();
    await rig.front.stop();
    await rig.close();
    await rm(folder, { recursive: true, force: true });
  }
}

type Context = Awaited<ReturnType<Awaited<ReturnType<typeof chromium.launch>>['newContext']>>;

async function signIn(context: Context, { port, cookie }: Rig): Promise<Page> {
  const at = cookie.indexOf('=');
  const url = `http://127.0.0.1:${port}`;
  await context.addCookies([{ name: cookie.slice(0, at), value: cookie.slice(at + 1), url }]);
  const body = await readFile(photo);
  await context.route('https://example.com/**', (route) =>
    route.fulfill({ body, contentType: 'image/jpeg' }),
  );
  const page = await context.newPage();
  await page.addInitScript(watch);
  return page;
}

async function openGallery(page: Page, { port, projectId }: Rig): Promise<void> {
  await page.goto(`http://127.0.0.1:${port}/dashboard/projects/${projectId}/assets`);
  await page.locator('[data-asset]').first().waitFor();
  await page.locator('[data-status="live"]').waitFor({ state: 'attached' });
  await sleep(settleMs);
}

type Trace = {
  traceEvents: {
    name: string;
    ph: string;
    pid: number;
    tid: number;
    dur?: number;
    tdur?: number;
  }[];
};

const mark = 'bench: here';

/**
 * The longest task of the page's main thread while something is done, in ms. Chromium draws parts of itself as pages
 * too, in threads of the same name: which one is ours, a mark in the trace tells.
 */
async function longestOf(page: Page, work: () => Promise<void>): Promise<{ clock: number; cpu: number }> {
  const browser = page.context().browser();
  if (!browser) throw new Error('the page has no browser');
  await browser.startTracing(page, { categories: ['toplevel', 'blink.user_timing'] });
  await work();
  await page.evaluate(`performance.mark('${mark}')`);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as Trace;
  const threads = new Set(
    traceEvents.filter(({ name }) => name === mark).map(({ pid, tid }) => `${pid}/${tid}`),
  );
  if (threads.size === 0) throw new Error('the trace does not tell which thread is that of the page');
  const longest = { clock: 0, cpu: 0 };
  for (const { name, pid, tid, dur = 0, tdur = 0 } of traceEvents) {
    if (!name.endsWith('RunTask') || !threads.has(`${pid}/${tid}`)) continue;
    longest.clock = Math.max(longest.clock, Math.round(dur / 1_000));
    longest.cpu = Math.max(longest.cpu, Math.round(tdur / 1_000));
  }
  return longest;
}

/** As a wheel does, page after page. */
async function scrollToEnd(page: Page): Promise<void> {
  const endsAt = performance.now() + givenUpMs;
  while (performance.now() < endsAt) {
    await page.mouse.wheel(0, 700);
    await sleep(50);
    const text = await page.locator('[role=status]', { hasText: 'shown' }).first().textContent();
    if (Number.parseInt(text ?? '', 10) >= assets) break;
  }
  await page.keyboard.press('Home');
  await sleep(settleMs);
}

async function search(page: Page): Promise<void> {
  const input = page.getByRole('searchbox');
  await input.pressSequentially('photo', { delay: 100 });
  await input.pressSequentially(' nothing', { delay: 100 });
  for (let n = 0; n < ' nothing'.length + 'photo'.length; n += 1) await input.press('Backspace');
  await page.locator('[data-asset]').first().waitFor();
  await sleep(settleMs);
}

type Published = { id: string; state: string; ts: number };

/** Facts as actors publish them, in an even pace. */
async function publish(page: Page, { bus, projectId, assetIds }: Rig): Promise<Published[]> {
  const drawn = (await page.evaluate(
    '[...document.querySelectorAll("[data-asset]")].map(({ dataset }) => dataset.asset)',
  )) as string[];
  const published: Published[] = [];
  const begunAt = performance.now();
  let lastTs = 0;
  for (let n = 0; n < events; n += 1) {
    await sleep(Math.max(0, begunAt + (n * 1_000) / rate - performance.now()));
    const ids = n % 2 === 0 ? drawn : assetIds;
    const half = Math.floor(n / 2);
    const id = ids[half % ids.length] ?? '';
    const state = states[Math.floor(half / ids.length) % 2] ?? states[0];
    lastTs = Math.max(Date.now(), lastTs + 1);
    const fact = {
      ...(state === states[0] ? { event: 'vision_started' } : { event: 'stage_started', stage: 'single' }),
      ts: lastTs,
      attempt: 1,
      request_id: 'req_bench',
      asset_id: id,
      project_id: projectId,
      run: 1,
    };
    await bus.publish({
      subject: bus.subjects.fact(projectId, id, fact.event),
      id: `bench:${n}`,
      body: fact,
    });
    published.push({ id, state, ts: lastTs });
  }
  await sleep(lastMs);
  return published;
}

/** From each event to the change that shows it, in ms; events whose state the card showed already have none. */
function latenessOf(published: readonly Published[], changes: readonly Change[]): number[] {
  const found: number[] = [];
  for (const { id, state, ts } of published) {
    const change = changes.find((one) => one.id === id && one.state === state && one.ts >= ts);
    if (change) found.push(change.ts - ts);
  }
  return found;
}

process.exitCode = (await run()) ? 0 : 1;
