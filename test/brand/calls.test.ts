/** What visitors are asked to do, told from what looks the same; each rule by the smallest page that it is for. */
import t from 'tap';
import { createIsButton } from '../../src/brand/site/buttons.ts';
import { parsePage } from '../../src/brand/site/dom.ts';
import { lookAt } from '../../src/brand/site/look.ts';
import { readCtas } from '../../src/brand/site/messaging.ts';
import { outline } from '../../src/brand/site/outline.ts';
import { createStyles } from '../../src/brand/site/style.ts';

function callsOf(body: string, css = '', above = ''): string[] {
  const page = parsePage(`<!doctype html><body>${above}<main><h1>Acme</h1>${body}</main>`);
  const look = lookAt(page, createStyles([{ text: css, imports: new Map() }]));
  return readCtas(
    outline(page, () => true),
    createIsButton(look),
  );
}

t.test('words of a line that are marked with a colour are links, a button has room', async (t) => {
  const body = '<p>Made with <a href="/a">Tools</a>.</p>';
  t.strictSame(callsOf(body, 'a { background: #ff8; padding: 1px 3px }'), []);
  t.strictSame(callsOf(body, 'a { background: #ff8; padding: 0.5em 1em }'), ['Tools']);
  t.strictSame(callsOf(body, 'a { background: #ff8; padding: 1px 3px; display: block }'), ['Tools']);
});

t.test('what is named a button and drawn as a link is one, where others are drawn as buttons', async (t) => {
  const body = '<p><a class="btn" href="/a">Download</a> <a class="btn plain" href="/b">Source code</a></p>';
  const styles = '.btn { background: #06c; padding: 9px 18px } .plain { background: transparent }';
  t.strictSame(callsOf(body, styles), ['Download']);
  t.strictSame(callsOf(body, `${styles} .plain { border: 1px solid #06c }`), ['Download', 'Source code']);
  t.strictSame(callsOf(body), ['Download', 'Source code']);
});

t.test('what is shown beside its own code is there to be tried', async (t) => {
  t.strictSame(callsOf('<a class="btn" id="alert">Try it</a>'), ['Try it'], 'a script may lead on');
  const button = '<div><button>Set colour</button></div>';
  t.strictSame(callsOf(button), ['Set colour']);
  t.strictSame(callsOf(`<pre>&lt;button id="set"&gt;Set colour&lt;/button&gt;</pre>${button}`), []);
});

t.test('entries of a list, languages, questions and the way past the header are no calls', async (t) => {
  const button = (label: string) => `<a class="btn" href="/a">${label}</a>`;
  const places = ['Bayern', 'Berlin', 'Bremen', 'Hamburg', 'Hessen'];
  t.strictSame(callsOf(`<div>${places.map(button).join('')}</div>`), []);
  t.strictSame(callsOf(`<ul>${places.map((one) => `<li>${button(one)}</li>`).join('')}</ul>`), []);
  t.strictSame(callsOf(`<div>${places.slice(1).map(button).join('')}</div>`), places.slice(1));
  t.strictSame(callsOf(`${button('DE')} ${button('🇬🇧 EN')} ${button('購入')} ${button('Los')}`), [
    '購入',
    'Los',
  ]);
  t.strictSame(callsOf('<button>Was kostet das?</button><button>費用は？</button>'), []);
  t.strictSame(callsOf(button('Ready to start?')), ['Ready to start?']);
  const past = '<a class="btn" href="#main">Zum Inhalt</a>';
  t.strictSame(callsOf(past), ['Zum Inhalt']);
  t.strictSame(callsOf('', '', past), []);
});

t.test(
  'what leads nowhere by itself is to be tried, where code is shown or where there are many',
  async (t) => {
    const buttons = (...labels: string[]) => labels.map((one) => `<p><button>${one}</button></p>`).join('');
    const link = '<a class="btn" href="/get">Get it now</a>';
    const code = '<pre>npm i acme</pre><pre>acme.open()</pre>';
    t.strictSame(callsOf(`${buttons('Begin')}${link}`), ['Begin', 'Get it now'], 'a script may lead on');
    t.strictSame(callsOf(`${buttons('Open left')}${link}${code}`), ['Get it now']);
    t.strictSame(callsOf(`<form>${buttons('Sign up')}</form>${code}`), ['Sign up']);
    const kit = ['Default', 'Round', 'Simple', 'Small', 'Large', 'Link'];
    t.strictSame(callsOf(`${buttons(...kit)}${link}`), ['Get it now']);
  },
);

t.test('a link to a place that is not on the page leads nowhere', async (t) => {
  const code = '<pre>npm i acme</pre><pre>acme.open()</pre>';
  t.strictSame(callsOf(`<p><a class="btn" href="#nada">Print it</a></p>${code}`), []);
  t.strictSame(callsOf(`<p><a class="btn" href="#start">Start</a></p><h2 id="start">Start</h2>${code}`), [
    'Start',
  ]);
});
