/** The primary colour of a page; each rule by the smallest page that it is for. */
import t from 'tap';
import { parsePage } from '../../src/brand/site/dom.ts';
import { lookAt } from '../../src/brand/site/look.ts';
import { readPalette } from '../../src/brand/site/palette.ts';
import { createStyles } from '../../src/brand/site/style.ts';

function primaryOf(body: string): string {
  const text =
    '.btn{background:#06c;color:#fff} .btn-success{background:#ff8a3c} .btn-danger{background:#d00} a{color:#3fbf79} .mark{background:#f9f1b3} header{background:#f5de1b} p{color:#222}';
  const page = parsePage(`<!doctype html><body>${body}<p>Some words about what is counted.</p>`);
  return readPalette(lookAt(page, createStyles([{ text, imports: new Map() }]))).primary.hex;
}

const links =
  '<p><a href="/one">The first of the links</a> <a href="/two">The second of the links</a></p>'.repeat(3);

t.test(
  'a button that leads to the code of the site is its own, one that names the house is not',
  async (t) => {
    t.equal(
      primaryOf(`<a class="btn" href="https://github.com/acme/stock/zip">Download</a>${links}`),
      '#0066cc',
    );
    t.equal(
      primaryOf(`<a class="btn" href="https://github.com/acme">Star us on GitHub</a>${links}`),
      '#3fbf79',
    );
    t.equal(primaryOf(`<a class="btn" href="https://facebook.com/share">Share</a>${links}`), '#3fbf79');
  },
);

t.test("a call to action in the colour of success is the site's where there is no other", async (t) => {
  const call = '<a class="btn btn-success" href="/get">Download for free</a>';
  t.equal(primaryOf(`${call}${links}`), '#ff8a3c');
  t.equal(primaryOf(`${call.repeat(3)}<a class="btn" href="/buy">Buy</a>${links}`), '#0066cc');
  t.equal(primaryOf(`<button class="btn btn-danger">Delete</button>${links}`), '#3fbf79');
});

t.test('links that are marked with a pale ground are no buttons', async (t) => {
  const marked = '<p><a class="mark" href="/one">A link</a> in a sentence of some length</p>'.repeat(6);
  t.equal(primaryOf(`<header><h1>Acme</h1></header>${marked}`), '#f5de1b');
});

t.test('where all that can be clicked leads to others, it is drawn in the own colour', async (t) => {
  const star = '<a class="btn" href="https://github.com/acme">GitHub</a>';
  t.equal(primaryOf(star), '#0066cc');
  t.equal(primaryOf(`${star}${links}`), '#3fbf79');
  t.equal(primaryOf('<a class="btn btn-facebook" href="/share">Share</a>'), '#222222', 'it is named so');
});
