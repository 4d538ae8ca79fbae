/** The sentence that a site opens with; each rule by the smallest page that it is for. */
import t from 'tap';
import { parsePage } from '../../src/brand/site/dom.ts';
import { readTagline } from '../../src/brand/site/messaging.ts';
import { outline } from '../../src/brand/site/outline.ts';

const taglineOf = (body: string, title = 'Acme') =>
  readTagline(
    outline(parsePage(`<!doctype html><body>${body}`), () => true),
    'Acme',
    title,
  );

const sections =
  '<h2>Downloads for everybody</h2><p>Take one.</p><h2>Browser support</h2><p>All of them.</p>';
const sentence = 'Acme counts what is in stock, everywhere at once.';

t.test('the sentence before the first section is the tagline, a heading of a section is none', async (t) => {
  t.equal(taglineOf(`<p>${sentence}</p>${sections}`), sentence);
  t.equal(taglineOf(`<div class="header"><div>Acme</div><div>${sentence}</div></div>${sections}`), sentence);
  t.equal(
    taglineOf('<p>在庫を一目で数えられる、小さな道具です。</p><h2>入手する</h2><h2>動作環境</h2>'),
    '在庫を一目で数えられる、小さな道具です。',
  );
  t.equal(taglineOf(`<span>Acme</span><p>${sentence}</p>`), sentence, 'a page without headings');
  const menu = `<ul>${'<li><a href="#one">One of many chapters</a></li>'.repeat(90)}</ul>`;
  t.equal(taglineOf(`<div>${menu}</div><p>${sentence}</p>${sections}`), sentence, 'after a long menu');
});

t.test('what stands above the heading of the page is none', async (t) => {
  const heading = '<h1>Count your stock</h1>';
  t.equal(taglineOf(`<p>${sentence}</p>${heading}${sections}`), 'Count your stock');
  const others = [
    '<nav><p>We moved to a larger house last week.</p></nav>',
    '<div class="topbar"><p>We moved to a larger house last week.</p></div>',
    '<header><p>We moved to a larger house last week.</p><a href="/">Acme</a><ul><li>Shop</li></ul></header>',
    '<ul><li>We moved to a larger house last week.</li></ul>',
    '<p><a href="/news">We moved to a larger house last week.</a></p>',
    '<div><p>Hear from us once in a month.</p><form><input></form></div>',
    '<p>Try it with npm install acme</p>',
  ];
  for (const one of others) t.equal(taglineOf(`${one}${sections}`), 'Downloads for everybody', one);
});

t.test('of a long paragraph the first sentence is taken, in a short one all stands', async (t) => {
  const more =
    'It is written for shops with many houses, knows what each of them has, and asks nobody to count anything by hand ever again.';
  t.equal(taglineOf(`<h1>Acme</h1><p>${sentence} ${more}</p>`), sentence);
  t.equal(taglineOf(`<h1>Acme</h1><p>${sentence} Fast.</p>`), `${sentence} Fast.`);
  const german = 'Acme.js zählt z.B. den Bestand aller Filialen.';
  t.equal(taglineOf(`<h1>Acme</h1><p>${german} ${more} ${more}</p>`), german);
});

t.test('below the name stands the tagline, wherever the name ends', async (t) => {
  t.equal(
    taglineOf('<div><h1>Acme</h1></div><div><h3>Stock, counted <small>v1.0.2</small></h3></div>'),
    'Stock, counted',
  );
  const others = [
    '<p><a href="/a">Docs here</a> <a href="/b">Official site</a></p>',
    '<p>Choose a colour:</p>',
    '<p>色を選んでください：</p>',
  ];
  for (const one of others)
    t.equal(taglineOf(`<h1>Acme</h1>${one}<p>Stock, counted</p>`), 'Stock, counted', one);
});

t.test(
  'a heading goes on in the next one; a link that no space parts from it stands elsewhere',
  async (t) => {
    t.equal(
      taglineOf('<h1>Acme</h1><h2>Stock, counted</h2><h2>by everybody at once</h2>'),
      'Stock, counted by everybody at once',
    );
    t.equal(taglineOf('<h1>Acme</h1><h2>Stock, counted</h2><h2>How it works</h2>'), 'Stock, counted');
    t.equal(
      taglineOf('<h1>Acme</h1><h3><span>Stock, counted</span><a href="/chat">Join us</a></h3>'),
      'Stock, counted',
    );
    t.equal(
      taglineOf('<h1><span>Stock, counted</span> <a href="/all">for you</a></h1>'),
      'Stock, counted for you',
    );
  },
);

t.test('the name with a word or a number after it says nothing yet', async (t) => {
  for (const one of ['Acme Demo', 'Acme 0.9.0', 'Acme Handbuch'])
    t.equal(taglineOf(`<h1>${one}</h1><p>Stock, counted</p>`, one), 'Stock, counted', one);
  t.equal(taglineOf('<h1>Acme counts stock</h1><p>Small and quick</p>'), 'Acme counts stock');
});

t.test('notes to those who know, and what the house calls its pages, are none', async (t) => {
  t.equal(taglineOf(`<p>Important note: Acme has moved to a new house.</p><p>${sentence}</p>`), sentence);
  t.equal(taglineOf(`<h1>Acme</h1><p>Note: Acme has moved to a new house.</p><p>${sentence}</p>`), sentence);
  t.equal(
    taglineOf(`<h1>Under Construction</h1><h2>Welcome to the Acme wiki!</h2><p>${sentence}</p>`),
    sentence,
  );
  t.equal(taglineOf('<h1>Note to self, and to all</h1>'), 'Note to self, and to all');
});
