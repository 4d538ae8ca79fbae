/**
 * `<animated-asset>` in real browsers: against a service that answers by a script, and against the real one. Chromium
 * is driven; Firefox visits pages that tell of themselves.
 */
import { readFileSync } from 'node:fs';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import type { BrowserContextOptions, Page } from 'playwright-core';
import sharp from 'sharp';
import t, { type Test } from 'tap';
import { embedRoutes } from '../../src/http/embed.ts';
import { startServer } from '../../src/http/server.ts';
import type { Services } from '../../src/http/services.ts';
import { launchChromium, skip } from '../fixtures/chromium.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';
import { ask } from '../http/ask.ts';
import { firefoxPath, visitAll } from './firefox.ts';
import { openWorld, pageOf, script } from './world.ts';

const world = await openWorld();
t.teardown(world.close);

const sized = 'style="width:320px;height:180px"';
const tag = (name: string, more = '') =>
  `<animated-asset src="${world.service}/v1/pk_test/${name}.mp4" alt="${name}" ${sized} ${more}></animated-asset>`;

/** What was asked of the service for an asset. */
const askedFor = (name: string) => world.asked.filter(({ path }) => path.includes(`/${name}.`));
const pathsFor = (name: string) => askedFor(name).map(({ path }) => path);

t.test('the script is at most 4 KiB on the wire', async (t) => {
  t.ok(gzipSync(script, { level: 9 }).length <= 4_096);
});

t.test('200 for the script: any page may load it, soon a newer one, 304 for who knows it', async (t) => {
  const note = () => undefined;
  const { port, close } = await startServer({
    host: '127.0.0.1',
    port: 0,
    routes: embedRoutes(),
    services: {
      log: { info: note, warn: note, error: note },
      config: { baseUrl: 'http://localhost:8080', trustedProxies: [] },
    } as unknown as Services,
  });
  t.teardown(close);
  const whole = await ask(port, '/embed.js');
  t.ok(whole.body.equals(script));
  t.match(whole.headers, {
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': /^public, max-age=\d+, stale-while-revalidate=\d+$/,
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
    vary: 'Accept-Encoding',
  });
  const unpack = { br: brotliDecompressSync, gzip: gunzipSync };
  for (const encoding of ['br', 'gzip'] as const) {
    const headers = { 'accept-encoding': encoding };
    const packed = await ask(port, '/embed.js', { headers });
    t.equal(packed.headers['content-encoding'], encoding);
    t.ok(packed.body.length <= 4_096);
    t.ok(unpack[encoding](packed.body).equals(script));
    const known = { ...headers, 'if-none-match': packed.headers['etag'] ?? '' };
    t.match(await ask(port, '/embed.js', { headers: known }), { status: 304, body: { length: 0 } });
  }
  const head = await ask(port, '/embed.js', { method: 'HEAD' });
  t.match(head, { status: 200, body: { length: 0 }, headers: { 'content-length': String(script.length) } });
});

/**
 * The real service, and a source of its world whose last byte comes when it is let go: until then the asset is
 * pending.
 */
async function openService(t: Test) {
  // As small as clips come: how it plays is shown, not how it looks.
  const photo = await sharp('src/demo/photo.jpg').resize({ width: 240 }).toBuffer();
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const sources = await serveSources(t, (_, answer) => {
    answer.setHeader('Content-Type', 'image/jpeg');
    answer.write(photo.subarray(0, -1));
    void released.then(() => answer.end(photo.subarray(-1)));
  });
  const { base, signUp } = await startTestService(t);
  const user = await signUp();
  const { body } = await user.call<{ project: { proxy_key: string } }>(
    'PUT',
    `/api/projects/${user.projectId}/proxy-config`,
    { allowed_origins: [new URL(world.site).host], default_dur_seconds: 2, default_mode: 'animate-in' },
  );
  const [, example = ''] =
    /<!-- executed by test\/embed\/embed.test.ts -->\n```html\n([\s\S]*?)```/.exec(
      readFileSync('README.md', 'utf8'),
    ) ?? [];
  const html = example
    .replace('http://localhost:8080', base)
    .replace('pk_…', body.project.proxy_key ?? '')
    .replace('https://example.com/photo.jpg', `${sources}/photo.jpg`);
  return { html, release };
}

t.test('in Chromium', { skip, timeout: 200_000 }, async (t) => {
  // Pages wait more than they work.
  t.jobs = 4;
  const browser = await launchChromium();
  t.teardown(() => browser.close());
  const open = async (
    html: string,
    options: BrowserContextOptions = {},
    headers: Record<string, string> = {},
  ): Promise<{ page: Page; errors: string[] }> => {
    const path = `/${world.pages.size}.html`;
    world.pages.set(path, { html: pageOf(world, html), headers });
    const context = await browser.newContext({ viewport: { width: 800, height: 600 }, ...options });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    page.on('console', (message) => {
      // Answers of 502 and the like, which browsers write there by themselves.
      const isAnswer = message.text().includes('Failed to load resource');
      if (message.type() === 'error' && !isAnswer) errors.push(message.text());
    });
    await page.goto(world.site + path);
    return { page, errors };
  };

  t.test(
    'the README’s example on a foreign page, with the real service: 202, the poster, and it plays',
    { buffered: true },
    async (t) => {
      const { html, release } = await openService(t);
      const { page, errors } = await open(html, {}, { 'Referrer-Policy': 'no-referrer' });
      const told: string[] = [];
      page.on('response', (answer) => {
        const { pathname } = new URL(answer.url());
        if (pathname.startsWith('/v1/')) told.push(`${answer.status()} ${pathname.slice(-4)}`);
      });
      await page.waitForResponse((answer) => answer.status() === 202);
      release();
      await state(page, 'playing', 150_000);
      t.equal(told[0], '202 .mp4');
      t.strictSame([...new Set(told)].sort(), ['200 .jpg', '202 .mp4', '206 .mp4']);
      t.equal(
        await page.evaluate(
          'document.querySelector("animated-asset").shadowRoot.querySelector("img").naturalWidth > 0',
        ),
        true,
      );
      t.match(await video(page), { error: null, muted: true });
      t.strictSame(errors, []);
      await page.close();
    },
  );

  t.test('it goes from 202 to playing with no error, the poster first', { buffered: true }, async (t) => {
    world.scripts.set('slow', ['pending', 'pending', 'ready']);
    const { page, errors } = await open(tag('slow'));
    await state(page, 'pending');
    t.equal(await posterIsShown(page), true);
    await state(page, 'playing');
    t.equal(await page.evaluate('window.seen.join()'), 'ready,playing');
    t.match(await video(page), { loop: true, muted: true, error: null, paused: false });
    t.strictSame(errors, []);
    const { origin } = world.asked.find(({ path }) => path.endsWith('slow.mp4')) ?? {};
    t.equal(origin, world.site);
    await page.close();
  });

  t.test(
    'on a page that sends no referrer the service still learns who asks',
    { buffered: true },
    async (t) => {
      const { page } = await open(tag('quiet'), {}, { 'Referrer-Policy': 'no-referrer' });
      await state(page, 'playing');
      t.ok(
        askedFor('quiet').every(({ origin }) => origin === world.site),
        'poster, questions and video send Origin',
      );
      await page.close();
    },
  );

  t.test('under a strict content policy', { buffered: true }, async (t) => {
    const { page, errors } = await open(
      tag('strict'),
      {},
      {
        'Content-Security-Policy': `default-src 'none'; script-src ${world.service} 'unsafe-inline'; style-src-attr 'unsafe-inline'; img-src ${world.service}; media-src ${world.service}; connect-src ${world.service}`,
      },
    );
    await state(page, 'playing');
    t.strictSame(errors, []);
    await page.close();
  });

  t.test('who wants less motion sees the poster, and no run is started', { buffered: true }, async (t) => {
    const { page } = await open(tag('calm'), { reducedMotion: 'reduce' });
    await page.waitForFunction(
      'document.querySelector("animated-asset").shadowRoot.querySelector("img").complete',
    );
    t.equal(await posterIsShown(page), true);
    t.strictSame(pathsFor('calm'), ['/v1/pk_test/calm.jpg']);
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    await state(page, 'playing');
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await state(page, 'ready');
    t.match(await video(page), { paused: true });
    await page.close();
  });

  t.test(
    'animate-on-hover plays under the pointer, and rests on the poster',
    { buffered: true },
    async (t) => {
      const { page } = await open(tag('hover', 'mode="animate-on-hover"'));
      await state(page, 'ready');
      t.match(await video(page), { paused: true });
      await page.hover('animated-asset');
      await state(page, 'playing');
      await page.mouse.move(700, 500);
      await state(page, 'ready');
      t.match(await video(page), { paused: true, currentTime: 0 });
      await page.close();
    },
  );

  t.test(
    'animate-in plays once when it comes into view, and stays at its end',
    { buffered: true },
    async (t) => {
      const { page } = await open(`<div style="height:9000px"></div>${tag('enter', 'mode="animate-in"')}`);
      await page.waitForTimeout(300);
      t.strictSame(pathsFor('enter'), [], 'nothing is asked for what nobody sees');
      await page.evaluate('document.querySelector("animated-asset").scrollIntoView()');
      await state(page, 'playing');
      await page.waitForFunction(
        'document.querySelector("animated-asset").shadowRoot.querySelector("video").ended',
      );
      t.match(await video(page), { loop: false });
      t.equal(await page.getAttribute('animated-asset', 'state'), 'playing', 'its last frame is shown');
      await page.close();
    },
  );

  t.test('several on a page are each their own', { buffered: true }, async (t) => {
    world.scripts.set('b', ['failed']);
    const { page } = await open(['a', 'b', 'c'].map((name) => tag(name)).join(''));
    const states =
      '[...document.querySelectorAll("animated-asset")].map((one) => one.getAttribute("state")).join()';
    await page.waitForFunction(`${states} === "playing,failed,playing"`);
    t.equal(await page.evaluate(states), 'playing,failed,playing');
    await page.close();
  });

  t.test(
    'a node that is taken out stops, and starts again when it is put back',
    { buffered: true },
    async (t) => {
      world.scripts.set('moved', ['pending', 'pending', 'pending', 'pending', 'ready']);
      const { page } = await open(tag('moved'));
      await state(page, 'pending');
      await page.evaluate('window.kept = document.querySelector("animated-asset"); kept.remove()');
      await page.waitForTimeout(400);
      const before = pathsFor('moved').length;
      await page.waitForTimeout(1_200);
      t.equal(pathsFor('moved').length, before, 'nobody asks any more');
      t.equal(await page.evaluate('kept.getAttribute("state")'), null);
      await page.evaluate('document.body.append(kept)');
      await state(page, 'playing');
      await page.close();
    },
  );

  t.test(
    'another src is another asset; several attributes at once are one change',
    { buffered: true },
    async (t) => {
      const { page } = await open(tag('first'));
      await state(page, 'playing');
      const before = pathsFor('first').length;
      await page.evaluate(
        `(() => { const one = document.querySelector("animated-asset"); one.setAttribute("mode", "loop"); one.setAttribute("src", one.getAttribute("src").replace("first", "second")); })()`,
      );
      await page.waitForFunction(
        'document.querySelector("animated-asset").shadowRoot.querySelector("video")?.src.includes("second")',
      );
      await state(page, 'playing');
      t.equal(pathsFor('first').length, before);
      t.equal(
        await page.evaluate(
          'document.querySelector("animated-asset").shadowRoot.querySelectorAll("video").length',
        ),
        1,
      );
      await page.close();
    },
  );

  t.test(
    'a failed run and a refusal show the poster and say why, and are not asked again',
    { buffered: true },
    async (t) => {
      for (const [answer, status] of [
        ['failed', 502],
        ['forbidden', 403],
      ] as const) {
        world.scripts.set(answer, [answer]);
        const { page } = await open(tag(answer));
        await state(page, 'failed');
        t.equal(await posterIsShown(page), true);
        t.match(await page.evaluate('window.failure'), { status, reason: String });
        const before = pathsFor(answer).length;
        await page.waitForTimeout(300);
        t.equal(pathsFor(answer).length, before);
        await page.close();
      }
    },
  );

  t.test('passing trouble is waited out', { buffered: true }, async (t) => {
    world.scripts.set('rough', ['down', 'limited', 'cut', 'ready']);
    const { page } = await open(tag('rough'));
    await state(page, 'playing');
    const questions = askedFor('rough').filter(({ query }) => query !== '');
    t.equal(questions.length, 4, 'one question an answer');
    await page.close();
  });

  t.test('project-key and image make the URL', { buffered: true }, async (t) => {
    const { page } = await open(
      `<animated-asset project-key="pk_test" image="https://example.com/cät.png" motion="kinetic" dur="3" alt="a cat"></animated-asset>`,
    );
    await state(page, 'playing');
    const { path, query } = world.asked.find(
      (one) => one.path.startsWith('/v1/pk_test/aHR0c') && one.query.includes('wait_ms'),
    ) ?? { path: '', query: '' };
    const source = path.slice('/v1/pk_test/'.length, -'.mp4'.length);
    t.equal(Buffer.from(source, 'base64url').toString(), 'https://example.com/c%C3%A4t.png');
    t.match(query, /motion=kinetic&dur=3/);
    await page.close();
  });

  t.test('the script twice on a page does no harm', { buffered: true }, async (t) => {
    const { page, errors } = await open(`${tag('twice')}<script src="${world.service}/embed.js"></script>`);
    await state(page, 'playing');
    t.strictSame(errors, []);
    await page.close();
  });

  t.test('pause holds until play, whatever comes into view meanwhile', { buffered: true }, async (t) => {
    const { page } = await open(`${tag('held')}<div style="height:3000px"></div>`);
    await state(page, 'playing');
    await page.evaluate('document.querySelector("animated-asset").pause()');
    await state(page, 'paused');
    await page.evaluate('scrollTo(0, 2000)');
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 100))');
    await page.evaluate('scrollTo(0, 0)');
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 200))');
    t.match(await video(page), { paused: true });
    t.equal(await page.getAttribute('animated-asset', 'state'), 'paused');
    await page.evaluate('document.querySelector("animated-asset").play()');
    await state(page, 'playing');
    await page.evaluate('scrollTo(0, 2000)');
    await state(page, 'paused');
    t.match(await video(page), { paused: true }, 'out of sight it rests');
    await page.evaluate('scrollTo(0, 0)');
    await state(page, 'playing');
    await page.close();
  });

  t.test(
    'a video that is refused later is asked about again, and says why',
    { buffered: true },
    async (t) => {
      world.scripts.set('revoked', ['ready', 'forbidden']);
      const { page } = await open(tag('revoked'));
      await state(page, 'failed');
      t.strictSame(await page.evaluate('window.failure'), { reason: 'origin not allowed', status: 403 });
      t.equal(await posterIsShown(page), true);
      await page.close();
    },
  );

  t.test(
    'a src that is no address fails by name, and a right one is taken afterwards',
    { buffered: true },
    async (t) => {
      const { page, errors } = await open(`<animated-asset src="http://" alt="x" ${sized}></animated-asset>`);
      await state(page, 'failed');
      t.match(await page.evaluate('window.failure'), { reason: 'this is not a URL' });
      await page.evaluate(
        `document.querySelector("animated-asset").setAttribute("src", "${world.service}/v1/pk_test/mended.mp4")`,
      );
      await state(page, 'playing');
      t.strictSame(errors, []);
      await page.close();
    },
  );

  t.test('a poster of one’s own needs no CORS', { buffered: true }, async (t) => {
    world.scripts.set('own', ['failed']);
    const { page } = await open(tag('own', `poster="${world.service}/own.jpg"`));
    await state(page, 'failed');
    t.equal(await posterIsShown(page), true);
    t.notOk(pathsFor('own').includes('/v1/pk_test/own.jpg'), 'the other one is not loaded');
    await page.close();
  });
});

t.test(
  'in Firefox',
  { skip: firefoxPath ? false : 'no Firefox is installed', timeout: 200_000 },
  async (t) => {
    world.scripts.set('fslow', ['pending', 'pending', 'ready']);
    world.scripts.set('ffailed', ['failed']);
    world.scripts.set('fmoved', ['pending', 'pending', 'pending', 'ready']);
    world.asked.length = 0;
    const playing = `await until(() => states() === 'playing');`;
    const reports = await visitAll(world, {
      slow: {
        html: tag('fslow'),
        look: `
          await until(() => asset.getAttribute('state') === 'pending' && poster().naturalWidth > 0);
          ${playing}
          await until(() => video().currentTime > 0.2);
          return { seen, errors, loop: video().loop, muted: video().muted };`,
      },
      quiet: {
        html: tag('fquiet'),
        headers: { 'Referrer-Policy': 'no-referrer' },
        look: `${playing} return { errors };`,
      },
      hover: {
        html: tag('fhover', 'mode="animate-on-hover"'),
        look: `
          const reports = [];
          const settle = async (state) => { await until(() => states() === state); reports.push(state, video().paused); };
          await settle('ready');
          asset.dispatchEvent(new PointerEvent('pointerenter'));
          await settle('playing');
          asset.dispatchEvent(new PointerEvent('pointerleave'));
          await settle('ready');
          return reports;`,
      },
      enter: {
        html: `<div style="height:3000px"></div>${tag('fenter', 'mode="animate-in"')}`,
        look: `
          const before = states();
          asset.scrollIntoView();
          await until(() => video()?.ended);
          return { before, after: states(), time: video().currentTime };`,
      },
      several: {
        html: ['fa', 'ffailed', 'fc'].map((name) => tag(name)).join(''),
        look: `
          await until(() => states() === 'playing,failed,playing');
          const failed = all[1].shadowRoot;
          await until(() => failed.querySelector('img').naturalWidth > 0);
          return { failure, video: failed.querySelector('video') };`,
      },
      moved: {
        html: tag('fmoved'),
        look: `
          await until(() => states() === 'pending');
          asset.remove();
          const removed = asset.getAttribute('state');
          document.body.append(asset);
          ${playing}
          return { removed, videos: asset.shadowRoot.querySelectorAll('video').length };`,
      },
    });
    t.match(reports.slow, { seen: ['ready', 'playing'], errors: [], loop: true, muted: true });
    t.strictSame(reports.quiet, { errors: [] });
    t.strictSame(reports.hover, ['ready', true, 'playing', false, 'ready', true]);
    t.match(reports.enter, { before: 'waiting', after: 'playing', time: 1 });
    t.match(reports.several, { failure: { status: 502, reason: 'last generation failed' }, video: null });
    t.strictSame(reports.moved, { removed: null, videos: 1 });
    t.ok(
      world.asked.every(({ origin }) => origin === world.site),
      'poster, questions and video send Origin',
    );

    world.asked.length = 0;
    const calm = await visitAll(
      world,
      {
        calm: {
          html: tag('fcalm'),
          look: `
            await until(() => poster().naturalWidth > 0);
            return { state: states(), isReduced: matchMedia('(prefers-reduced-motion: reduce)').matches };`,
        },
      },
      { 'ui.prefersReducedMotion': 1 },
    );
    t.strictSame(calm.calm, { state: 'waiting', isReduced: true });
    t.strictSame(
      world.asked.map(({ path }) => path),
      ['/v1/pk_test/fcalm.jpg'],
      'who wants less motion sees the poster, and no run is started',
    );
  },
);

async function state(page: Page, wanted: string, timeout = 60_000): Promise<void> {
  await page.waitForSelector(`animated-asset[state=${wanted}]`, { state: 'attached', timeout });
}

async function video(page: Page): Promise<Record<string, unknown>> {
  return page.evaluate(
    '(({ loop, muted, error, paused, currentTime }) => ({ loop, muted, error, paused, currentTime }))(document.querySelector("animated-asset").shadowRoot.querySelector("video"))',
  );
}

async function posterIsShown(page: Page): Promise<boolean> {
  await page.waitForFunction(
    'document.querySelector("animated-asset").shadowRoot.querySelector("img").naturalWidth > 0',
  );
  return page.evaluate(`(() => {
    const root = document.querySelector("animated-asset").shadowRoot;
    const video = root.querySelector("video");
    return root.querySelector("img").getBoundingClientRect().width > 0 && (!video || getComputedStyle(video).opacity === "0");
  })()`);
}
