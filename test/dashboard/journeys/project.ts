/** A project and an account from day to day: brand, limits, settings, tokens, sessions, the end. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import type { Project } from '../../../schemas/project.ts';
import { uniqueName } from '../../fixtures/servers.ts';
import { checkBothThemes, type Dashboard, takeScreenshots } from '../browser.ts';
import { until, untilSo } from '../until.ts';

const site = `<!doctype html><title>Harbour</title><style>
  :root { --brand: #0a5c7a }
  body { background: #fffdf8; color: #16212b; font-family: "Inter", sans-serif }
  h1, h2 { font-family: "Fraunces", serif }
  a { color: #0a5c7a } button { background: #0a5c7a; color: #fffdf8 } .badge { background: #e8743b }
</style><h1>Harbour</h1><p>Quiet boats. <a href="/a">Look</a></p><button class="primary">Book</button><span class="badge">New</span>`;

export async function keepProjects(t: Test, dashboard: Dashboard): Promise<void> {
  t.test('a brand is found on a site, seen before it is saved, and reads well or not', async (t) => {
    const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end(site));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    const domain = `localhost:${(server.address() as AddressInfo).port}`;
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user, path: `/dashboard/projects/${user.projectId}/brand` });
    const brandOf = async () => {
      const { body } = await user.call<{ project: Project }>('GET', `/api/projects/${user.projectId}`);
      return body.project.brandConfig;
    };
    await page.getByLabel('Domain').fill(domain);
    await page.getByRole('button', { name: 'Look at it' }).click();
    await page.getByRole('button', { name: 'Take all of it' }).waitFor({ timeout: 30_000 });
    t.strictSame(await brandOf(), {}, 'looking changes nothing');
    await page.getByRole('button', { name: 'Take all of it' }).click();
    await page.getByRole('list', { name: 'Contrast' }).getByText('Text on the background').waitFor();
    t.strictSame(await brandOf(), {}, 'taking neither');
    await checkBothThemes(t, page, 'brand');
    await takeScreenshots(page, 'brand');
    await page.getByLabel('Accent', { exact: true }).fill('#eeeeee');
    await page.getByText('Hard to read').first().waitFor();
    await page.getByRole('button', { name: 'Review and save' }).click();
    const dialog = page.getByRole('dialog', { name: 'What changes' });
    await dialog.getByText('#eeeeee').waitFor();
    await checkBothThemes(t, page, 'brand, reviewed');
    await dialog.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('The brand is saved').waitFor();
    t.match(await brandOf(), { colors: { accent: '#eeeeee' }, fonts: { heading: /Fraunces/ } });
    await page.reload();
    t.equal(await page.getByLabel('Accent', { exact: true }).inputValue(), '#eeeeee');
  });

  t.test('a site is read while one looks on, and what it says is kept', async (t) => {
    const seen = { is: false };
    const server = createServer(async ({ url }, response) => {
      // The second page comes when the first has been told of.
      if (url === '/a') await untilSo(async () => seen.is, 'the first page is told of');
      response.setHeader('Content-Type', 'text/html').end(site);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user, path: `/dashboard/projects/${user.projectId}/content` });
    await page.getByText('Nothing was read yet').waitFor();
    await page.waitForSelector('[data-status="live"]', { state: 'attached' });
    await page.getByLabel('Domain').fill(`localhost:${(server.address() as AddressInfo).port}`);
    await page.getByRole('button', { name: 'Read the site' }).click();
    await page.getByText(/: 1 of \d+ pages so far/).waitFor();
    seen.is = true;
    await page.getByRole('table', { name: 'Pages of the site' }).getByText('Harbour').first().waitFor();
    await page.getByRole('heading', { name: 'Design' }).waitFor();
    await checkBothThemes(t, page, 'content');
    await takeScreenshots(page, 'content');
    await page.reload();
    await page.getByRole('table', { name: 'Pages of the site' }).waitFor();
    const { body } = await user.call<{ project: Project }>('GET', `/api/projects/${user.projectId}`);
    t.ok(body.project.crawledAt);
  });

  t.test('a month that is used up is told in words, with what to do', async (t) => {
    const user = await dashboard.signUp();
    await dashboard.service.store.users.setPlan(user.userId, 'free', 1);
    const page = await dashboard.open(t, { user, path: '/dashboard/usage' });
    await page.getByText('The month begins with the first animation.').waitFor();
    const prepare = (n: number) =>
      user.call('POST', '/api/v1/prepare', {
        project_id: user.projectId,
        src: `https://${'0123456789abcdef'.slice(0, 9 + n)}.invalid/${n}.png`,
      });
    for (let n = 0; n < 5; n += 1) await prepare(n);
    // It counts while one looks.
    await page.getByText('5 of 5 animations').waitFor();
    await page.getByText('The month’s 5 animations are made.').waitFor();
    await page.getByText('are refused with “monthly limit reached”').waitFor();
    await checkBothThemes(t, page, 'usage, used up');
    t.equal((await prepare(6)).status, 429);
    const input = page.locator('input[type=file]').first();
    await page.goto(`${dashboard.base}/dashboard/projects/${user.projectId}`);
    await input.waitFor({ state: 'attached' });
    await input.setInputFiles({ name: 'one-more.png', mimeType: 'image/png', buffer: onePixel });
    await page.getByText('Monthly limit reached.').waitFor();
    await page.getByRole('link', { name: 'See what the plans include' }).click();
    await page.getByRole('heading', { name: 'Plans' }).waitFor();
  });

  t.test('projects are made, switched, renamed and deleted', async (t) => {
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user });
    await page.getByRole('button', { name: 'Project: Default' }).click();
    await checkBothThemes(t, page, 'the switcher');
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'New project' }).waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Harbour');
    await page.getByLabel('Domain (optional)').fill('harbour.example');
    await page.getByRole('button', { name: 'Create the project' }).click();
    await page.getByRole('heading', { level: 1, name: 'Harbour' }).waitFor();
    await until(page, `document.title.startsWith('Overview · Harbour · ')`);
    await page.getByRole('link', { name: 'Settings' }).click();
    await checkBothThemes(t, page, 'settings');
    await takeScreenshots(page, 'settings');
    // The switcher stays on the page it is used on.
    await page.getByRole('button', { name: 'Project: Harbour' }).click();
    await page.getByRole('menuitemradio', { name: 'Default' }).click();
    await page.waitForURL(`**/${user.projectId}/settings`);
    // The heading has the focus.
    await until(page, `document.activeElement.tagName === 'H1'`);
    await page.goBack();
    await page.getByRole('button', { name: 'Project: Harbour' }).waitFor();
    await page.getByRole('button', { name: 'Delete this project' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete Harbour?' });
    t.ok(await dialog.getByRole('button', { name: 'Delete it' }).isDisabled());
    await dialog.getByLabel('Type “Harbour” to go on').fill('Harbour');
    await checkBothThemes(t, page, 'deleting');
    await dialog.getByRole('button', { name: 'Delete it' }).click();
    await page.getByRole('heading', { level: 1, name: 'Default' }).waitFor();
    await page.goto(`${dashboard.base}/dashboard/projects/prj_none/settings`);
    await page.getByRole('heading', { name: 'There is nothing here' }).waitFor();
    await checkBothThemes(t, page, 'nothing here');
  });

  t.test('tokens are shown once, sessions ended, the theme kept, and the account deleted', async (t) => {
    const email = `${uniqueName('leaving')}@example.com`;
    const user = await dashboard.signUp(email);
    const other = await dashboard.open(t, { path: '/dashboard/signin' });
    await other.getByLabel('E-mail').fill(email);
    await other.getByLabel('Password', { exact: true }).fill('correct horse battery');
    await other.getByRole('button', { name: 'Sign in' }).click();
    await other.waitForURL(/\/projects\//);

    const page = await dashboard.open(t, { user, path: '/dashboard/account' });
    await page.getByLabel('Name of a new token').fill('Build server');
    await page.getByRole('button', { name: 'Make a token' }).click();
    const token = (await page.locator('.secret code').textContent()) ?? '';
    t.match(token, /^sat_/);
    const asked = await fetch(`${dashboard.base}/api/projects`, {
      headers: { authorization: `Bearer ${token}` },
    });
    t.equal(asked.status, 200);
    await checkBothThemes(t, page, 'account');
    await takeScreenshots(page, 'account');
    await page.getByRole('button', { name: 'Revoke Build server' }).click();
    await page.getByRole('button', { name: 'Revoke it' }).click();
    await page.getByRole('button', { name: 'Revoke Build server' }).waitFor({ state: 'detached' });

    await page.emulateMedia({ colorScheme: 'light' });
    await page.getByText('Dark', { exact: true }).first().click();
    const ground = 'getComputedStyle(document.body).backgroundColor';
    await until(page, `${ground} === 'rgb(18, 20, 28)'`);
    await page.reload();
    await page.getByLabel('Name of a new token').waitFor();
    t.equal(await page.evaluate(ground), 'rgb(18, 20, 28)', 'kept');

    await page.getByRole('button', { name: 'End', exact: true }).click();
    await other.getByRole('dialog', { name: 'Sign in again' }).waitFor();
    await other.close();

    await page.getByRole('button', { name: 'Delete the account' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete the account?' });
    await dialog.getByLabel(`Type ${email} to go on`).fill(email);
    await dialog.getByLabel('Your password', { exact: true }).fill('correct horse battery');
    await dialog.getByRole('button', { name: 'Delete everything' }).click();
    await page.waitForURL('**/dashboard/signin**');
    const again = await fetch(`${dashboard.base}/api/user/signin`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email, password: 'correct horse battery' }),
    });
    t.equal(again.status, 401);
  });

  t.test('the first load of each page moves nothing that is seen', async (t) => {
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user, path: '/dashboard/account' });
    await page.addInitScript(watchLoading);
    for (const part of ['', '/assets', '/embed', '../../usage']) {
      const path = part.startsWith('..')
        ? `/dashboard${part.slice(5)}`
        : `/dashboard/projects/${user.projectId}${part}`;
      await page.goto(`${dashboard.base}${path}`, { waitUntil: 'load' });
      await page.locator('main h1').waitFor();
      await until(page, '!document.querySelector(".skeleton")');
      const { shift, longest } = (await page.evaluate('window.loading')) as {
        shift: number;
        longest: number;
      };
      t.ok(shift < 0.05, `${path}: layout shift ${shift.toFixed(3)}`);
      t.comment(`${path}: longest task ${Math.round(longest)} ms, layout shift ${shift.toFixed(3)}`);
    }
  });

  t.test('usage says what overage would cost, in money and up to where, before there is any', async (t) => {
    const user = await dashboard.signUp();
    await user.call('PUT', `/api/projects/${user.projectId}/proxy-config`, {
      overage_enabled: true,
      overage_cap_cents: 2_500,
    });
    const page = await dashboard.open(t, { user, path: '/dashboard/billing' });
    await page.getByText('0 of 500 animations').waitFor();
    await page.getByText('Default goes on at $0.08 for each, up to $25').waitFor();
    await checkBothThemes(t, page, 'usage');
    await takeScreenshots(page, 'usage');
  });
}

/** Runs in pages before anything of theirs. */
const watchLoading = `
  window.loading = { shift: 0, longest: 0 };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.loading.shift += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.loading.longest = Math.max(window.loading.longest, entry.duration);
  }).observe({ type: 'longtask', buffered: true });
`;

const onePixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
);
