/** The operator console in a browser: a stuck machine is found and retried, many at once, and nobody else sees any of it. */
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import type { Test } from 'tap';
import { operator as limits } from '../../../schemas/limits.ts';
import { serveSources, type TestUser } from '../../fixtures/service.ts';
import { checkBothThemes, type Dashboard, operatorEmail, takeScreenshots } from '../browser.ts';
import { until, untilSo } from '../until.ts';

/** Comes before everything else that makes assets: what it counts, it has made. */
export async function operate(t: Test, dashboard: Dashboard): Promise<void> {
  const image = await sharp({ create: { width: 96, height: 64, channels: 3, background: '#468' } })
    .png()
    .toBuffer();
  const broken = { is: true };
  const sources = await serveSources(t, (_, answer) => {
    if (broken.is) answer.writeHead(503).end();
    else answer.setHeader('content-type', 'image/png').end(image);
  });
  const { store } = dashboard.service;
  const boss = await dashboard.signUp(operatorEmail);
  const ada = await dashboard.signUp();
  const collection = store.assets.actors.collection;

  /** An asset that waits an hour for its second attempt. */
  const waiting = async (name: string, who: TestUser = ada): Promise<string> => {
    const { body } = await who.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
      project_id: who.projectId,
      src: `${sources}/${name}.png`,
      mode: 'animate-in',
      dur_seconds: 2,
    });
    const id = body.asset_id;
    await untilSo(
      async () => (await store.assets.find(id))?.state === 'pending.source.retrying',
      `${id} waits for its second attempt`,
    );
    return id;
  };
  const open = (t: Parameters<typeof dashboard.open>[0], path: string, allows?: RegExp) =>
    dashboard.open(t, { user: boss, path: `/dashboard/operator${path}`, ...(allows ? { allows } : {}) });
  const look = async (t: Test, page: Page, name: string) => {
    await checkBothThemes(t, page, name);
    await takeScreenshots(page, `operator-${name}`);
  };
  const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click();

  await t.test('finds a stuck machine and retries it to ready', async (t) => {
    const id = await waiting('stuck');
    // As if it had begun to wait three hours ago.
    await collection.updateOne({ _id: id }, { $inc: { enteredTs: -3 * 3_600_000 } });
    const page = await open(t, '');
    await page.getByRole('heading', { name: 'Trouble' }).waitFor();
    await page
      .getByText(/1 of 1 machine under way has not moved/)
      .first()
      .waitFor();
    await look(t, page, 'overview');
    await page
      .getByRole('link', { name: /^1 ?stuck$/ })
      .first()
      .click();
    await page.getByRole('heading', { name: 'Stuck machines' }).waitFor();
    t.match(page.url(), /kind=asset&stuck=true/, 'the filter is in the address');
    await page.getByRole('link', { name: id }).waitFor();
    await page.getByText('503').first().waitFor();
    await look(t, page, 'stuck');
    await page.getByRole('link', { name: id }).click();
    await page.getByRole('heading', { name: 'Asset', level: 1 }).waitFor();
    await page.getByText('begins now instead of at its time').first().waitFor();
    await look(t, page, 'machine');
    await t.test('its owner sees the time to the next attempt grow less', async (t) => {
      const path = `/dashboard/projects/${ada.projectId}/assets/${id}`;
      const owners = await dashboard.open(t, { user: ada, path });
      const line = owners.getByText(/^Next attempt in \d+ min \d\d s$/);
      await line.waitFor();
      const first = await line.textContent();
      await until(owners, `!document.querySelector('.now').textContent.includes(${JSON.stringify(first)})`);
      await line.waitFor();
    });
    broken.is = false;
    await press(page, 'Retry now');
    await page.getByRole('dialog').getByText('begins now instead of at its time').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Retry now' }).click();
    // Nothing is loaded again: the page sees it by itself.
    await page.locator('.op-facts').getByText('ready', { exact: true }).waitFor({ timeout: 60_000 });
    await page.getByText('machine.retry').waitFor();
    t.equal((await ada.untilEnd(id)).status, 'ready');
    broken.is = true;
  });

  await t.test('retries many at once after a look at what that would be', async (t) => {
    const ids = [await waiting('one'), await waiting('two'), await waiting('three')];
    const page = await open(t, '/machines?state=pending.source.retrying');
    await page.getByRole('link', { name: ids[0] ?? '' }).waitFor();
    await press(page, 'All of these …');
    await press(page, 'See what it would do');
    await page.getByText('3 machines.').waitFor();
    for (const id of ids) await page.getByRole('dialog').getByText(id).waitFor();
    await look(t, page, 'bulk-preview');
    broken.is = false;
    await press(page, 'Retry now: 3');
    await page.getByRole('heading', { name: 'Bulk job', level: 1 }).waitFor();
    await page.getByText('3 told, 0 passed over').waitFor({ timeout: 30_000 });
    await look(t, page, 'bulk-job');
    for (const id of ids) {
      await untilSo(
        async () => (await store.assets.find(id))?.state !== 'pending.source.retrying',
        `${id} is tried again`,
      );
    }
  });

  await t.test('finds anything by its id, and shows what carries the machines', async (t) => {
    const [asset] = await collection.find({ state: 'ready' }).hint({ _id: 1 }).limit(1).toArray();
    const { requestId } = (asset?.machine.context ?? {}) as { requestId: string };
    const page = await open(t, '/system');
    await page.getByText('None is behind.').waitFor();
    await look(t, page, 'system');
    await page.getByLabel('Find any id').fill(requestId);
    await press(page, 'Find');
    await page.getByRole('heading', { name: 'Request', level: 1 }).waitFor();
    await page
      .getByRole('link', { name: asset?._id ?? '' })
      .first()
      .waitFor();
    await look(t, page, 'request');
    await page.getByLabel('Find any id').fill('nobody knows');
    await press(page, 'Find');
    await page.getByText('Nothing has that id.').waitFor();
    for (const [path, heading] of [
      ['/users', 'Users and plans'],
      [`/users/${ada.userId}`, 'Account'],
      ['/mailbox', 'Mailbox'],
      ['/audit', 'Audit'],
      ['/bulk', 'Bulk jobs'],
      ['/machines?kind=delivery&state=dead', 'Machines'],
    ] as const) {
      await page.goto(`${dashboard.base}/dashboard/operator${path}`);
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
      await page.locator('.skeleton').waitFor({ state: 'detached' });
      await look(t, page, path.replaceAll(/\W+/g, '-').slice(1, 20));
    }
  });

  await t.test('an old view says how old it is', async (t) => {
    const page = await open(t, '', /./);
    await page.getByRole('heading', { name: 'All is well' }).waitFor();
    await page.route('**/api/operator/overview', (route) => route.abort());
    await page.getByText(/As of \d\d:\d\d:\d\d, unknown since \d\d:\d\d:\d\d/).waitFor({ timeout: 20_000 });
    await page.getByRole('heading', { name: 'Unknown' }).waitFor();
    await page.unroute('**/api/operator/overview');
    await page.getByRole('heading', { name: 'All is well' }).waitFor({ timeout: limits.countsMs * 5 });
  });

  await t.test('to everybody else there is nothing', async (t) => {
    const page = await dashboard.open(t, { user: ada, path: '/dashboard/operator' });
    await page.getByRole('heading', { name: 'There is nothing here' }).waitFor();
    t.equal(await page.getByRole('link', { name: 'Operator' }).count(), 0);
  });
}
