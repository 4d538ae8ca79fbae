/**
 * Who uses the service, in a browser: from sign-up to a playing animation, sign-in with GitHub, a session that ends;
 * a brand, a month that is used up; and the operator, who finds and retries a stuck machine. The other six of the
 * twelve journeys are in journeys-animations.test.ts.
 */
import t from 'tap';
import { pipeline, webhook } from '../../schemas/limits.ts';
import { stateNames } from '../../src/dashboard/operator/states.ts';
import { createStateTable, statesOf } from '../../src/operator/states.ts';
import { skip } from '../fixtures/chromium.ts';
import { githubClient, startGithubLike } from '../fixtures/github-like.ts';
import { operatorEmail, startDashboard } from './browser.ts';
import { operate } from './journeys/operator.ts';
import { keepProjects } from './journeys/project.ts';
import { comeIn } from './journeys/start.ts';

t.test('states to choose from are those of the machines', async (t) => {
  const table = createStateTable({ pipeline, webhook });
  for (const kind of ['asset', 'delivery'] as const) {
    const leaves = stateNames[kind].flatMap((name) => statesOf(table, kind, name));
    t.strictSame(new Set(leaves), new Set(table[kind].keys()));
    for (const name of stateNames[kind]) t.ok(statesOf(table, kind, name).length > 0, name);
  }
});

t.test('people in the dashboard', { skip, timeout: 360_000 }, async (t) => {
  const github = await startGithubLike();
  t.teardown(() => github.close());
  const dashboard = await startDashboard(t, {
    OAUTH_GITHUB_CLIENT_ID: githubClient.clientId,
    OAUTH_GITHUB_CLIENT_SECRET: githubClient.clientSecret,
    OAUTH_GITHUB_BASE_URL: github.url,
    OPERATOR_EMAILS: operatorEmail,
    RETRY_BACKOFF: '0s,1h,1h',
  });
  await t.test('the operator console', (t) => operate(t, dashboard));
  await t.test('the way into the dashboard', (t) => comeIn(t, dashboard, github));
  await t.test('from day to day', (t) => keepProjects(t, dashboard));
});
