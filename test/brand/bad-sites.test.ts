/** Sites that fail, hang, lie, flood or lead astray: each a right answer or one clear error, and nothing connected to. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { CrawlError } from '../../src/brand/crawler.ts';
import { createSiteCrawler } from '../../src/brand/site/site-crawler.ts';
import { createThreadCrawler } from '../../src/brand/thread-crawler.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { forbiddenHosts } from '../fixtures/forbidden-hosts.ts';
import { selfSigned } from '../fixtures/self-signed.ts';
import { serveSources } from '../fixtures/service.ts';
import { openTrap } from '../fixtures/trap.ts';

const never = new AbortController().signal;
const allow = ['127.0.0.0/8', 'localhost'];

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A site whose every page but robots.txt is answered so. */
async function serve(t: Test, answer: Answer): Promise<string> {
  const base = await serveSources(t, (request, response) => {
    if (request.url === '/robots.txt') response.writeHead(404).end();
    else answer(request, response);
  });
  return base.replace('http://127.0.0.1', 'localhost');
}

function open(t: Test) {
  const outbound = createOutbound({ allow, denyPorts: [], resolver: async () => [] });
  t.teardown(() => outbound.close());
  return createSiteCrawler(outbound);
}

const refusedWith = (detail: string) => ({ name: 'CrawlError', detail });
const html = (body: string, head = '') =>
  `<!doctype html><html><head><title>Acme</title>${head}</head><body>${body}</body></html>`;

t.test('a site that gives no page is refused with the reason, in words for the customer', async (t) => {
  const crawler = open(t);
  const answers: [detail: string, answer: Answer][] = [
    ['the site answered with status 404', (_, response) => response.writeHead(404).end()],
    ['the site answered with status 503', (_, response) => response.writeHead(503).end()],
    [
      'the site redirects too often, or to no page',
      ({ url }, response) => response.writeHead(302, { location: `${url}x` }).end(),
    ],
    [
      'the site redirects too often, or to no page',
      (_, response) => response.writeHead(301, { location: 'http://[' }).end(),
    ],
    [
      'the address is not allowed',
      (_, response) => response.writeHead(302, { location: 'http://10.0.0.1/' }).end(),
    ],
    ['the site did not answer', ({ socket }) => void socket.destroy()],
    ['the page is empty', (_, response) => response.end('')],
    [
      'the page is empty',
      (_, response) => response.end('<!doctype html><html><head></head><body> </body></html>'),
    ],
    [
      'the site has no page there',
      (_, response) => response.writeHead(200, { 'content-type': 'application/pdf' }).end('%PDF'),
    ],
    ['the site has no page there', (_, response) => response.end(Buffer.from([0x89, 0x50, 0, 0, 1, 2]))],
    [
      'the site sends what cannot be read',
      (_, response) => response.writeHead(200, { 'content-encoding': 'zstd' }).end('x'),
    ],
  ];
  for (const [detail, answer] of answers)
    await t.rejects(crawler.detect(await serve(t, answer), never), refusedWith(detail), detail);
  await t.rejects(crawler.detect('nowhere.example.com', never), refusedWith('the domain has no address'));
});

t.test('a site with a certificate that nobody vouches for is refused, and not read', async (t) => {
  const paths: (string | undefined)[] = [];
  const server = createTlsServer(selfSigned, ({ url }, response) => {
    paths.push(url);
    response.end(html('<h1>Secret</h1>'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const domain = `localhost:${(server.address() as AddressInfo).port}`;
  const detail = 'the certificate of the site is not valid';
  await t.rejects(open(t).detect(domain, never), refusedWith(detail));
  await t.rejects(open(t).deepCrawl(domain, never), refusedWith(detail));
  t.strictSame(paths, []);
});

t.test('robots.txt is obeyed: by all, by name, path by path, and a failing one keeps us out', async (t) => {
  const crawler = open(t);
  const asked: string[] = [];
  const serveWith = async (robots: string, status = 200) => {
    asked.length = 0;
    const base = await serveSources(t, ({ url = '' }, response) => {
      asked.push(url);
      if (url === '/robots.txt') response.writeHead(status).end(robots);
      else
        response
          .writeHead(200, { 'content-type': 'text/html' })
          .end(
            html(
              `<h1>${url} of many</h1><a href="/about">About</a><a href="/secret/plan">Plan</a><a href="/secret/open">Open</a>`,
            ),
          );
    });
    return base.replace('http://127.0.0.1', 'localhost');
  };
  const away = refusedWith('the site asks robots to stay away');
  await t.rejects(crawler.detect(await serveWith('User-agent: *\nDisallow: /'), never), away);
  t.strictSame(asked, ['/robots.txt']);
  await t.rejects(
    crawler.detect(
      await serveWith('User-agent: AnimatedAssetService\nDisallow: /\n\nUser-agent: *\nAllow: /'),
      never,
    ),
    away,
  );
  await t.rejects(
    crawler.detect(await serveWith('', 500), never),
    refusedWith('the site answered with status 500'),
  );
  const partly =
    'User-agent: other\nDisallow: /\nUser-agent: *\nDisallow: /secret/\nAllow: /secret/open$\nDisallow: /*.zip';
  const { content } = await crawler.deepCrawl(await serveWith(partly), never);
  t.strictSame(
    content.pages.map(({ url }) => new URL(url).pathname),
    ['/', '/about', '/secret/open'],
  );
  t.notOk(asked.includes('/secret/plan'));
});

t.test('a deep crawl fetches 25 pages of one site at most, 4 at a time, each once', async (t) => {
  const asked: string[] = [];
  let [running, most] = [0, 0];
  const domain = await serve(t, ({ url = '' }, response) => {
    asked.push(url);
    running += 1;
    most = Math.max(most, running);
    setTimeout(() => {
      running -= 1;
      const links = Array.from(
        { length: 60 },
        (_, i) => `<a href="/p/${i}?utm_source=x#part">Page ${i}</a>`,
      ).join('');
      response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(html(`<h1>Page ${url}</h1>${links}<a href="http://elsewhere.localhost/">Elsewhere</a>`));
    }, 5);
  });
  const { content } = await open(t).deepCrawl(domain, never);
  t.equal(content.pages.length, 25);
  t.equal(new Set(asked).size, asked.length);
  t.ok(most <= 4, `${most} at a time`);
});

t.test('floods are cut, and what is there is read', async (t) => {
  const style =
    '<style>body{background:#fafafa;color:#111;font-family:Inter}.btn{background:#e11d48;color:#fff}</style>';
  const good = html('<h1>Hello there</h1><a class="btn" href="/x">Begin</a>', style);
  const begun = Buffer.from(good.replace('</body></html>', ''));
  const flood = (filler: string) => Buffer.concat([begun, Buffer.alloc(60 * 1024 * 1024, filler)]);
  const big = flood('<i>x</i>        ');
  // What unpacks without end is cut by its size, whatever it is: one that is cheap to read will do.
  const blank = flood(' ');
  const [zipped, pressed] = [gzipSync(blank, { level: 1 }), brotliCompressSync(blank, { params: { 1: 1 } })];
  const floods: Record<string, Answer> = {
    'sixty megabytes': (_, response) => response.end(big),
    'a gzip bomb': (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(zipped),
    'a brotli bomb': (_, response) => response.writeHead(200, { 'content-encoding': 'br' }).end(pressed),
    'tags without end': (_, response) =>
      response.end(`${good.replace('</body></html>', '')}${'<div>'.repeat(50_000)}`),
    'a sheet of brackets': (_, response) =>
      response.end(
        html('<h1>Hello there</h1><a class="btn">Begin</a>', `${style}<style>${'a{'.repeat(20_000)}</style>`),
      ),
    'megabytes of selectors': (_, response) =>
      response.end(
        html(
          '<h1>Hello there</h1><a class="btn">Begin</a>',
          `${style}<style>${Array.from({ length: 10_000 }, (_, i) => `.a${i} > b:not(.c${i}) ~ *{color:red}`).join('')}</style>`,
        ),
      ),
    'properties that grow': (_, response) =>
      response.end(
        html(
          '<h1>Hello there</h1><a class="btn">Begin</a>',
          `${style}<style>:root{--a0:x x;${Array.from({ length: 60 }, (_, i) => `--a${i + 1}:var(--a${i}) var(--a${i})`).join(';')};--s:var(--s)}h1{color:var(--a60);background:var(--s)}</style>`,
        ),
      ),
    'broken JSON-LD': (_, response) =>
      response.end(
        html(
          '<h1>Hello there</h1><a class="btn">Begin</a>',
          `${style}<script type="application/ld+json">{"@type":</script>`,
        ),
      ),
  };
  const crawler = open(t);
  for (const [name, answer] of Object.entries(floods)) {
    const brand = await crawler.detect(await serve(t, answer), never);
    t.match(
      brand,
      { colors: { primary: '#e11d48', background: '#fafafa' }, fonts: { heading: 'Inter' } },
      name,
    );
  }
});

t.test('a page of scripts only gives what its head and sheets say, and nothing made up', async (t) => {
  const domain = await serve(t, (_, response) =>
    response.end(
      html(
        '<div id="root"></div><script src="/app.js"></script>',
        '<meta name="theme-color" content="#0a7">',
      ),
    ),
  );
  const { brand, content } = await open(t).deepCrawl(domain, never);
  t.match(brand, { brandName: 'Acme', colors: { primary: '#00aa77' } });
  t.match(content, {
    features: [],
    pricing: [],
    testimonials: [],
    stats: [],
    announcements: [],
    codeExamples: [],
  });
});

t.test('a site that hangs ends with the signal, in the thread as here', async (t) => {
  const domain = await serve(t, () => undefined);
  const threads = createThreadCrawler({ allow, denyPorts: [] });
  t.teardown(() => threads.close());
  for (const crawler of [open(t), threads]) {
    const control = new AbortController();
    const asked = crawler.detect(domain, control.signal);
    const reason = new CrawlError('the site took too long');
    setTimeout(() => control.abort(reason), 300);
    await t.rejects(asked, refusedWith('the site took too long'));
  }
});

t.test(
  'threads serve one site after another, tell errors apart, and fail what is under way when they end',
  async (t) => {
    const domain = await serve(t, (_, response) =>
      response.end(html('<h1>Hello there</h1>', '<meta name="theme-color" content="#0a7">')),
    );
    const silent = await serve(t, () => undefined);
    const threads = createThreadCrawler({ allow, denyPorts: [] });
    t.match(await threads.detect(domain, never), { colors: { primary: '#00aa77' } });
    const [one, other] = await Promise.all([
      threads.deepCrawl(domain, never),
      threads.deepCrawl(domain, never),
    ]);
    t.strictSame(one, other);
    await t.rejects(threads.detect('10.0.0.1', never), refusedWith('the address is not allowed'));
    const lost = t.rejects(threads.detect(silent, never), { message: 'the thread was lost' });
    await threads.close();
    await lost;
    await t.rejects(threads.detect(domain, never), { message: 'the crawler is closed' });
  },
);

t.test(
  'no forbidden address is connected to: as a domain, a redirect, a sheet, an import, a link or a sitemap',
  async (t) => {
    const trap = await openTrap(t);
    const { port } = trap;
    const site = createServer(({ url = '' }, response) => {
      const host = decodeURIComponent(url.slice(url.indexOf('?') + 1));
      const target = `http://${host}:${port}/`;
      if (url.startsWith('/go?'))
        return response.writeHead(302, { location: Buffer.from(target).toString('latin1') }).end();
      if (url === '/robots.txt')
        return response.end(
          forbiddenHosts
            .slice(0, 5)
            .map((one) => `Sitemap: http://${one}:${port}/s.xml`)
            .join('\n'),
        );
      const sheets = forbiddenHosts
        .slice(0, 25)
        .map((one) => `<link rel="stylesheet" href="http://${one}:${port}/a.css">`)
        .join('');
      const imports = forbiddenHosts.map((one) => `@import "http://${one}:${port}/b.css";`).join('');
      const links = forbiddenHosts
        .map((one) => `<a href="/go?${encodeURIComponent(one)}">x</a><a href="http://${one}:${port}/">y</a>`)
        .join('');
      return response
        .writeHead(200, { 'content-type': 'text/html' })
        .end(html(`<h1>Hello there</h1>${links}`, `${sheets}<style>${imports}</style>`));
    });
    site.listen(0, '127.0.0.9');
    await once(site, 'listening');
    const sitePort = (site.address() as AddressInfo).port;
    t.teardown(() => {
      site.close();
      site.closeAllConnections();
    });
    let lookUps = 0;
    const outbound = createOutbound({
      allow: ['127.0.0.9'],
      denyPorts: [],
      // Answers the site's address first, and this machine's ever after.
      resolver: async (name) => {
        if (name === 'rebind.example.com') lookUps += 1;
        return lookUps > 1 ? ['127.0.0.1'] : ['127.0.0.9'];
      },
    });
    t.teardown(() => outbound.close());
    const crawler = createSiteCrawler(outbound);
    t.ok(forbiddenHosts.length >= 60);
    for (const host of forbiddenHosts) {
      await t.rejects(
        crawler.detect(`${host}:${port}`, never),
        refusedWith('the address is not allowed'),
        host,
      );
    }
    t.match(await crawler.deepCrawl(`site.example.com:${sitePort}`, never), { brand: { brandName: 'Acme' } });
    await t.rejects(crawler.detect(`rebind.example.com:${port}`, never));
    await t.rejects(
      crawler.detect(`rebind.example.com:${port}`, never),
      refusedWith('the address is not allowed'),
    );
    for (const host of forbiddenHosts) {
      await t.rejects(
        outbound.request(`http://site.example.com:${sitePort}/go?${encodeURIComponent(host)}`, {
          timeoutMs: 2_000,
          maxBytes: 100,
          redirects: 3,
          signal: never,
        }),
        { name: 'OutboundError' },
        host,
      );
    }
    t.equal(trap.connections(), 0);
  },
);
