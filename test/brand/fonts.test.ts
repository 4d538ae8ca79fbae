/** The families that a page is set in, where what is written is not what is shown. */
import t, { type Test } from 'tap';
import { createSiteCrawler } from '../../src/brand/site/site-crawler.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { serveSources } from '../fixtures/service.ts';

/** Fonts of a page with a heading and a paragraph; its sheets by their paths. */
async function fontsOf(t: Test, head: string, sheets: Record<string, string> = {}) {
  const page = `<!doctype html><title>Acme</title>${head}<h1>We make all</h1><p>What is made here is made well.</p>`;
  const base = await serveSources(t, ({ url = '/' }, response) => {
    const text = url === '/' ? page : sheets[url];
    if (text === undefined) return response.writeHead(404).end();
    return response.writeHead(200, { 'content-type': url === '/' ? 'text/html' : 'text/css' }).end(text);
  });
  const outbound = createOutbound({
    allow: ['127.0.0.0/8', 'localhost'],
    denyPorts: [],
    resolver: async () => [],
  });
  t.teardown(() => outbound.close());
  const domain = base.replace('http://127.0.0.1', 'localhost');
  return (await createSiteCrawler(outbound).detect(domain, new AbortController().signal)).fonts;
}

t.test('a list of families that no browser takes leaves the one before in force', async (t) => {
  const refused = [
    "font-family: 36px 'Lora', serif",
    'font-family: "Lora" Georgia, serif',
    'font-family: Lora, 4th Street, serif',
    'font-family: $heading, serif',
    'font-family: Lora,',
    "font: bold 'Lora', serif",
  ];
  for (const one of refused) {
    const fonts = await fontsOf(t, `<style>body{font-family:Karla}h1{font-family:Inter}h1{${one}}</style>`);
    t.strictSame(fonts, { heading: 'Inter', body: 'Karla' }, one);
  }
});

t.test('a list of families in each form that browsers take', async (t) => {
  const taken = [
    "font-family: 'Lora', serif",
    'font-family: Lora/* for titles */, Georgia',
    'font-family: var(--none, Lora), -apple-system, serif',
    'font: italic 700 2rem/1.2 Lora, serif',
    "font: 1.5em 'Lora'",
  ];
  for (const one of taken) {
    const fonts = await fontsOf(t, `<style>body{font-family:Karla}h1{${one}}</style>`);
    t.strictSame(fonts, { heading: 'Lora', body: 'Karla' }, one);
  }
});

t.test('of sheets with titles the first set is shown', async (t) => {
  const head = `<link rel="stylesheet" href="/a.css"><link rel="stylesheet" title="Default" href="/b.css">
    <link rel="stylesheet" title="Print" href="/c.css"><link rel="stylesheet" title="Default" href="/d.css">`;
  const sheets = {
    '/a.css': 'body{font-family:Karla}',
    '/b.css': 'h1{font-family:Inter}',
    '/c.css': '*{font-family:Times}',
    '/d.css': 'h1{font-family:Lora}',
  };
  t.strictSame(await fontsOf(t, head, sheets), { heading: 'Lora', body: 'Karla' });
});

t.test('where a page leaves the choice to the browser, that is said', async (t) => {
  const fonts = (css: string) => fontsOf(t, `<style>${css}</style>`);
  t.strictSame(await fonts('body{font-family:sans-serif}'), { heading: 'sans-serif', body: 'sans-serif' });
  t.strictSame(await fonts('body{font-family:Karla}h1{font-family:Serif}'), {
    heading: 'serif',
    body: 'Karla',
  });
  t.strictSame(await fonts('body{font-family:system-ui,sans-serif}'), {
    heading: 'system-ui',
    body: 'system-ui',
  });
  t.equal(await fonts('body{color:red}'), undefined);
});

t.test(
  'a page that fades in is read as if it were shown, what is shown later on a page is not',
  async (t) => {
    const faded = (words: string) =>
      fontsOf(
        t,
        `<style>#main{display:none} #main h2{font-family:Lora} h1,p{font-family:Karla}</style><div id="main"><h2>${words}</h2><p>${words}</p></div>`,
      );
    t.strictSame(await faded('We make all that there is to make. '.repeat(20)), {
      heading: 'Lora',
      body: 'Karla',
    });
    t.strictSame(await faded('We make it. '), { heading: 'Karla', body: 'Karla' });
  },
);
