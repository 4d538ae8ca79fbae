/** What a page offers, told from what looks the same; each rule by the smallest page that it is for. */
import t from 'tap';
import { readContent } from '../../src/brand/site/content.ts';
import { parsePage } from '../../src/brand/site/dom.ts';
import { outline } from '../../src/brand/site/outline.ts';

const contentOf = (body: string) =>
  readContent(outline(parsePage(`<!doctype html><body><h1>Acme</h1>${body}`), () => true));
const featuresOf = (body: string) => contentOf(body).features.map(({ title }) => title);

const sentence = 'It does all that people want of it, and does it well.';
const titles = ['Fast search', 'Safe storage', 'Fair terms'];
const cards = (inside: (title: string, at: number) => string, named = titles) =>
  `<div>${named.map((title, at) => `<div>${inside(title, at)}</div>`).join('')}</div>`;
const plain = cards((title) => `<h3>${title}</h3><p>${sentence}</p>`);

t.test('entries that are counted are entries, not figures', async (t) => {
  const { features, stats } = contentOf(
    cards((title, at) => `<div>0${at + 1}</div><h3>${title}</h3><p>${sentence}</p>`),
  );
  t.strictSame(
    features.map(({ title }) => title),
    titles,
  );
  t.strictSame(stats, []);
  const figures = contentOf(
    '<div><div><b>12</b><p>shops in town</p></div><div><b>3</b><p>languages</p></div></div>',
  );
  t.equal(figures.stats.length, 2);
});

t.test('what stands above a list or its heading says of what it is', async (t) => {
  t.strictSame(featuresOf(`<section><h2>Built for you</h2>${plain}</section>`), titles);
  const others = [
    '<p>How it works</p><h2>Nothing to install</h2>',
    '<span>Who it’s for</span><h2>Serious tools</h2>',
    '<h2>Three easy steps</h2>',
    '<h2>In drei Schritten</h2>',
    '<p>Wie wir arbeiten</p><h2>Klar und ruhig</h2>',
    '<h2>Featured projects</h2>',
    '<h2>Nos réalisations</h2>',
  ];
  for (const one of others) t.strictSame(featuresOf(`<section>${one}${plain}</section>`), [], one);
});

t.test('a heading and the words above it may be the first of the list', async (t) => {
  const list = (words: string) =>
    `<div><div><span>${words}</span><h2>Nothing to install</h2></div>${titles.map((title) => `<div><h3>${title}</h3><p>${sentence}</p></div>`).join('')}</div>`;
  t.strictSame(featuresOf(list('How it works')), []);
  t.strictSame(featuresOf(list('Why us')), titles);
});

t.test('the slides that a page opens with are no features, those below are', async (t) => {
  const slider = cards((title) => `<h2>${title}</h2><p>${sentence}</p>`);
  const opened = (body: string) =>
    readContent(outline(parsePage(`<!doctype html><body><div>${body}</div>`), () => true)).features.length;
  t.equal(opened(`<div class="main-slider">${slider}</div>`), 0);
  t.equal(opened(`<h1>Acme</h1><div class="main-slider">${slider}</div>`), titles.length);
});

t.test('ways to reach somebody, in some languages', async (t) => {
  const named = ['Ubicación', 'Horarios de atención', 'Contacto'];
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, named)), []);
});

t.test('titles with nothing but links are no features, links with a sentence in them are', async (t) => {
  const links = `<a href="/a">Line chart with ordinary data</a><a href="/b">Step chart with ordinary data</a>`;
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3>${links}`)), []);
  const whole = cards((title) => `<a href="/a"><h3>${title}</h3><p>${sentence}</p></a>`);
  t.strictSame(featuresOf(whole), titles);
});

t.test('parts of a kit, called by their places, are no features', async (t) => {
  for (const named of [
    ['Media top', 'Media middle', 'Media bottom'],
    ['Wide box', 'Top box'],
  ])
    t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, named)), []);
});

t.test('what visitors suffer from is told only where nothing is offered', async (t) => {
  const asked = `<section><h2>Sound familiar?</h2>${cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, ['Lost keys', 'Late trains'])}</section>`;
  t.strictSame(featuresOf(asked), ['Lost keys', 'Late trains']);
  t.strictSame(featuresOf(`${asked}<section><h2>Built for you</h2>${plain}</section>`), titles);
});

t.test('what was found at a host on a day is no news', async (t) => {
  const dated = (named: string[]) =>
    contentOf(cards((title) => `<h3>${title}</h3><p>12 March 2024</p>`, named)).announcements.length;
  t.equal(dated(['acme.example', 'shop.acme.example', 'bücher.example']), 0);
  t.equal(dated(['Version 2.0', 'We moved to acme.example', 'Hello']), 3);
});

t.test('versions from which on something works are no figures', async (t) => {
  const list = (entries: string[]) =>
    contentOf(`<ul>${entries.map((one) => `<li>${one}</li>`).join('')}</ul>`).stats.length;
  t.equal(list(['Firefox <small>3.6+</small>', 'Opera <small>10+</small>', 'Safari <small>4+</small>']), 0);
  t.equal(list(['<b>3.6M+</b> users', '<b>10+</b> years', '<b>4.5+</b> stars']), 3);
});

t.test('who said something is named, not told in a sentence', async (t) => {
  const said = (below: string) =>
    contentOf(`<section><blockquote>Acme is all that one could want</blockquote><p>${below}</p></section>`)
      .testimonials;
  t.match(said('Jane Doe, Example Inc.'), [{ author: 'Jane Doe' }]);
  t.strictSame(said('Here comes Acme, the shop for all of it!'), []);
  t.strictSame(said('Separate drawers — pull them out as you like, or not.'), []);
});

t.test('how many there are of something is a figure, not a feature', async (t) => {
  const named = ['600M+ users', '99.9% uptime', '100+ countries'];
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, named)), []);
  const one = ['24/7 support', '100% local', 'Fair terms'];
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, one)), one);
});

t.test('what stands in columns beside its code is a chapter', async (t) => {
  const row = (title: string) =>
    `<div><div><h4>${title}</h4><p>${sentence}</p></div><div><h4>${title} in code</h4><pre>do()</pre><p>${sentence}</p></div></div>`;
  t.strictSame(featuresOf(titles.map((title) => `<section>${row(title)}</section>`).join('')), []);
});

t.test(
  'entries of a list that begin with a title and a colon are features, notes on code are not',
  async (t) => {
    const list = (named: readonly string[]) =>
      `<h2>What is Acme?</h2><h3>More</h3><ul>${named.map((title) => `<li><strong>${title}</strong> ${sentence}</li>`).join('')}</ul>`;
    t.strictSame(featuresOf(list(titles.map((title) => `${title}:`))), titles);
    t.strictSame(featuresOf(list(titles)), []);
    t.strictSame(featuresOf(list(titles.map((title) => `<code>x</code> ${title}:`))), []);
  },
);

t.test('a note may stand between a title and its sentence', async (t) => {
  const entry = (title: string, note: string) => `<h3>${title}</h3>${note}<p>${sentence}</p>`;
  const note = '<div>see it at work</div>';
  t.strictSame(featuresOf(`<h2>Why Acme?</h2>${entry('Small', note)}${entry('Fast', '')}`), [
    'Small',
    'Fast',
  ]);
  const table = '<table><tr><td>a</td></tr></table>';
  t.strictSame(featuresOf(`<h2>Why Acme?</h2>${entry('Small', table)}${entry('Fast', '')}`), []);
});

t.test('a licence and thanks among features are none', async (t) => {
  const named = ['Fast search', 'Safe storage', 'MIT License'];
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, named)), named.slice(0, 2));
  const others = ['MIT License', 'Special thanks'];
  t.strictSame(featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, others)), []);
});

t.test('counters that stand at nought and places in a list are no figures', async (t) => {
  const figures = (values: string[]) =>
    contentOf(cards((value) => `<b>${value}</b><p>shops in town</p>`, values)).stats.map(
      ({ value }) => value,
    );
  t.strictSame(figures(['0', '0+', '0%']), []);
  t.strictSame(figures(['05', '07']), []);
  t.strictSame(figures(['0', '12', '0.5']), ['0', '12', '0.5']);
});

t.test('parts of a whole and steps towards it are no figures', async (t) => {
  const figures = (values: string[]) =>
    contentOf(cards((value) => `<b>${value}</b><p>of all shops</p>`, values)).stats.length;
  t.equal(figures(['33%', '27.5%', '20%', '19,5 %']), 0);
  t.equal(figures(['20%', '40%', '60%', '80%']), 0);
  const steps = [20, 40, 60, 80, 100].map(
    (one, at) => `<div class="${at % 2 ? 'odd' : 'even'}"><b>${one}%</b><p>done</p></div>`,
  );
  t.strictSame(contentOf(`<div>${steps.join('')}</div>`).stats, []);
  t.equal(figures(['99.9%', '40%', '85%']), 3);
  t.equal(figures(['60%', '40%']), 2);
});

t.test('sections with words in one column and code alone in the other show what there is', async (t) => {
  const section = (title: string, code: string) =>
    `<section><div><h2>${title}</h2><p>${sentence}</p></div><div>${code}</div></section>`;
  const all = (code: string) => `<main>${titles.map((title) => section(title, code)).join('')}</main>`;
  t.strictSame(featuresOf(all('<pre>acme.find()</pre>')), titles);
  t.strictSame(featuresOf(all('<p>Call it so:</p><pre>acme.find()</pre>')), []);
});

t.test('where every part of a page has a first heading, those after the first are titles', async (t) => {
  const parts = (named: string[]) => {
    const page = cards((title) => `<h1>${title}</h1><p>${sentence}</p>`, named);
    const { features } = readContent(
      outline(parsePage(`<!doctype html><body><div>${page}</div>`), () => true),
    );
    return features.map(({ title }) => title);
  };
  t.strictSame(parts(['Acme', ...titles]), titles);
  t.strictSame(parts(['Acme', 'Fast search']), []);
});

t.test('entries that lead to hosts of their own as a whole are elsewhere', async (t) => {
  const list = (hosts: string[]) =>
    featuresOf(
      cards((title, at) => `<a href="https://${hosts[at]}/acme"><h3>${title}</h3><p>${sentence}</p></a>`),
    );
  t.strictSame(list(['chat.example', 'code.example', 'video.example']), []);
  t.strictSame(list(['acme.example', 'acme.example', 'acme.example']), titles);
});

t.test('words of a program, with others like them or with what they are, are no features', async (t) => {
  const list = (named: string[]) =>
    featuresOf(cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, named));
  t.strictSame(list(['ROUND_UP', 'ROUND_DOWN', 'EUCLID']), []);
  t.strictSame(list(['create', 'destroy', 'rgbString', 'value']), []);
  t.strictSame(list(['peer.connect', 'call.answer(stream)', 'new Peer([id])']), []);
  t.strictSame(list(['width (optional)', 'height (number)', 'Theme (string)']), []);
  t.strictSame(list(['fast', 'small', 'fair']), ['fast', 'small', 'fair'], 'as some houses write');
  const words = cards((title) => `<h3>${title}</h3><p>${sentence}</p>`, ['open', 'close', 'reset']);
  t.strictSame(featuresOf(`${words}<pre>acme.open();</pre>`), [], 'where code is shown');
  t.strictSame(list(['Node.js', 'iCloud sync', 'Fair terms']), ['Node.js', 'iCloud sync', 'Fair terms']);
});

t.test('what a long table of contents leads to is a manual; what stands above it is not', async (t) => {
  const places = Array.from({ length: 15 }, (_, n) => `part-${n}`);
  const contents = `<ul>${places.map((one) => `<li><a href="#${one}">${one}</a></li>`).join('')}</ul>`;
  const parts = places.map((one) => `<h2 id="${one}">${one}</h2><p>${sentence}</p>`).join('');
  t.strictSame(featuresOf(`${plain}${contents}${parts}`), titles);
  t.strictSame(featuresOf(`${contents}${parts}${plain}`), []);
  t.strictSame(featuresOf(`<a href="#part-1">More</a>${parts}${plain}`), titles);
});

t.test('a long list of entries that lead on as a whole is an index', async (t) => {
  const named = ['Sun', 'Moon', 'Mars', 'Venus', 'Pluto', 'Ceres', 'Io', 'Europa', 'Titan'].map(
    (one) => `${one} effects`,
  );
  const linked = (some: string[]) =>
    featuresOf(
      `<div>${some.map((one) => `<a href="/${one}"><h3>${one}</h3><p>${sentence}</p></a>`).join('')}</div>`,
    );
  t.strictSame(linked(named), []);
  t.strictSame(linked(named.slice(1)), named.slice(1));
});

t.test('what is there to be tried is no feature', async (t) => {
  const entries = titles.map(
    (title) => `<div class="row demo-section"><h3>${title}</h3><p>${sentence}</p></div>`,
  );
  t.strictSame(featuresOf(`<div>${entries.join('')}</div>`), []);
});

t.test('levels from nought on are no figures', async (t) => {
  const levels = ['0', '1', '2', '3'].map((one) => `<div><b>${one}</b><p>prints more of it</p></div>`);
  t.strictSame(contentOf(`<div>${levels.join('')}</div>`).stats, []);
});
