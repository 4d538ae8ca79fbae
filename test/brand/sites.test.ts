/** Sites of our own with a trap each, read as a person reads them: test/brand/sites, expected values beside them. */
import t from 'tap';
import { type Expected, openLocalCrawler, readSites, serveSites } from '../../src/bench/brand-sites.ts';
import { isSameFamily, isSameText, isSameTitle } from '../../src/bench/same-thing.ts';
import { crawlResults } from '../../src/brand/crawl-request.ts';
import { distance, parseColor } from '../../src/brand/site/color.ts';

const sites = (await readSites()).filter((one) => one.package === undefined);
const server = await serveSites(sites);
const { crawler, close } = openLocalCrawler();
t.teardown(async () => {
  await close();
  await server.close();
});
const { signal } = new AbortController();
const domainOf = (id: string) => `${id}.localhost:${server.port}`;
const crawl = async (id: string) => crawlResults.deep.parse(await crawler.deepCrawl(domainOf(id), signal));
const listOf = (value: string | string[] | undefined) => [value ?? []].flat();

function looksLike(found: string, expected: string | string[] | undefined): boolean {
  const color = parseColor(found);
  return listOf(expected).some((one) => {
    const other = parseColor(one);
    return color !== undefined && other !== undefined && distance(color, other) <= 5;
  });
}

for (const { id, expected } of sites) {
  t.test(`${id}: colours, fonts, name, logo and content are those that a person sees`, async (t) => {
    const { brand, content, messaging, design } = await crawl(id);
    // Which colour comes second is a matter of opinion: the score counts it, this does not.
    for (const name of ['primary', 'background', 'foreground'] as const) {
      if (expected[name] !== undefined)
        t.ok(looksLike(brand.colors[name], expected[name]), `${name} ${brand.colors[name]}`);
    }
    t.same(brand.fonts, { heading: expected.heading, body: expected.body });
    t.equal(brand.brandName, expected.name);
    const [logo = ''] = listOf(expected.logo);
    t.ok(
      logo === '' ? brand.logoUrl === '' : brand.logoUrl.includes(logo),
      `logo ${brand.logoUrl.slice(0, 60)}`,
    );
    const lists: [keyof Expected, string[]][] = [
      ['tagline', [content.tagline]],
      ['features', content.features.map(({ title }) => title)],
      ['testimonials', content.testimonials.map(({ author }) => author)],
      ['stats', content.stats.map(({ value }) => value)],
      ['announcements', content.announcements.map(({ title }) => title)],
      ['code', content.codeExamples.map(({ language }) => language)],
      ['pages', content.pages.map(({ type }) => type)],
      ['ctas', messaging.ctas],
    ];
    for (const [name, found] of lists)
      if (expected[name] !== undefined)
        t.strictSame(found.toSorted(), listOf(expected[name] as string[]).toSorted(), name);
    t.equal(content.pricing.length, expected.pricing?.length ?? 0, 'no more prices than there are');
    t.match(design, expected.design ?? {});
  });
}

t.test(
  'German and Japanese: prices, quotes with roles, dates and the audience, as they are written',
  async (t) => {
    const [german, japanese] = [await crawl('kaffee'), await crawl('sakura')];
    t.match(german.content.pricing, [
      { tier: 'Probier', price: '9,90 € / Monat', features: ['250 g', 'Eine Sorte'] },
      { tier: 'Genuss', price: '24,50 € / Monat' },
      { tier: 'Büro', price: 'auf Anfrage' },
    ]);
    t.match(german.content.testimonials, [
      { quote: 'So guten Kaffee hatte ich zuletzt in Triest.', author: 'Annegret Möller', role: 'Lehrerin' },
    ]);
    t.equal(german.messaging.targetAudience, 'Familien');
    t.match(japanese.content.announcements, [
      { title: '検索が速くなりました', date: '2024-03-05', body: '過去の会議を平均0.2秒で探せます。' },
    ]);
    t.match(japanese.content.pricing, [{ price: '無料' }, { price: '1,980円' }, { price: '￥9,800/月' }]);
    t.equal(japanese.messaging.targetAudience, 'チーム');
  },
);

t.test(
  'the same site gives the same answer, byte for byte; a detection gives its colours and fonts',
  async (t) => {
    for (const id of ['kaffee', 'nacht']) {
      const [one, other] = [await crawl(id), await crawl(id)];
      t.equal(JSON.stringify(one), JSON.stringify(other));
      t.strictSame(await crawler.detect(domainOf(id), signal), {
        colors: one.brand.colors,
        fonts: one.brand.fonts,
      });
    }
  },
);

t.test(
  'the score takes the same thing written otherwise for the same, and other words for others',
  async (t) => {
    t.ok(isSameText('Get started →', 'Get Started'));
    t.ok(isSameText('Calzado & Sons', 'calzado & sons.'));
    t.notOk(isSameText('Get started now', 'Get started'));
    t.notOk(isSameText('C', 'C++'));
    t.ok(isSameTitle('Fast: no waiting', 'Fast'));
    t.ok(isSameTitle('It’s yours', "02. It's yours!"));
    t.notOk(isSameTitle('Fast delivery', 'Fast'));
    t.notOk(isSameTitle('Faster', 'Fast'));
    t.notOk(isSameTitle('Well-known', 'Well'));
    t.ok(isSameFamily('proxima-nova', 'Proxima Nova'));
    t.notOk(isSameFamily('Roboto', 'Roboto Slab'));
  },
);
