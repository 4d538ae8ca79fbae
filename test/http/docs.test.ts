/** The documentation: every page, how it is served, what its search finds, and how it looks in a browser. */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import axe from 'axe-core';
import t from 'tap';
import { ApiErrorCode, apiErrorCode, apiErrors, ErrorCode } from '../../schemas/errors.ts';
import { splitAtCharts, withoutCharts } from '../../src/docs/charts.ts';
import { curlOf, variable } from '../../src/docs/examples.ts';
import { compareSections, readGuides } from '../../src/docs/guides.ts';
import { html } from '../../src/docs/html.ts';
import { createSite } from '../../src/docs/site.ts';
import { pageHeaders } from '../../src/http/pages.ts';
import { startServer } from '../../src/http/server.ts';
import { launchChromium, skip } from '../fixtures/chromium.ts';
import { type Front, startFront } from '../fixtures/http.ts';
import { productDocument, productRoutes } from '../fixtures/product.ts';
import { ask } from './ask.ts';

const front: Front = await startFront();
const server = await startServer({
  host: '127.0.0.1',
  port: 0,
  routes: productRoutes(),
  services: front.services,
});
const document = productDocument();
const site = createSite(document);
const pages = [...site].filter(([path, { type }]) => type === 'html' && path !== '404');
t.teardown(async () => {
  await server.close();
  await front.close();
});

t.test('every link leads somewhere, anchors included', async (t) => {
  for (const [path, { text }] of pages) {
    for (const [, link = ''] of text.matchAll(/href="([^"]*)"/g)) {
      if (/^https:/.test(link) || link === '/openapi.json') continue;
      const [page, anchor] = link.split('#');
      const target = site.get(page === '' ? path : (page ?? ''));
      t.ok(target, `${path}: ${link}`);
      if (anchor) t.ok(target?.text.includes(`id="${anchor}"`), `${path}: ${link}`);
    }
  }
});

t.test('every error code has its page, and every text its code', async (t) => {
  for (const code of [...ApiErrorCode.options, ...ErrorCode.options]) {
    const text = site.get(`/docs/errors/${code}`)?.text ?? '';
    for (const part of ['Why it happens', 'What to do', 'Is it retried?']) t.ok(text.includes(part), code);
  }
  for (const code of ApiErrorCode.options) {
    const { status, texts = [] }: { status: number; texts?: readonly string[] } = apiErrors[code];
    for (const text of texts) t.equal(apiErrorCode(status, text), code);
    for (const text of texts.filter((one) => one.endsWith(':')))
      t.equal(apiErrorCode(status, `${text} more`), code);
  }
  t.equal(apiErrorCode(404, 'anything'), 'not_found');
  t.equal(apiErrorCode(400, 'cursor: no'), 'invalid_request');
  t.equal(apiErrorCode(418, 'anything'), undefined);
});

t.test('every operation is on the page of its group', async (t) => {
  for (const operation of Object.values(document.paths).flatMap((methods) => Object.values(methods))) {
    const page = site.get(`/docs/${operation.tags[0]?.toLowerCase()}`);
    t.ok(page?.text.includes(`id="${operation.operationId}"`), operation.operationId);
  }
});

t.test('what is put into a page is escaped', async (t) => {
  t.equal(
    html`<p title="${'"\'<&>'}">${['<b>', html`<i>`]}${undefined}${false}</p>`.text,
    '<p title="&quot;&#39;&lt;&amp;&gt;">&lt;b&gt;<i></p>',
  );
  const hostile = structuredClone(document);
  for (const methods of Object.values(hostile.paths)) {
    for (const operation of Object.values(methods)) {
      operation.summary = '<script>summary</script>';
      operation.description = '<script>description</script>';
    }
  }
  for (const [path, { text, type }] of createSite(hostile))
    if (type === 'html') t.notMatch(text, /<script>/, path);
});

t.test('200 with an ETag, 304 when it is known, compressed as the client takes it', async (t) => {
  for (const path of ['/docs', '/openapi.json']) {
    const get = (encoding: string, more: Record<string, string> = {}) =>
      ask(server.port, path, { headers: { 'accept-encoding': encoding, ...more } });
    const plain = await get('');
    t.equal(plain.headers['content-encoding'], undefined);
    const br = await get('gzip, deflate, br');
    t.equal(br.headers['content-encoding'], 'br');
    t.ok(brotliDecompressSync(br.body).equals(plain.body));
    t.ok(br.body.length < plain.body.length / 3);
    const gzip = await get('br;q=0, gzip;q=0.5');
    t.equal(gzip.headers['content-encoding'], 'gzip');
    t.ok(gunzipSync(gzip.body).equals(plain.body));
    const tags = [plain, br, gzip].map(({ headers }) => headers['etag'] ?? '');
    t.equal(new Set(tags).size, 3, 'each form has a tag of its own');
    t.equal((await get('br', { 'if-none-match': `"x", W/${tags[1]}` })).status, 304);
    t.equal((await get('br', { 'if-none-match': tags[0] ?? '' })).status, 200);
    const head = await ask(server.port, path, { method: 'HEAD' });
    t.equal(head.body.length, 0);
    t.equal(head.headers['content-length'], String(plain.body.length));
    t.equal(plain.headers['vary'], 'Accept-Encoding');
  }
  t.equal((await ask(server.port, '/openapi.json')).headers['access-control-allow-origin'], '*');
});

t.test(
  '200 for the Markdown of every page, each leading to the other; llms.txt lists all of them',
  async (t) => {
    const list = (await ask(server.port, '/llms.txt')).body.toString();
    const full = await ask(server.port, '/llms-full.txt');
    t.equal(full.headers['content-type'], 'text/plain; charset=utf-8');
    for (const [path, { twin = '' }] of pages) {
      const markdown = site.get(twin)?.text ?? '';
      t.match(markdown, /^# /, twin);
      t.notMatch(markdown, /\{\{|\[\[chart|^---\n/, `${twin} has no holes`);
      t.ok(list.includes(`${twin}): `), `llms.txt names ${twin}`);
      t.equal(site.get(twin)?.twin, path);
    }
    const page = await ask(server.port, '/docs/quick-start');
    t.equal(page.headers['link'], '</docs/quick-start.md>; rel="alternate"; type="text/markdown"');
    const twin = await ask(server.port, '/docs/quick-start.md');
    t.match(twin.headers, {
      'content-type': 'text/markdown; charset=utf-8',
      link: '</docs/quick-start>; rel="canonical"',
    });
    t.match(full.body.toString(), twin.body.toString().slice(0, 200));
    t.equal((await ask(server.port, '/docs/errors/busy.md')).status, 200);
  },
);

t.test(
  'guides are in the navigation by section and order, and by their folder when they say nothing',
  async (t) => {
    const guides = readGuides('http://localhost:8080');
    const sections = guides.map(({ section }) => section);
    t.strictSame([...new Set(sections)], [...new Set(sections)].sort(compareSections), 'sections are whole');
    t.strictSame(['Reference', 'Runbooks', 'Build', 'Run', 'Start', 'Checks'].sort(compareSections), [
      'Start',
      'Build',
      'Run',
      'Checks',
      'Runbooks',
      'Reference',
    ]);
    for (const name of ['quick-start', 'embed', 'signed-urls', 'webhooks', 'events', 'errors', 'limits'])
      t.ok(site.has(`/docs/${name}`), name);
    for (const name of ['self-hosting', 'operation', 'sizing', 'performance', 'client', 'cli', 'api'])
      t.ok(site.has(`/docs/${name}`), name);
    for (const { description, title } of guides) t.ok(description.length > 20 && title.length > 2, title);
  },
);

t.test('200 for the chart that a page shows, which brings colours for both themes along', async (t) => {
  const page = (await ask(server.port, '/docs/how-it-works')).body.toString();
  const path = /<img src="([^"]+\.svg)"/.exec(page)?.[1] ?? '';
  const chart = await ask(server.port, path);
  t.equal(chart.status, 200);
  t.match(chart.headers, { 'content-type': 'image/svg+xml' });
  t.match(chart.body.toString(), /^<svg [^>]+>\n<style>\n:root \{\n {2}--paper:/);
  t.match(chart.body.toString(), /prefers-color-scheme: dark[\s\S]+\.chart \.chart-line/);
  t.equal(withoutCharts('a\n\n[[chart asset]]\n\nb'), 'a\n\nb', 'its line leaves no hole');
  t.throws(() => splitAtCharts('a\n[[chart none]]\nb', String), /none, which there is not/);
});

t.test(
  'what a page loads is small: style and script at most 8 KiB, the index of the search at most 64',
  async (t) => {
    for (const [path, { text, type }] of site) {
      const size = gzipSync(text, { level: 9 }).length;
      if (type === 'css' || type === 'js') t.ok(size <= 8_192, `${path}: ${size}`);
      if (type === 'json') t.ok(size <= 65_536, `${path}: ${size}`);
    }
  },
);

t.test(
  '200 for the face that pages ask for before they are drawn, the one that the style names',
  async (t) => {
    const page = (await ask(server.port, '/docs')).body.toString();
    const path =
      /<link rel="preload" as="font" type="font\/woff2" href="([^"]+)" crossorigin>/.exec(page)?.[1] ?? '';
    const face = await ask(server.port, path);
    t.equal(face.status, 200);
    t.match(face.headers, { 'content-type': 'font/woff2', 'cache-control': /immutable/ });
    t.equal(face.body.subarray(0, 4).toString(), 'wOF2');
    const style = [...site].find(([, { type }]) => type === 'css')?.[1].text ?? '';
    t.ok(style.includes(`url("${path}")`));
  },
);

t.test('what a field may be is told in words, and code in descriptions is code', async (t) => {
  for (const [path, { text }] of pages) {
    t.equal(/<td class="type">[^<]*,/.exec(text), null, path);
    t.equal(/<dd>[^<]*`/.exec(text), null, path);
  }
  t.match(site.get('/docs/webhooks')?.text, /webhook_secret_preview[\s\S]{0,80}>string or null</);
});

t.test('a guide that leads to a folder lists the pages in it', async (t) => {
  const runbooks = pages.filter(([path]) => path.startsWith('/docs/runbooks/'));
  t.ok(runbooks.length > 10);
  const text = site.get('/docs/runbooks.md')?.text ?? '';
  for (const [path] of runbooks) t.ok(text.includes(`](${path}): `), path);
  t.notMatch(site.get('/docs/errors.md')?.text, /## All of them/);
});

t.test('404 with a page that leads back', async (t) => {
  for (const path of ['/docs/nothing', '/docs/errors/nothing', '/docs/assets/nothing.css']) {
    const { status, headers, body } = await ask(server.port, path);
    t.equal(status, 404, path);
    t.equal(headers['content-type'], 'text/html; charset=utf-8');
    t.match(body.toString(), /href="\/docs"/);
  }
});

t.test(
  'pages may load nothing foreign and are never framed; HSTS when the service is reached by https',
  async (t) => {
    const { headers } = await ask(server.port, '/docs');
    t.match(headers, {
      'content-security-policy':
        /^default-src 'none'; style-src 'self'; .*script-src 'self'; .*frame-ancestors 'none'$/,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'strict-origin-when-cross-origin',
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': /^public, max-age=60/,
    });
    t.notMatch(headers['content-security-policy'], /unsafe/);
    t.equal(headers['strict-transport-security'], undefined);
    const secure = pageHeaders('https://assets.example.com', ["script-src 'self'"]);
    t.match(secure, {
      'Strict-Transport-Security': 'max-age=31536000',
      'Content-Security-Policy': /script-src 'self'/,
    });
    const style = [...site.keys()].find((path) => path.endsWith('.css')) ?? '';
    t.match((await ask(server.port, style)).headers, {
      'content-type': 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
    });
  },
);

const hasCurl = spawnSync('curl', ['--version']).status === 0;

t.test(
  'the requests for curl work when pasted',
  { skip: hasCurl ? false : 'curl is not installed' },
  async (t) => {
    const folder = t.testdir({});
    const { cookie } = await front.signUp();
    const run = async (method: 'get' | 'post' | 'put', path: string, ids: Record<string, string> = {}) => {
      const operation = document.paths[path]?.[method];
      if (!operation) throw new Error(`no ${method} ${path}`);
      const line = curlOf(method, path, operation, document)
        .replace('http://localhost:8080', front.url)
        .replace('-b cookies.txt', `-b '${cookie}'`);
      const env = Object.fromEntries(Object.entries(ids).map(([name, id]) => [variable(name), id]));
      const { stdout } = await promisify(execFile)('bash', ['-euc', `${line} -sS -w '\\n%{http_code}'`], {
        cwd: folder,
        env: { ...process.env, ...env },
      });
      return stdout.split('\n').at(-1);
    };
    const { body } = await front.call('GET', '/api/projects', { cookie });
    const projectId = (body['projects'] as { id: string }[])[0]?.id ?? '';
    t.equal(await run('get', '/healthz'), '200');
    t.equal(await run('post', '/api/user/signup'), '201');
    t.equal(await run('post', '/api/user/signin'), '200');
    t.equal(await run('get', '/api/user/me'), '200');
    t.equal(await run('post', '/api/projects'), '201');
    t.equal(await run('put', '/api/projects/{projectId}/proxy-config', { projectId }), '200');
    t.equal(await run('post', '/api/projects/{projectId}/keys/rotate', { projectId }), '200');
  },
);

t.test(
  'in a browser: no error, nothing refused, nothing too wide, nothing that axe finds',
  { skip, timeout: 120_000 },
  async (t) => {
    const browser = await launchChromium();
    t.teardown(() => browser.close());
    for (const [colorScheme, width, paths] of [
      ['light', 1280, ['/docs/webhooks', '/docs/errors/rate_limited']],
      ['dark', 360, ['/docs', '/docs/limits', '/docs/api']],
      ['dark', 2560, ['/docs/client']],
    ] as const) {
      const page = await browser.newPage({ colorScheme, viewport: { width, height: 900 } });
      const complaints: string[] = [];
      page.on('console', (message) => complaints.push(message.text()));
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('requestfailed', (failed) => complaints.push(failed.url()));
      for (const path of paths) {
        await page.goto(`http://127.0.0.1:${server.port}${path}`);
        const name = `${path} ${colorScheme} ${width}`;
        const wide = await page.evaluate('document.documentElement.scrollWidth');
        t.equal(wide, width, `${name} is not too wide`);
        await page.evaluate(axe.source);
        const { violations } = (await page.evaluate('axe.run()')) as {
          violations: { id: string; nodes: object[] }[];
        };
        t.strictSame(
          violations.map(({ id, nodes }) => [id, JSON.stringify(nodes[0]).slice(0, 300)]),
          [],
          name,
        );
      }
      t.strictSame(complaints, [], 'the console is empty');
      await page.close();
    }

    const page = await browser.newPage({ colorScheme: 'dark' });
    await page.goto(`http://127.0.0.1:${server.port}/docs`);
    await page.keyboard.press('/');
    await page.waitForSelector('dialog[open] input:focus');
    await page.keyboard.type('rotat sign');
    await page.waitForSelector('[role=option]');
    t.match(await page.textContent('[role=listbox]'), /sign/i);
    await page.evaluate(axe.source);
    const { violations } = (await page.evaluate('axe.run()')) as { violations: { id: string }[] };
    t.strictSame(
      violations.map(({ id }) => id),
      [],
      'the open search',
    );
    await page.fill('dialog input', 'rate_limited');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/docs\/errors/);
    await page.keyboard.press('/');
    await page.fill('dialog input', 'qqqqqq');
    t.match(await page.textContent('dialog .status'), /Nothing found/);
    await page.keyboard.press('Escape');
    t.equal((await page.$$('dialog[open]')).length, 0);
  },
);
