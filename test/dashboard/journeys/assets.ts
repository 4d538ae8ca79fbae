/** Assets in the dashboard: images on their way in, live progress, the machine's page, and many of them. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import type { Asset, PrepareResponse } from '../../../schemas/asset.ts';
import { serveSources, type TestUser } from '../../fixtures/service.ts';
import { checkBothThemes, type Dashboard, smallPhoto, takeScreenshots } from '../browser.ts';
import { until } from '../until.ts';

const short = { mode: 'animate-in', dur_seconds: 2 } as const;
/** Five pages of the list; how a thousand do is measured by `npm run bench dashboard`. */
const many = 240;

export async function followAssets(t: Test, dashboard: Dashboard): Promise<void> {
  const image = await smallPhoto();
  const sources = await serveSources(t, (request, response) => {
    if (request.url?.startsWith('/photo')) response.setHeader('content-type', 'image/jpeg').end(image);
    else response.writeHead(404).end();
  });
  const newUser = async () => {
    const user = await dashboard.signUp();
    await user.call('PUT', `/api/projects/${user.projectId}/proxy-config`, {
      default_mode: short.mode,
      default_dur_seconds: short.dur_seconds,
    });
    return user;
  };
  const prepare = async (user: TestUser, path: string): Promise<string> => {
    const body = { project_id: user.projectId, src: `${sources}${path}`, ...short };
    return (await user.call<PrepareResponse>('POST', '/api/v1/prepare', body)).body.asset_id;
  };

  /** The one that is dropped first; others are copies of it. */
  let made: { user: TestUser; id: string } | undefined;

  t.test('images are dropped anywhere: good ones play soon, wrong ones say why', async (t) => {
    const user = await newUser();
    const page = await openAssets(dashboard, t, user);
    await page.getByText('No animation yet').waitFor();
    await checkBothThemes(t, page, 'empty gallery');
    await drop(page, [
      { name: 'beach.jpg', type: 'image/jpeg', base64: image.toString('base64') },
      { name: 'notes.txt', type: 'text/plain', base64: 'aGVsbG8=' },
      { name: 'huge.png', type: 'image/png', bytes: 11 * 1024 * 1024 },
      { name: 'liar.png', type: 'image/png', base64: 'aGVsbG8=' },
    ]);
    const rows = page.getByRole('region', { name: 'Uploads' }).getByRole('listitem');
    await rows.filter({ hasText: 'notes.txt is no png, jpeg or webp image' }).waitFor();
    await rows.filter({ hasText: 'huge.png is larger than 10 MB' }).waitFor();
    await rows.filter({ hasText: 'liar.png' }).getByText('About this error').waitFor();
    await rows.filter({ hasText: 'beach.jpg' }).getByRole('link', { name: 'Being animated' }).waitFor();
    t.equal(await rows.filter({ hasText: 'notes.txt' }).getByText('Try again').count(), 0);
    await checkBothThemes(t, page, 'uploads');
    await takeScreenshots(page, 'uploads');

    // It was never loaded anew: what it shows came over the stream.
    await page.evaluate('window.isStillHere = true');
    const card = page.locator('.asset-card');
    await card.locator('[data-state="ready"]').waitFor({ timeout: 60_000 });
    t.equal(await card.count(), 1);
    t.equal(await page.evaluate('window.isStillHere'), true);
    t.match(await card.locator('img').getAttribute('src'), /\/media\/.*\.jpg$/, 'its poster');
    made = { user, id: (await card.getAttribute('data-asset')) ?? '' };

    await card.click();
    await page.locator('video').waitFor();
    await until(page, `document.querySelector('video')?.readyState >= 2`);
    await untilLit(page, 'ready');
  });

  t.test('a failed run says why, where that is explained, and which request it was', async (t) => {
    const user = await newUser();
    const id = await prepare(user, '/gone.jpg');
    await user.untilEnd(id);
    const page = await openAssets(dashboard, t, user, '?status=failed');
    await page.locator('.asset-card').getByText('source unfetchable').waitFor();
    await checkBothThemes(t, page, 'failed gallery');
    await page.locator('.asset-card').click();
    const link = page.getByRole('link', { name: 'About source_unfetchable' });
    await link.waitFor();
    const answer = await fetch(dashboard.base + (await link.getAttribute('href')));
    t.equal(answer.status, 200);
    const failed = (await user.timeline(id)).find(({ event }) => event === 'failed');
    t.equal(await page.locator('.asset-failure .sources code').textContent(), failed?.request_id);
    await page.getByRole('button', { name: /^Raw events/ }).click();
    await page.getByRole('switch', { name: /^Only failed/ }).click();
    t.match(await page.locator('.events tbody').textContent(), /source_unfetchable/);
    await checkBothThemes(t, page, 'asset, failed');
    await takeScreenshots(page, 'asset-failed');
  });

  t.test(
    'a service that goes and comes back leaves nothing out and nothing twice, in two tabs',
    async (t) => {
      const user = await newUser();
      const line = await startLine(t, Number(new URL(dashboard.base).port));
      const url = `${line.base}/dashboard/projects/${user.projectId}/assets`;
      const one = await dashboard.open(t, { user });
      const tabs = [one, await one.context().newPage()];
      for (const page of tabs) {
        await page.goto(url);
        await page.getByText('No animation yet').waitFor();
        await page.waitForSelector('[data-status="live"]', { state: 'attached' });
      }
      const first = await prepare(user, '/photo-1.jpg');
      for (const page of tabs) await page.locator(`[data-asset="${first}"]`).waitFor();
      await line.cut();
      for (const page of tabs) await page.getByText('Not connected. Trying again').waitFor();
      const others = await Promise.all(['/photo-2.jpg', '/gone-1.jpg'].map((path) => prepare(user, path)));
      for (const id of [first, ...others]) await user.untilEnd(id);
      await line.restore();
      await one.getByText('Connected again').waitFor();
      for (const page of tabs) {
        await page.locator(`[data-asset="${others[0]}"] [data-state="ready"]`).waitFor({ timeout: 30_000 });
        await page.locator(`[data-asset="${others[1]}"] [data-state="failed"]`).waitFor();
        await page.locator(`[data-asset="${first}"] [data-state="ready"]`).waitFor();
        t.equal(await page.locator('.asset-card').count(), 3, 'each once');
        t.equal(await page.getByText('Not connected').count(), 0);
      }
    },
  );

  t.test('many assets are walked, searched and filtered', async (t) => {
    const user = await newUser();
    await multiply(dashboard, made?.id ?? '', user.projectId, many);
    const page = await openAssets(dashboard, t, user);
    const cards = page.locator('.asset-card[data-asset]');
    await cards.first().waitFor();
    await takeScreenshots(page, 'gallery-many');
    // Only what is near to being seen is drawn.
    await page.evaluate('window.seen = new Set()');
    await until(
      page,
      `document.querySelectorAll('.asset-card[data-asset]').forEach(({ dataset }) => seen.add(dataset.asset));
      scrollBy(0, 500); seen.size === ${many}`,
    );
    await page.getByText(`${many} assets shown`).waitFor({ state: 'attached' });
    t.ok((await cards.count()) < many / 2);
    await page.evaluate('scrollTo(0, 0)');
    await page.keyboard.press('/');
    await page.keyboard.type('number-17');
    await until(page, `document.querySelectorAll('.asset-card[data-asset]').length === 11`);
    await page.waitForURL(/q=number-17/);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    await until(page, "[...document.querySelectorAll('.asset-card')].indexOf(document.activeElement) === 1");
    await checkBothThemes(t, page, 'gallery, searched');
    const wanted = await page.evaluate('document.activeElement.dataset.asset');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/assets/${wanted}`);
    await page.goBack();
    await until(page, `document.querySelectorAll('.asset-card[data-asset]').length === 11`);
    await page.getByText('Failed', { exact: true }).click();
    await page.getByText('Nothing fits').waitFor();
    await checkBothThemes(t, page, 'gallery, nothing fits');
    await page.getByRole('button', { name: 'Show all assets' }).click();
    await cards.first().waitFor();
    await page.waitForURL(/assets$/);
  });

  t.test('a run is followed state by state, regenerated, called off and deleted', async (t) => {
    if (!made) throw new Error('no asset was made');
    const { user, id } = made;
    const path = `/dashboard/projects/${user.projectId}/assets/${id}`;
    const page = await dashboard.open(t, { user, path });
    await page.getByRole('heading', { level: 1, name: /^Upload / }).waitFor();
    await page.locator('.chart').waitFor();
    await untilLit(page, 'ready');
    await checkBothThemes(t, page, 'asset, ready');
    await takeScreenshots(page, 'asset-ready');

    // Back through the past: the chart shows each state that there was.
    for (const state of [
      'pending.storing.writing',
      'pending.single.waiting',
      'pending.single.submitting',
      'pending.vision.describing',
      'pending.source.fetching',
    ]) {
      await page.getByRole('button', { name: 'One state back' }).click();
      await untilLit(page, state);
    }
    t.ok(await page.getByRole('button', { name: 'One state back' }).isDisabled());
    await page.getByRole('button', { name: 'Now', exact: true }).click();
    await untilLit(page, 'ready');

    await page.getByRole('button', { name: /^Raw events/ }).click();
    const told = await user.timeline(id);
    // Each event is a row, once.
    await until(page, `document.querySelectorAll('.events tbody tr').length === ${told.length}`);
    await page.getByRole('switch', { name: 'Only failed, 0' }).click();
    await page.getByText('Nothing has failed in this run.').waitFor();
    await checkBothThemes(t, page, 'asset, events');

    const badge = page.locator('h1 ~ .lead [data-state]');
    const regenerate = async (words: string, run: number) => {
      await page.getByRole('button', { name: 'Regenerate', exact: true }).click();
      await page.getByLabel('What should happen (optional)').fill(words);
      await page.getByRole('button', { name: 'Make another run' }).click();
      await page.getByText(`Run ${run}`).waitFor();
    };
    const asset = async () => (await user.call<{ asset: Asset }>('GET', `/api/assets/${id}`)).body.asset;

    await t.test('it is regenerated with other words, and plays what came of them', async (t) => {
      const before = await asset();
      await page.getByRole('button', { name: 'Regenerate', exact: true }).click();
      await checkBothThemes(t, page, 'regenerate');
      await page.keyboard.press('Escape');
      await regenerate('the clouds drift', 2);
      await user.untilEnd(id);
      await badge.and(page.locator('[data-state="ready"]')).waitFor();
      const after = await asset();
      t.match(after, { run: 2, status: 'ready', prompt_override: 'the clouds drift' });
      t.not(after.mp4_url, before.mp4_url);
      await page.locator(`video[src="${after.mp4_url}"]`).waitFor();
    });

    await t.test('a run that is cancelled leaves what there was', async (t) => {
      const before = await asset();
      await regenerate('the water glitters', 3);
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await badge.and(page.locator('[data-state="cancelled"]')).waitFor();
      await untilLit(page, 'cancelled');
      t.match(await asset(), { run: 3, status: 'ready', mp4_url: before.mp4_url });
    });

    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await checkBothThemes(t, page, 'delete');
    await page.getByRole('button', { name: 'Delete for good' }).click();
    await page.waitForURL(/\/assets$/);
    await page.getByText('No animation yet').waitFor();
    t.equal((await user.call('GET', `/api/assets/${id}`)).status, 404);
  });
}

function openAssets(dashboard: Dashboard, t: Test, user: TestUser, query = ''): Promise<Page> {
  return dashboard.open(t, { user, path: `/dashboard/projects/${user.projectId}/assets${query}` });
}

/** Waits until the chart shows this state. */
async function untilLit(page: Page, state: string): Promise<void> {
  await page.locator(`.chart [data-lit="here"][data-state="${state}"]`).waitFor();
}

type Dropped = { name: string; type: string; base64?: string; bytes?: number };

/** Drops files onto the page as a mouse does. */
async function drop(page: Page, files: Dropped[]): Promise<void> {
  await page.evaluate(`
    const transfer = new DataTransfer();
    for (const { name, type, base64, bytes = 0 } of ${JSON.stringify(files)}) {
      const content = base64 ? Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)) : new Uint8Array(bytes);
      transfer.items.add(new File([content], name, { type }));
    }
    for (const name of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(
        new DragEvent(name, { bubbles: true, cancelable: true, dataTransfer: transfer }),
      );
    }`);
}

/** Copies of an asset in another project, each older than the one before. */
async function multiply({ service }: Dashboard, id: string, project: string, count: number): Promise<void> {
  const { actors } = service.store.assets;
  const template = await actors.find(id);
  if (!template) throw new Error(`no asset ${id}`);
  const context = template.machine.context as object;
  const writes = Array.from({ length: count }, (_, index) => ({
    before: template,
    isNew: true,
    newFacts: [],
    resetFacts: false,
    next: {
      ...template,
      _id: `${id.slice(0, -4)}${String(index).padStart(4, '0')}`,
      project,
      createdTs: template.createdTs - 1 - index,
      machine: {
        ...template.machine,
        context: { ...context, projectId: project, src: `https://example.com/number-${index}.jpg` },
      },
    },
  }));
  if (!(await actors.write(writes))) throw new Error('not all copies were stored');
}

/** A way to the service that can be cut. */
async function startLine(t: Test, to: number) {
  const sockets = new Set<Socket>();
  let server: Server;
  const open = async (port: number) => {
    server = createServer((socket) => {
      const other = connect(to, '127.0.0.1');
      for (const [one, its] of [
        [socket, other],
        [other, socket],
      ] as const) {
        sockets.add(one);
        one.on('error', () => its.destroy());
        one.on('close', () => {
          its.destroy();
          sockets.delete(one);
        });
        one.pipe(its);
      }
    }).listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as { port: number }).port;
  };
  const port = await open(0);
  const cut = async () => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  t.teardown(() => (server.listening ? cut() : undefined));
  return { base: `http://127.0.0.1:${port}`, cut, restore: () => open(port) };
}
