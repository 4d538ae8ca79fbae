/** Domains as users write them, the small crawler on sites of every kind on 127.0.0.1, and both through the service. */
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { crawlResults } from '../../src/brand/crawl-request.ts';
import { createCrawlWork } from '../../src/brand/crawl-work.ts';
import { normaliseDomain } from '../../src/brand/domain.ts';
import { createSimpleCrawler } from '../../src/brand/simple-crawler.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
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

const page = `<!doctype html><html><head><title>Acme &amp; Sons</title>
<meta name="description" content="We make all"><meta content="#00F" name="theme-color">
<meta property="og:site_name" content="Acme"><link rel="icon" href="/icon.png">
<link rel="stylesheet" href="/main.css"><style>:root { --background: rgb(16, 16, 32); }</style></head></html>`;
const sheet = `:root { --color-primary: #FF8800; --accent: hotpink }
body, p { margin: 0; font-family: "Inter", sans-serif } h1 { font-family: var(--x); } h2{font-family:Lora}`;

const never = new AbortController().signal;

function open(t: Test) {
  const outbound = createOutbound({ allow: ['127.0.0.0/8', 'localhost'], denyPorts: [] });
  t.teardown(() => outbound.close());
  return createSimpleCrawler(outbound);
}

const hostOf = (base: string) => base.replace('http://127.0.0.1', 'localhost');

t.test('the small crawler', async (t) => {
  const base = await serveSources(t, ({ url }, response) => {
    if (url === '/') response.setHeader('content-encoding', 'gzip').end(gzipSync(page));
    else response.end(url === '/main.css' ? sheet : undefined);
  });

  t.test('finds colors and fonts alone for a detection', async (t) => {
    const found = await open(t).detect(hostOf(base), never);
    t.strictSame(crawlResults.detect.parse(found), {
      colors: {
        primary: '#ff8800',
        secondary: '#9f580d',
        accent: '#ff8800',
        background: '#101020',
        foreground: '#ffffff',
      },
      fonts: { heading: 'Lora', body: 'Inter' },
    });
  });

  t.test('fills a deep crawl with what the page says, and nothing invented', async (t) => {
    const found = await open(t).deepCrawl(hostOf(base), never);
    t.match(crawlResults.deep.parse(found), {
      brand: {
        brandName: 'Acme',
        logoUrl: `http://${hostOf(base)}/icon.png`,
        colors: { primary: '#ff8800' },
      },
      content: { tagline: 'Acme & Sons', description: 'We make all', pricing: [], features: [] },
      design: { colorScheme: 'dark' },
    });
  });

  t.test('leaves out what an empty page does not have; a deep crawl derives the five colors', async (t) => {
    const bare = await serveSources(t, (_, response) => response.end('<p>nothing'));
    t.strictSame(await open(t).detect(hostOf(bare), never), {});
    const { brand, content } = crawlResults.deep.parse(await open(t).deepCrawl(hostOf(bare), never));
    t.match(brand, { brandName: '', logoUrl: '', fonts: { heading: '', body: '' } });
    t.match(Object.values(brand.colors), Array(5).fill(/^#[0-9a-f]{6}$/));
    t.equal(content.tagline, '');
  });

  t.test('says why there is no page, in words for the customer', async (t) => {
    const answers: Record<string, (status: number) => Promise<string>> = {};
    const serveStatus = (status: number) =>
      serveSources(t, (_, response) => response.writeHead(status, { location: '/' }).end());
    answers['the site answered with status 404'] = () => serveStatus(404);
    answers['the site answered with status 503'] = () => serveStatus(503);
    answers['the site redirects too often, or to no page'] = () => serveStatus(302);
    answers['the site did not answer'] = () => serveSources(t, ({ socket }) => void socket.destroy());
    for (const [detail, serve] of Object.entries(answers))
      await t.rejects(open(t).detect(hostOf(await serve(0)), never), { name: 'CrawlError', detail });
    await t.rejects(open(t).detect('private.localhost.invalid', never), { name: 'CrawlError' });
    await t.rejects(open(t).detect('10.0.0.1', never), {
      name: 'CrawlError',
      detail: 'the address is not allowed',
    });
  });

  t.test('is not held up by a page made to be slow to read', async (t) => {
    const text = ['<link ', '<meta name=', 'body{', '--a-b-', 'font-family:', '<style']
      .map((one) => one.repeat(40_000))
      .join('');
    const hostile = await serveSources(t, (_, response) =>
      response.end(`${text}<style>${text.replaceAll('<', ' ')}`),
    );
    t.type(await open(t).deepCrawl(hostOf(hostile), never), 'object');
  });
});

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
      body: { project: { contentInventory: { tagline: 'Acme & Sons' } } },
    });
    t.match(await user.call('GET', '/api/user/usage'), { status: 200, body: { crawls: { used: 2 } } });
  },
);
