/**
 * What the service makes, in a browser: an animation regenerated, and cancelled; embedded in a foreign page through
 * the proxy, by a signed URL, and with a secret that is rotated; a webhook that fails, is seen, and delivered again.
 * The other six of the twelve journeys are in journeys-people.test.ts.
 */
import t from 'tap';
import { skip } from '../fixtures/chromium.ts';
import { startDashboard } from './browser.ts';
import { followAssets } from './journeys/assets.ts';
import { embed } from './journeys/embed.ts';
import { hearOfAssets } from './journeys/webhooks.ts';

t.test('animations in the dashboard', { skip, timeout: 360_000 }, async (t) => {
  const dashboard = await startDashboard(t);
  await t.test('assets', (t) => followAssets(t, dashboard));
  await t.test('from the embed page into other pages', (t) => embed(t, dashboard));
  await t.test('webhooks', (t) => hearOfAssets(t, dashboard));
});
