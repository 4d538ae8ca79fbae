/** The embed page: what it shows, and its snippets, each executed where it is meant to run. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transform } from '@swc/core';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import type { PrepareResponse } from '../../../schemas/asset.ts';
import { serveSources } from '../../fixtures/service.ts';
import {
  checkBothThemes,
  type Dashboard,
  scratchFolder,
  smallPhoto,
  takeScreenshots,
  watchErrors,
} from '../browser.ts';
import { until, untilSo } from '../until.ts';

const run = promisify(execFile);
const minuteMs = 60_000;

export async function embed(t: Test, dashboard: Dashboard): Promise<void> {
  const bytes = await smallPhoto();
  const sources = await serveSources(t, (_, response) => response.end(bytes));
  const user = await dashboard.signUp();
  const foreign = await startForeignSite(t);
  await user.call('PUT', `/api/projects/${user.projectId}/proxy-config`, {
    allowed_origins: [foreign.origin],
    default_mode: 'animate-in',
    default_dur_seconds: 2,
  });
  const src = `${sources}/bay.jpg`;
  const made = await user.call<PrepareResponse>('POST', '/api/v1/prepare', {
    project_id: user.projectId,
    src,
  });
  await user.untilEnd(made.body.asset_id);
  const page = await dashboard.open(t, { user, path: `/dashboard/projects/${user.projectId}/embed` });
  const codeOf = async (tab: string): Promise<string> => {
    await page.getByRole('tab', { name: tab, exact: true }).click();
    await page.getByRole('tab', { name: tab, exact: true, selected: true }).waitFor();
    return (await page.locator('.code pre').textContent()) ?? '';
  };

  t.test('the preview plays the animation, and follows every option', async (t) => {
    await page.locator('.preview animated-asset').waitFor();
    await until(
      page,
      'document.querySelector(".preview animated-asset")?.shadowRoot?.querySelector("img")?.naturalWidth > 0',
    );
    await page.getByLabel('Text for who does not see it').fill('A bay at dusk');
    await page.locator('.preview animated-asset[alt="A bay at dusk"]').waitFor();
    await page.getByText('Fits', { exact: true }).click();
    await page.locator('.preview animated-asset[fit="contain"]').waitFor();
    await checkBothThemes(t, page, 'embed');
    await takeScreenshots(page, 'embed');
    const { body: before } = await user.call('GET', '/api/user/me');
    await page.getByText('Kinetic', { exact: true }).click();
    await page.getByText('With these options it is another animation.').waitFor();
    t.match(await codeOf('Web component'), /motion="kinetic"/);
    t.equal(await page.locator('.preview animated-asset').count(), 0);
    const { body: after } = await user.call('GET', '/api/user/me');
    t.equal(after['aiGenerationsUsed'], before['aiGenerationsUsed'], 'choosing costs nothing');
    await page.getByText('Subtle', { exact: true }).click();
    await page.locator('.preview animated-asset').waitFor();
  });

  for (const [tab, selector] of [
    ['Web component', 'animated-asset'],
    ['HTML', 'video'],
    ['React', 'animated-asset'],
  ] as const) {
    t.test(`${tab}: the snippet plays in a foreign page through the proxy`, async (t) => {
      const code = await codeOf(tab);
      const html = tab === 'React' ? await reactPage(code) : code;
      const visitor = await (await dashboard.browser.newContext()).newPage();
      const errors = watchErrors(visitor);
      await visitor.goto(foreign.put(html));
      await visitor.waitForFunction(playing(selector), undefined, { timeout: minuteMs });
      t.strictSame(errors, []);
      await visitor.context().close();
    });
  }

  t.test('a page that is not listed gets nothing, by the very same snippet', async (t) => {
    const other = await startForeignSite(t);
    const visitor = await (await dashboard.browser.newContext()).newPage();
    const refused = visitor.waitForResponse((answer) => answer.status() === 403);
    await visitor.goto(other.put(await codeOf('Web component')));
    t.match(await (await refused).json(), { error: 'origin not allowed' });
    await visitor.context().close();
  });

  t.test('signed addresses of the Node and Python snippets play; a replaced secret ends them', async (t) => {
    await page.getByRole('tab', { name: 'Signed, Node' }).click();
    await page.getByRole('link', { name: 'Switch it on' }).click();
    await page.getByRole('switch', { name: 'Accept signed addresses' }).click();
    const secret = await secretOn(page);
    t.match(secret, /^sk_/);
    await checkBothThemes(t, page, 'proxy, with a secret');
    await takeScreenshots(page, 'proxy');
    const key =
      (await page.locator('.copy-line code').allTextContents()).find((text) => text.startsWith('pk_')) ?? '';
    await page.getByRole('link', { name: 'Embed', exact: true }).click();
    const urls = [
      await execute('node', 'sign.mjs', await codeOf('Signed, Node'), secret),
      await execute('python3', 'sign.py', await codeOf('Signed, Python'), secret),
    ];
    for (const url of urls) {
      t.ok(url.startsWith(`${dashboard.base}/v1/${key}/`), url);
      t.match(await fetch(url), { status: 200 });
    }
    await page.getByLabel('Animation', { exact: true }).selectOption('image');
    await page.getByLabel('Address of the image').fill(src);
    await page.locator('.code pre').filter({ hasText: src }).waitFor();
    const byImage = await execute('python3', 'image.py', await codeOf('Signed, Python'), secret);
    t.match(await fetch(byImage), { status: 200 }, 'the same animation by the address of its image');

    await page.getByRole('link', { name: 'Proxy', exact: true }).click();
    t.equal(await page.getByText(secret).count(), 0, 'shown once');
    await page.getByRole('button', { name: 'Replace the secret' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replace it' }).click();
    const next = await secretOn(page);
    t.not(next, secret);
    await untilSo(async () => (await fetch(urls[0] ?? '')).status === 403, 'the old secret is refused');
    await page.getByRole('link', { name: 'Embed', exact: true }).click();
    const again = await execute('node', 'again.mjs', await codeOf('Signed, Node'), next);
    t.match(await fetch(again), { status: 200 });
  });

  t.test('the origin tester says what the proxy does', async (t) => {
    await page.goto(`${dashboard.base}/dashboard/projects/${user.projectId}/proxy`);
    const tester = page.getByLabel('Would a page pass?');
    await tester.fill(`${foreign.origin}/any/page`);
    await page.getByText('passes').waitFor();
    await tester.fill('https://shop.example/cart');
    await page.getByText('does not pass: 403 origin not allowed').waitFor();
    const site = page.getByLabel('Add a site');
    await site.fill('https://*.example');
    await page.getByRole('button', { name: 'Add', exact: true }).first().click();
    await page.getByText('no path, no asterisk').waitFor();
    await site.fill('https://Example.com');
    await site.press('Enter');
    const list = page.getByRole('list', { name: 'In the list' });
    await list.getByText('https://example.com', { exact: true }).waitFor();
    await tester.fill('https://shop.example.com/cart');
    await page.getByText('passes, once the list is saved').waitFor();
    await page.getByRole('button', { name: 'Save the sites' }).click();
    await page.getByText('Saved: it holds within a second').waitFor();
    const { body } = await user.call<{ project: { allowed_origins: string } }>(
      'GET',
      `/api/projects/${user.projectId}`,
    );
    t.strictSame(JSON.parse(body.project.allowed_origins), [foreign.origin, 'https://example.com']);
  });
}

/** Whether what the selector names plays, in its shadow or out of it. */
const playing = (selector: string) => `(() => {
  const element = document.querySelector(${JSON.stringify(selector)});
  const video = element?.shadowRoot ? element.shadowRoot.querySelector('video') : element;
  return (video?.currentTime ?? 0) > 0 && !video.error;
})()`;

async function secretOn(page: Page): Promise<string> {
  return (await page.locator('.secret code').textContent()) ?? '';
}

/** Runs a snippet as a program of its own, and answers what it prints. */
async function execute(program: string, name: string, code: string, secret: string): Promise<string> {
  const path = join(await scratchFolder(), name);
  await writeFile(path, code);
  const { stdout } = await run(program, [path], {
    env: { PATH: process.env.PATH, SIGNING_SECRET: secret, NODE_OPTIONS: '' },
  });
  return stdout.trim();
}

/** The React snippet in a page; preact/compat stands in for React, which it is compatible with. */
async function reactPage(snippet: string): Promise<string> {
  const { code } = await transform(
    `import { render } from 'react';\n${snippet}\nrender(<Animation />, document.getElementById('root'));`,
    {
      jsc: {
        parser: { syntax: 'ecmascript', jsx: true },
        transform: { react: { runtime: 'automatic' } },
        target: 'es2022',
      },
    },
  );
  const imports = Object.fromEntries(Object.keys(modules).map((name) => [name, `/modules/${name}`]));
  return `<div id="root"></div><script type="importmap">${JSON.stringify({ imports })}</script><script type="module">${code}</script>`;
}

/** What the React snippet and what stands in for React import. */
const modules: Record<string, string> = {
  react: 'preact/compat/dist/compat.mjs',
  'react/jsx-runtime': 'preact/jsx-runtime/dist/jsxRuntime.mjs',
  preact: 'preact/dist/preact.mjs',
  'preact/hooks': 'preact/hooks/dist/hooks.mjs',
};

/** A site of somebody else; `put` answers the address of a new page. */
async function startForeignSite(t: Test) {
  const pages = new Map<string, string>();
  const server = createServer(({ url = '' }, response) => {
    const module = modules[url.replace('/modules/', '')];
    if (module === undefined) response.setHeader('Content-Type', 'text/html').end(pages.get(url) ?? '');
    else response.setHeader('Content-Type', 'text/javascript').end(readFileSync(`node_modules/${module}`));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  return {
    origin,
    put(html: string): string {
      const path = `/${pages.size}.html`;
      pages.set(path, `<!doctype html><title>A foreign page</title><link rel="icon" href="data:,">${html}`);
      return origin + path;
    },
  };
}
