/** Webhooks in the dashboard: setting them up, seeing why one failed, and sending it again. */
import type { Test } from 'tap';
import type { PrepareResponse } from '../../../schemas/asset.ts';
import type { Delivery } from '../../../schemas/webhook.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { serveSources } from '../../fixtures/service.ts';
import { checkBothThemes, type Dashboard, takeScreenshots } from '../browser.ts';
import { until, untilSo } from '../until.ts';

export async function hearOfAssets(t: Test, dashboard: Dashboard): Promise<void> {
  const receiver = await startReceiver(t);
  const user = await dashboard.signUp();
  const path = `/dashboard/projects/${user.projectId}/webhooks`;
  const listed = async () =>
    (
      await user.call<{ deliveries: Delivery[] }>(
        'GET',
        `/api/projects/${user.projectId}/webhooks/deliveries`,
      )
    ).body.deliveries;

  t.test('an endpoint is saved, shows its secret once, and a test shows its answer', async (t) => {
    const page = await dashboard.open(t, { user, path });
    await page.getByText('there is no endpoint yet').waitFor();
    t.equal(await page.getByRole('button', { name: 'Send a test' }).isEnabled(), false);
    await checkBothThemes(t, page, 'webhooks, none');
    await page.getByLabel('Address').fill('ftp://example.com');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Address').fill(receiver.url);
    await page.getByLabel(/asset\.queued/).check();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    const secret = page.locator('.secret code');
    t.match(await secret.textContent(), /^whsec_/);
    await page.getByText('Webhooks are off').waitFor();
    await checkBothThemes(t, page, 'webhooks, off');

    receiver.answer = (_, response) => void response.writeHead(500).end('the database is away');
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('Your endpoint answered with status 500.').waitFor();
    await page.getByText('the database is away').waitFor();
    receiver.answer = (_, response) => void response.end('thanks');
    await page.getByRole('button', { name: 'Send a test' }).click();
    await page.getByText('Your endpoint answered 200.').waitFor();
    await page.getByText(/^On: 3 of 5 events go to/).waitFor();
    t.equal(await page.getByRole('switch', { name: 'Send events' }).getAttribute('aria-checked'), 'true');
    await checkBothThemes(t, page, 'webhooks, on');
    await takeScreenshots(page, 'webhooks-endpoint');

    await page.reload();
    await page.getByText(/^whsec_.{6}…$/).waitFor();
    t.equal(await secret.count(), 0, 'never again');
    await page.getByRole('button', { name: 'Rotate the secret' }).click();
    await page.getByRole('button', { name: 'Make a new secret' }).click();
    t.match(await secret.textContent(), /^whsec_/);
  });

  t.test('from failed to its cause in two clicks, and redelivered from there', async (t) => {
    const sources = await serveSources(t, (_, response) => void response.writeHead(404).end());
    receiver.answer = (_, response) => void response.writeHead(503).end('try later');
    const body = { project_id: user.projectId, src: `${sources}/gone.jpg` };
    const { asset_id: id } = (await user.call<PrepareResponse>('POST', '/api/v1/prepare', body)).body;
    await user.untilEnd(id);
    const page = await dashboard.open(t, { user, path: `${path}?tab=deliveries` });
    const rows = page.locator('tbody tr');
    await rows.filter({ hasText: 'asset.failed' }).getByText('Failed, retrying').waitFor();
    await checkBothThemes(t, page, 'deliveries');
    await takeScreenshots(page, 'webhooks-deliveries');
    // The two clicks.
    await page.getByText('Retrying', { exact: true }).click();
    await rows.filter({ hasText: 'asset.failed' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Your endpoint answered with status 503.').first().waitFor();
    await dialog.getByText('try later').waitFor();
    await dialog.getByText('source_unfetchable').first().waitFor();
    t.match(page.url(), /status=retrying.*delivery=/);
    await dialog.getByRole('button', { name: 'Show its states' }).click();
    await dialog.locator('.chart [data-lit="here"][data-state="retrying"]').waitFor();
    await checkBothThemes(t, page, 'delivery');
    await takeScreenshots(page, 'webhooks-delivery');

    receiver.answer = (_, response) => void response.writeHead(204).end();
    await dialog.getByRole('button', { name: 'Try now' }).click();
    await dialog.getByText('Your endpoint answered 204.').waitFor();
    await dialog.getByRole('listitem').filter({ hasText: '503' }).waitFor();
    t.equal((await listed()).find(({ event_type }) => event_type === 'asset.failed')?.status, 'delivered');
    await page.keyboard.press('Escape');
    await rows.filter({ hasText: 'asset.failed' }).waitFor({ state: 'detached' });
  });

  t.test('everything that is dead is sent again at once', async (t) => {
    // A redelivery that fails is dead at once: no schedule has to be waited for.
    receiver.answer = (_, response) => void response.writeHead(500).end();
    const page = await dashboard.open(t, { user, path: `${path}?tab=deliveries&status=dead` });
    await page.getByText('No delivery fits').waitFor();
    const done = (await listed()).filter(({ status }) => status === 'delivered');
    for (const { id } of done) {
      await user.call('POST', `/api/projects/${user.projectId}/webhooks/deliveries/${id}/redeliver`);
    }
    const rows = page.locator('tbody tr');
    await until(page, `document.querySelectorAll('tbody tr').length === ${done.length}`);
    receiver.answer = (_, response) => void response.end();
    await page.getByRole('button', { name: 'Redeliver dead ones' }).click();
    await page.getByRole('button', { name: 'Send them again' }).click();
    await rows.first().waitFor({ state: 'detached' });
    await page.getByText('No delivery fits').waitFor();
    await untilSo(
      async () => (await listed()).filter(({ status }) => status === 'delivered').length >= done.length,
      'all are delivered',
    );
  });
}
