/** Domains as users write them, the worker's answers, and a site read through the whole service. */
import t, { type Test } from 'tap';
import { createCrawlWork } from '../../src/brand/crawl-work.ts';
import { normaliseDomain } from '../../src/brand/domain.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

t.test('a domain in every form that people write, and what is none', async (t) => {
  const cases: [text: string, domain: string | undefined][] = [
    ['example.com', 'example.com'],
    [' https://Example.com/path?q=1#top ', 'example.com'],
    ['HTTP://WWW.example.com', 'www.example.com'],
    ['example.com/about', 'example.com'],
    ['example.com.', 'example.com'],
    ['example.com:443', 'example.com'],
    ['http://example.com:80', 'example.com'],
    ['example.com:8443', 'example.com:8443'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['ＥＸＡＭＰＬＥ.com', 'example.com'],
    ['', undefined],
    ['https://', undefined],
    ['https:///example.com', undefined],
    ['ftp://example.com', undefined],
    ['javascript:alert(1)', undefined],
    ['user@example.com', undefined],
    ['exa mple.com', undefined],
    ['example.com\\evil', undefined],
    ['exam\tple.com', undefined],
    ['192.168.0.1', undefined],
    ['0x7f.1', undefined],
    ['2130706433', undefined],
    ['[2001:db8::1]', undefined],
    ['example.com:99999', undefined],
  ];
  for (const [text, domain] of cases) t.equal(normaliseDomain(text), domain, JSON.stringify(text));
});

const page = `<!doctype html><html><head><title>Acme &amp; Sons - We make all</title>
<meta content="#00F" name="theme-color"><meta property="og:site_name" content="Acme"></head><body><h1>We make all</h1></body></html>`;

const hostOf = (base: string) => base.replace('http://127.0.0.1', 'localhost');

t.test('work of a crawler that never ends is answered in time', async (t) => {
  const hanging = () => new Promise<never>(() => undefined);
  const warned: unknown[] = [];
  const log = { warn: (fields: object) => void warned.push(fields) };
  const work = createCrawlWork({ detect: hanging, deepCrawl: hanging }, log);
  const ask = async () => {
    const answer = await work({ kind: 'detect', domain: 'example.com', timeoutMs: 600 });
    return JSON.parse(Buffer.from(answer).toString());
  };
  t.strictSame(await ask(), { outcome: 'failed', detail: 'the site took too long' });
  await t.rejects(work({ kind: 'other' }), { name: 'ZodError' });
  t.strictSame(warned, []);
});

t.test(
  'through front end, bus and worker: a site is looked at and kept with the project',
  { timeout: 60_000 },
  async (t) => {
    const service = await startTestService(t);
    const base = await serveSources(t, (_, response) => response.end(page));
    const user = await service.signUp();
    const path = `/api/projects/${user.projectId}`;
    const domain = hostOf(base);
    t.match(await user.call('POST', `${path}/detect-brand`, { domain }), {
      status: 200,
      body: { brandConfig: { colors: { primary: '#0000ff' } } },
    });
    t.match(await user.call('POST', `${path}/deep-crawl`, { domain }), { status: 200 });
    t.match(await user.call('GET', path), {
      body: { project: { contentInventory: { tagline: 'We make all' } } },
    });
    t.match(await user.call('GET', '/api/user/usage'), { status: 200, body: { crawls: { used: 2 } } });
  },
);

t.test(
  'a project’s stream shows how far its deep crawl is, page by page; other streams do not',
  { timeout: 60_000 },
  async (t) => {
    const service = await startTestService(t);
    const links = ['/about', '/pricing', '/broken'].map((path) => `<a href="${path}">${path}</a>`).join('');
    const base = await serveSources(t, ({ url = '/' }, response) => {
      if (/broken|robots|sitemap/.test(url)) response.writeHead(404);
      else response.setHeader('content-type', 'text/html');
      response.end(url === '/' ? `${page}${links}` : `<title>${url}</title><h1>This is ${url}</h1>`);
    });
    const user = await service.signUp();
    const domain = hostOf(base);
    const path = `/api/projects/${user.projectId}`;
    const open = (query: string) => readStream(t, `${service.base}${path}/activity${query}`, user.cookie);
    const [all, asked, others] = await Promise.all([
      open(''),
      open('?types=crawl_progress'),
      open('?types=ready,failed'),
    ]);
    t.match(await user.call('POST', `${path}/deep-crawl`, { domain }), { status: 200 });

    const wanted = [1, 2, 3, 4].map((fetched) => ({
      event: 'crawl_progress',
      project_id: user.projectId,
      domain,
      pages_fetched: fetched,
      pages_planned: 4,
    }));
    for (const stream of [all, asked]) t.strictSame(await stream.take(4), wanted);
    t.notMatch(all.text(), /^id:/m, 'nothing to resume with');
    // What is found again costs no crawl and shows none.
    t.match(await user.call('POST', `${path}/deep-crawl`, { domain }), { status: 200 });
    t.equal((await all.take(4)).length, 4);
    t.notMatch(others.text(), /crawl_progress/);
    t.match(
      await fetch(`${service.base}${path}/activity?types=crawl`, { headers: { cookie: user.cookie } }),
      {
        status: 400,
      },
    );
  },
);

/** The data of a stream’s frames as they come. */
async function readStream(t: Test, url: string, cookie: string) {
  const control = new AbortController();
  t.teardown(() => control.abort());
  const { body } = await fetch(url, { headers: { cookie }, signal: control.signal });
  let text = '';
  let wake: () => void = () => undefined;
  const read = async () => {
    for await (const chunk of body ?? []) {
      text += Buffer.from(chunk).toString();
      wake();
    }
  };
  void read().catch(() => undefined);
  return {
    text: () => text,
    async take(count: number): Promise<unknown[]> {
      for (;;) {
        const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, json = '']) => JSON.parse(json));
        if (data.length >= count) return data;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
