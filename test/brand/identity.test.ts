/** Name and logo of a site; each rule by the smallest page that it is for. */
import t from 'tap';
import { parsePage } from '../../src/brand/site/dom.ts';
import { readIdentity } from '../../src/brand/site/identity.ts';
import { createSiteCrawler } from '../../src/brand/site/site-crawler.ts';
import { createStyles } from '../../src/brand/site/style.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { serveSources } from '../fixtures/service.ts';

const url = new URL('http://localhost/');
const identityOf = (title: string, body: string) =>
  readIdentity(parsePage(`<!doctype html><title>${title}</title><body>${body}`), url, createStyles([]));
const nameOf = (title: string, body: string) => identityOf(title, body).names[0]?.value;
const logoOf = (title: string, body: string) => identityOf(title, body).logos[0]?.value;

const logo = (alt: string) => `<img class="logo" src="/mark.png" alt="${alt}">`;

t.test('the logo of somebody who is spoken of in a sentence is none of the site', async (t) => {
  const spoken = [
    `<p>Stock is kept with care by ${logo('Umbrella')} and her many friends.</p>`,
    `<p>Dieses Lager wird betreut von ${logo('Umbrella')} und Freunden.</p>`,
    `<p>この在庫管理ツールの開発は、長年の友人である${logo('Umbrella')}が支えています。</p>`,
  ];
  for (const one of spoken) {
    t.equal(nameOf('Stock', `<h1>Stock</h1>${one}`), 'Stock', one);
    t.equal(logoOf('Stock', `<h1>Stock</h1>${one}`), undefined);
  }
  t.equal(logoOf('Stock', `<p>${logo('Stock')}</p><h1>Stock</h1>`), 'http://localhost/mark.png');
  const header = `<header><p>${logo('Stock')} Counts what your shops have, all day</p></header>`;
  t.equal(logoOf('Stock', header), 'http://localhost/mark.png');
});

t.test('an image that is called by one word of the name stands for the whole of it', async (t) => {
  t.equal(nameOf('Stock Counter', `${logo('Stock Logo')}<h1>STOCK Counter</h1>`), 'Stock Counter');
  t.equal(nameOf('Stock Counter', `${logo('Stock Logo')}<h1>Count it all</h1>`), 'Stock');
  t.equal(nameOf('Stock', `${logo('Stock Logo – Shops in Dortmund')}<h1>Count it all</h1>`), 'Stock');
});

t.test(
  "an image in the place of the first heading's words is the logo, one beside words is none",
  async (t) => {
    const image = '<img src="/stock.png" alt="">';
    const icon = '<link rel="icon" href="/favicon.ico">';
    t.equal(logoOf('Stock', `${icon}<h1>${image}</h1>`), 'http://localhost/stock.png');
    t.equal(logoOf('Stock', `${icon}<h1>${image} Count it all</h1>`), 'http://localhost/favicon.ico');
    t.equal(logoOf('Stock', `${icon}<h1>${image} stock</h1>`), 'http://localhost/stock.png', 'but the name');
    t.equal(logoOf('Stock', `${icon}<h1>Stock ${image}</h1>`), 'http://localhost/favicon.ico', 'after it');
  },
);

t.test('a logo painted behind the name lies where its sheet says', async (t) => {
  const base = await serveSources(t, ({ url: path }, response) => {
    if (path === '/') {
      response.setHeader('content-type', 'text/html');
      response.end(
        '<!doctype html><title>Stock</title><link rel="stylesheet" href="/look/main.css"><div id="top"><a class="title" href="http://stock.test/">Stock: counted</a></div><h1>Count it all</h1>',
      );
    } else if (path === '/look/main.css') {
      response.setHeader('content-type', 'text/css');
      response.end('#top .title{background:url(logo.png) no-repeat} h1{background:url(logo-of-others.png)}');
    } else response.writeHead(404).end();
  });
  const outbound = createOutbound({ allow: ['127.0.0.0/8'], denyPorts: [], resolver: async () => [] });
  t.teardown(() => outbound.close());
  const { brand } = await createSiteCrawler(outbound).deepCrawl(
    new URL(base).host,
    new AbortController().signal,
  );
  t.equal(brand.logoUrl, `${base}/look/logo.png`);
});

t.test('a version is no part of the name', async (t) => {
  for (const one of ['Stock Counter v1.2', 'Stock Counter (0.3.0)', 'Stock Counter (v2.1)'])
    t.equal(nameOf(one, '<p>Some words.</p>'), 'Stock Counter', one);
  t.equal(nameOf('Stock (beta)', '<p>Some words.</p>'), 'Stock (beta)');
});
