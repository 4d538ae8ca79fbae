/**
 * Brand detection, deep crawls and usage, over a real MongoDB and NATS. The worker is the real one with a crawler
 * that does what the domain's first label says, so that failures and races are as they are wanted.
 */
import { setTimeout as wait } from 'node:timers/promises';
import t from 'tap';
import type { DeepCrawlResult } from '../../schemas/crawl.ts';
import { crawl as limits, perMinute } from '../../schemas/limits.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { askForCrawl, crawlRequest } from '../../src/brand/crawl-request.ts';
import { createCrawlWork } from '../../src/brand/crawl-work.ts';
import { CrawlError, type Crawler } from '../../src/brand/crawler.ts';
import { createCrawls } from '../../src/brand/crawls.ts';
import { openBus } from '../../src/bus/bus.ts';
import { brandRoutes } from '../../src/http/brand.ts';
import { usageRoutes } from '../../src/http/usage.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { createCrawlQuota } from '../../src/quota/crawls.ts';
import { changePlan } from '../../src/quota/plan-change.ts';
import { openStore } from '../../src/store/client.ts';
import { newId } from '../../src/store/ids.ts';
import { startFront } from '../fixtures/http.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const { mongodbUrl, natsUrl } = await testServers();
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const prefix = `${uniqueName('brand')}.`;
const busOptions = { url: natsUrl, prefix, replicas: 1, lastPosition: async () => 0, log };
const front = await startFront({ routes: [...brandRoutes, ...usageRoutes] });
const { call, clock, store } = front;
const bus = await openBus(busOptions);
const outbound = createOutbound({ allow: [], denyPorts: [] });

/** A second process: its own connections, its own memory. */
const otherStore = await openStore(mongodbUrl, store.assets.actors.collection.dbName, { log });
const otherBus = await openBus(busOptions);
t.teardown(async () => {
  await otherBus.close();
  await otherStore.close();
  await outbound.close();
  await bus.deleteStreams();
  await bus.close();
  await front.close();
});

const now = () => clock.now;
const crawlsOver = (at: { store: typeof store; bus: typeof bus }) =>
  createCrawls({
    store: at.store.crawls,
    quota: createCrawlQuota(at.store, now),
    askWorker: askForCrawl(at.bus),
    now,
    newId,
  });
const others = crawlsOver({ store: otherStore, bus: otherBus });
Object.assign(front.services, {
  crawls: crawlsOver({ store, bus }),
  crawlWatch: { watch: () => ({ stop: () => undefined }) },
  judgeUrl: outbound.judgeUrl,
});

const color = '#123456';
const colors = { primary: color, secondary: color, accent: color, background: color, foreground: color };
const deepResult: DeepCrawlResult = {
  brand: { colors, fonts: { heading: '', body: '' }, brandName: 'Acme', logoUrl: '' },
  content: {
    tagline: 'We make all',
    description: '',
    features: [],
    pricing: [],
    testimonials: [],
    stats: [],
    announcements: [],
    codeExamples: [],
    pages: [],
  },
  messaging: { tone: '', targetAudience: '', valueProps: ['cheap'], ctas: [] },
  design: {
    vibe: '',
    borderRadius: '',
    hasGlassmorphism: false,
    hasGradientBorders: false,
    hasRadialGlows: false,
    colorScheme: 'light',
  },
};

/** Domains as they were crawled. */
const crawled: string[] = [];
let release: () => void = () => undefined;
let held = new Promise<void>((resolve) => {
  release = resolve;
});

async function behave(domain: string): Promise<void> {
  crawled.push(domain);
  if (domain.startsWith('failing')) throw new CrawlError('the site did not answer');
  if (domain.startsWith('broken')) throw new TypeError('cannot read properties of undefined');
  if (domain.startsWith('held')) await held;
}
const crawler: Crawler = {
  async detect(domain) {
    await behave(domain);
    return { colors };
  },
  async deepCrawl(domain) {
    await behave(domain);
    if (!domain.startsWith('huge')) return deepResult;
    return { ...deepResult, messaging: { ...deepResult.messaging, tone: 'x'.repeat(limits.maxResultBytes) } };
  },
};
const work = createCrawlWork(crawler, log);
let serving = bus.serve(crawlRequest, work);

let domains = 0;
/** A domain that was never asked for. */
function newDomain(label = 'plain'): string {
  domains += 1;
  return `${label}.site${domains}.com`;
}

async function newUser(plan: PlanName = 'pro') {
  const { cookie, userId } = await front.signUp();
  await store.users.setPlan(userId, plan, plan === 'free' ? null : 15);
  const { body } = await call('GET', '/api/projects', { cookie });
  const projectId = (body['projects'] as { id: string }[])[0]?.id ?? '';
  const ask = (path: string, domain: unknown) =>
    call('POST', `/api/projects/${path}`, { cookie, body: { domain } });
  return {
    cookie,
    userId,
    projectId,
    ask,
    detect: (domain: string) => ask('detect-brand', domain),
    deep: (domain: string) => ask('deep-crawl', domain),
    usage: async () =>
      (await call('GET', '/api/user/usage', { cookie })).body as Record<string, Record<string, unknown>>,
    used: async () => (await store.quota.find(userId))?.crawls?.used ?? 0,
    async newProject(): Promise<string> {
      const { body } = await call('POST', '/api/projects', { cookie, body: { name: 'Another' } });
      return (body['project'] as { id: string }).id;
    },
  };
}

const upgrade_url = 'http://localhost:8080/dashboard/billing';
const exhausted = { status: 429, body: { error: 'monthly limit reached', upgrade_url } };
const kinds = ['detect-brand', 'deep-crawl'];

t.test('200 with what was found, and the crawl is counted', async (t) => {
  const user = await newUser();
  t.match(await user.detect(newDomain()), { status: 200, body: { brandConfig: { colors } } });
  t.match(await user.deep(newDomain()), { status: 200, body: { result: deepResult } });
  const domain = newDomain();
  t.match(await user.ask(`${user.projectId}/detect-brand`, domain), {
    status: 200,
    body: { brandConfig: { colors } },
  });
  t.match(await user.ask(`${user.projectId}/deep-crawl`, domain), {
    status: 200,
    body: { result: deepResult },
  });
  t.equal(await user.used(), 4, 'detection and deep crawl of one domain are two');
  t.match((await call('GET', `/api/projects/${user.projectId}`, { cookie: user.cookie })).body, {
    project: {
      brandConfig: {},
      contentInventory: deepResult.content,
      messagingContext: deepResult.messaging,
      crawledAt: new Date(clock.now).toISOString(),
    },
  });
});

for (const kind of kinds) {
  t.test(`${kind}: 400 for what is no public domain, and nothing is counted`, async (t) => {
    const user = await newUser();
    const bad = [
      '',
      ' ',
      'localhost',
      'intranet',
      'printer.local',
      '10.0.0.1',
      '8.8.8.8',
      '0x7f.1',
      '[::1]',
      'ftp://example.com',
    ];
    bad.push(
      'user:pw@example.com',
      'exa mple.com',
      'https://',
      'example.com:22',
      `${'a'.repeat(256)}.com`,
      '1.2.3.4:8080',
    );
    for (const domain of [...bad, 7, null, undefined])
      t.match(await user.ask(kind, domain), { status: 400 }, `${domain}`);
    for (const domain of ['', 'localhost', '8.8.8.8'])
      t.match(await user.ask(`${user.projectId}/${kind}`, domain), { status: 400 }, `${domain}`);
    t.match(await user.ask(kind, 'localhost'), { body: { error: 'domain: the address is not allowed' } });
    t.equal(await user.used(), 0);
  });

  t.test(`${kind}: 401 without a session, 404 for the project of another user and for none`, async (t) => {
    const [user, other] = [await newUser(), await newUser()];
    for (const path of [kind, `${user.projectId}/${kind}`]) {
      const { status } = await call('POST', `/api/projects/${path}`, { body: { domain: newDomain() } });
      t.equal(status, 401, path);
    }
    for (const id of [other.projectId, 'prj_none']) {
      t.match(await user.ask(`${id}/${kind}`, newDomain()), { status: 404, body: { error: 'not found' } });
    }
    t.equal(await user.used(), 0);
  });

  t.test(`${kind}: 429 when the month is used up, and a cached domain is free all the same`, async (t) => {
    const user = await newUser('free');
    const [first] = await Promise.all(
      [newDomain(), newDomain(), newDomain()].map(async (domain) => {
        t.match(await user.ask(kind, domain), { status: 200 });
        return domain;
      }),
    );
    for (const path of [kind, `${user.projectId}/${kind}`])
      t.match(await user.ask(path, newDomain()), exhausted);
    t.match(await user.ask(kind, first), { status: 200 });
    t.equal(await user.used(), plans.free.crawlsPerMonth);
  });

  t.test(
    `${kind}: 500 when the site gives nothing, with nothing internal, and the crawl is given back`,
    async (t) => {
      const user = await newUser('free');
      const isDeep = kind === 'deep-crawl';
      const body = isDeep
        ? { error: 'deep crawl failed', detail: 'the site did not answer' }
        : { error: 'brand detection failed: the site did not answer' };
      for (const path of [kind, `${user.projectId}/${kind}`, kind, kind]) {
        t.match(await user.ask(path, newDomain('failing')), { status: 500, body });
      }
      const { body: internal } = await user.ask(kind, newDomain('broken'));
      t.match(internal, isDeep ? { detail: 'the site could not be read' } : { error: /could not be read$/ });
      t.notMatch(JSON.stringify(internal), /undefined/);
      t.equal(await user.used(), 0);
      t.match(await user.usage(), { crawls: { used: 0 }, deep_crawl_projects: { used: 0 } });
    },
  );

  t.test(`${kind}: 503 when no worker answers, at once, and nothing is counted`, async (t) => {
    serving.stop();
    await bus.flush();
    const user = await newUser();
    const domain = newDomain();
    for (const path of [kind, `${user.projectId}/${kind}`]) {
      const answer = await user.ask(path, domain);
      t.match(answer, { status: 503, body: { error: 'unavailable' } });
      t.ok(answer.headers.get('retry-after'));
    }
    t.equal(await user.used(), 0);
    serving = bus.serve(crawlRequest, work);
    await bus.flush();
    t.match(await user.ask(kind, domain), { status: 200 }, 'it is nobody’s claim any more');
  });
}

t.test('429 past the requests a minute, which a cached domain counts too', async (t) => {
  const user = await newUser();
  const domain = newDomain();
  for (const [kind, limit] of [
    ['deep-crawl', perMinute.deepCrawl],
    ['detect-brand', perMinute.detectBrand],
  ] as const) {
    for (let n = 0; n < limit; n += 1)
      t.match(await user.ask(`${user.projectId}/${kind}`, domain), { status: 200 });
    t.match(await user.ask(`${user.projectId}/${kind}`, domain), {
      status: 429,
      body: { error: 'rate limited' },
    });
    t.match(await user.ask(kind, domain), { status: 200 }, 'the unscoped one shares the other limit');
  }
});

t.test('500 for a result that is too large to be handed on', async (t) => {
  const user = await newUser();
  t.match(await user.deep(newDomain('huge')), {
    status: 500,
    body: { detail: 'the site has too much content' },
  });
});

t.test('a domain is one however it is written, for all users and processes, for 24 hours', async (t) => {
  const [user, other] = [await newUser(), await newUser()];
  const domain = newDomain();
  await user.detect(domain);
  const written = [
    domain.toUpperCase(),
    `https://${domain}/about?x#y`,
    `http://${domain}`,
    `${domain}.`,
    ` ${domain}:443 `,
  ];
  for (const text of written) t.match(await other.detect(text), { status: 200 }, text);
  t.match(await others.find('detect', domain, other.userId), { outcome: 'found' });
  clock.now += limits.cacheHours * 3_600_000 - 1;
  t.match(await other.detect(domain), { status: 200 });
  t.equal(crawled.filter((one) => one === domain).length, 1);
  t.strictSame([await user.used(), await other.used()], [1, 0]);
  clock.now += 1;
  t.match(await other.detect(domain), { status: 200 });
  t.equal(crawled.filter((one) => one === domain).length, 2, 'after a day it is crawled again');
  t.equal(await other.used(), 1);
});

t.test(
  'fifty requests at once, by two users in two processes, are one crawl that one of them pays',
  async (t) => {
    const [user, other] = [await newUser('free'), await newUser('free')];
    const domain = newDomain('held');
    const asked = [
      ...Array.from({ length: 25 }, () => user.deep(domain).then(({ status }) => status)),
      ...Array.from({ length: 25 }, () =>
        others.find('deep', domain, other.userId).then(({ outcome }) => outcome),
      ),
    ];
    while (!crawled.includes(domain)) await wait(10);
    release();
    const said = await Promise.all(asked);
    t.strictSame(new Set(said), new Set([200, 'found']));
    t.equal(crawled.filter((one) => one === domain).length, 1);
    t.equal((await user.used()) + (await other.used()), 1);
    held = Promise.resolve();
  },
);

t.test('all who wait for one crawl share its failure, and none pays', async (t) => {
  const user = await newUser('free');
  const domain = newDomain('failing');
  const said = await Promise.all(Array.from({ length: 12 }, () => user.detect(domain)));
  t.strictSame(new Set(said.map(({ status }) => status)), new Set([500]));
  t.equal(await user.used(), 0);
});

t.test('of 40 crawls at once with 3 left exactly 3 are made, in two processes', async (t) => {
  const user = await newUser('free');
  const said = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      if (n % 2) return (await others.find('detect', newDomain(), user.userId)).outcome;
      return (await user.detect(newDomain())).status === 200 ? 'found' : 'exhausted';
    }),
  );
  t.equal(said.filter((one) => one === 'found').length, 3);
  t.equal(said.filter((one) => one === 'exhausted').length, 37);
  t.equal(await user.used(), 3);
});

t.test('a process that dies in a crawl: its claim and its hold end by themselves', async (t) => {
  const user = await newUser('free');
  const domain = newDomain();
  await store.crawls.claim(`detect:${domain}`, { id: 'clm_dead', untilTs: clock.now + 1_000 }, clock.now);
  for (let n = 0; n < 3; n += 1) await createCrawlQuota(store, now).take(user.userId);
  t.match(await user.detect(newDomain()), exhausted);
  const asked = user.detect(domain);
  clock.now += 2 * limits.deepMs;
  t.match(await asked, { status: 200 });
  t.equal(await user.used(), 1);
});

t.test(
  '403 when the projects of the plan hold deep crawls, also when two race for the last place',
  async (t) => {
    const user = await newUser('free');
    const [one, two] = [user.projectId, await user.newProject()];
    const said = await Promise.all([one, two].map((id) => user.ask(`${id}/deep-crawl`, newDomain())));
    t.strictSame(said.map(({ status }) => status).sort(), [200, 403]);
    const [holder = '', other = ''] = said[0]?.status === 200 ? [one, two] : [two, one];
    t.match(await user.ask(`${other}/deep-crawl`, newDomain()), {
      status: 403,
      body: { error: 'the plan has deep crawls for 1 of your projects', upgrade_url },
    });
    t.equal(await user.used(), 1, 'a refused one is not counted');
    t.match(
      await user.ask(`${holder}/deep-crawl`, newDomain()),
      { status: 200 },
      'who holds one may have it anew',
    );
    t.match(await user.deep(newDomain()), { status: 200 }, 'without a project there is nothing to hold');
    t.match(await user.usage(), { deep_crawl_projects: { used: 1, limit: 1 } });
    await call('DELETE', `/api/projects/${holder}`, { cookie: user.cookie });
    await changePlan(store.quota, user.userId, { plan: 'pro', billingDay: 1 }, now);
    t.match(await user.ask(`${other}/deep-crawl`, newDomain()), { status: 200 });
  },
);

t.test(
  'crawls begin anew with the month: the calendar’s on Free, the billing day’s on paid plans',
  async (t) => {
    const month = (at: string) => {
      clock.now = Date.parse(at);
    };
    month('2030-01-31T23:59:59.999Z');
    const [free, pro] = [await newUser('free'), await newUser('pro')];
    for (const user of [free, pro]) t.match(await user.detect(newDomain()), { status: 200 });
    t.match(await free.usage(), { crawls: { used: 1, limit: 3, resets_at: '2030-02-01T00:00:00.000Z' } });
    t.match(await pro.usage(), { crawls: { used: 1, limit: 30, resets_at: '2030-02-15T00:00:00.000Z' } });
    month('2030-02-01T00:00:00.000Z');
    for (const user of [free, pro]) t.match(await user.detect(newDomain()), { status: 200 });
    t.match(await free.usage(), { crawls: { used: 1, resets_at: '2030-03-01T00:00:00.000Z' } });
    t.match(await pro.usage(), { crawls: { used: 2, resets_at: '2030-02-15T00:00:00.000Z' } });
    await changePlan(store.quota, free.userId, { plan: 'team', billingDay: 10 }, now);
    t.match(await free.usage(), { crawls: { used: 1, limit: 150, resets_at: '2030-02-10T00:00:00.000Z' } });
  },
);

t.test('usage: 200 with every count of the month and the months before, 401 without a session', async (t) => {
  t.equal((await call('GET', '/api/user/usage')).status, 401);
  clock.now = Date.parse('2030-05-20T00:00:00Z');
  const user = await newUser('pro');
  t.strictSame(await user.usage(), {
    plan: 'pro',
    generations: {
      used: 0,
      limit: 100,
      cycle_started_at: '2030-05-15T00:00:00.000Z',
      resets_at: '2030-06-15T00:00:00.000Z',
      overage_runs: 0,
      overage_cents: 0,
      overage_price_cents: 10,
    },
    crawls: { used: 0, limit: 30, resets_at: '2030-06-15T00:00:00.000Z' },
    deep_crawl_projects: { used: 0, limit: 5 },
    uploads: { unused_bytes: 0, max_unused_bytes: 524_288_000 },
    projects: [],
    history: [],
  });
  const take = (key: string) =>
    store.quota.take({
      userId: user.userId,
      projectId: user.projectId,
      key,
      now: clock.now,
      limit: 2,
      overage: { cents: 10, capCents: null },
      resetAt: Date.parse('2030-06-15T00:00:00Z'),
    });
  for (const key of ['ast_1:1', 'ast_2:1', 'ast_3:1']) await take(key);
  await store.uploads.reserve({ id: 'upl_1', userId: user.userId, bytes: 7_000, createdTs: 1 }, 10_000);
  const totals = { runs: 3, overage_runs: 1, overage_cents: 10 };
  t.match(await user.usage(), {
    generations: { used: 3, overage_runs: 1, overage_cents: 10 },
    uploads: { unused_bytes: 7_000 },
    projects: [{ project_id: user.projectId, ...totals }],
  });
  clock.now = Date.parse('2030-06-15T00:00:00Z');
  await changePlan(store.quota, user.userId, { plan: 'team', billingDay: 1 }, now);
  t.match(await user.usage(), {
    plan: 'team',
    generations: {
      used: 0,
      limit: 500,
      cycle_started_at: '2030-06-01T00:00:00.000Z',
      resets_at: '2030-07-01T00:00:00.000Z',
    },
    projects: [],
    history: [
      {
        plan: 'pro',
        started_at: '2030-05-15T00:00:00.000Z',
        ended_at: '2030-06-15T00:00:00.000Z',
        ...totals,
      },
    ],
  });
});
