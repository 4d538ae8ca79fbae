/** Code examples and what language they are in, told from the code where its page does not say. */
import t from 'tap';
import { readCode } from '../../src/brand/site/code.ts';
import { parsePage } from '../../src/brand/site/dom.ts';
import { guessLanguage } from '../../src/brand/site/language.ts';
import { outline } from '../../src/brand/site/outline.ts';

function codeOn(body: string) {
  const page = parsePage(`<!doctype html><body><main><h1>Acme</h1>${body}</main>`);
  return readCode(outline(page, () => true)).map(({ language, code }) => [language, code]);
}

const written: Record<string, string[]> = {
  bash: [
    'npm install acme',
    '$ bower install acme --save',
    '# install it\n$ ./configure && make',
    'composer require acme/acme',
    'export ACME_KEY=1',
    '% acme serve',
  ],
  html: [
    '<link rel="stylesheet" href="acme.css">\n<script src="//cdn.example/acme.js"></script>',
    '<!-- Gallery -->\n<a rel="one" href="1.jpg"></a>',
    '[...]\n<script src="acme.js"></script>',
    '// Putting one on an image:\n<img src="a.jpg">',
    '<!--[if lte IE 7]>\n<script src="a.js"></script>\n<![endif]-->',
    'data-acme="input[type=button], input[type=submit]"',
    '<script>\nvar a = new Acme();\n</script>',
  ],
  css: [
    '.button {\n  color: #fff;\n}',
    '/* wide screens */\n@media (min-width: 40em) {\n  .a { float: left; }\n}',
    '.turned {\n  transform: rotate(15deg);\n}',
    'a:not(.b) > [data-x="1"] { margin: 0 }',
    '.theme-yours { ... }',
    ':root {\n  --main: #06c;\n}',
    'color: red;\nbackground: #fff;',
  ],
  scss: [
    '.a {\n  @include acme($size: 2px);\n}',
    '.a {\n  &:hover { color: red }\n}',
    '$gap: 4px;\n.a { margin: $gap }',
  ],
  less: ['@gap: 4px;\n.a { margin: @gap }'],
  mermaid: ['graph TD;\n  A-->B;', 'sequenceDiagram\n  A->>B: Hello'],
  javascript: [
    "$('input').acme({\n  hover: false,\n  cursor: true\n});",
    "$.alert({\n  title: 'Hello',\n});",
    'new Acme(element, {\n  width: 70\n});',
    'acme.timeout = 5000 // default: 2500',
    "import {page} from 'acme'\n\nexport let route = page('./Site')",
    'export default function Site() {\n  return <div>Hello</div>\n}',
    'options: {\n  font: "10px sans-serif",\n  labels: [100, 130]\n}',
    "{\n  // which of them, both by default\n  handle: ''\n}",
    '[].forEach.call(all, function (one) {\n  one.go();\n});',
    'acme( {\n\tagain: true\n} );',
    'a instanceof B; // true',
    '// this is enough',
  ],
  typescript: ['interface Acme {\n  name: string;\n}', 'const a = (b: string): number => 1;'],
  coffeescript: ["acme.on 'done', (it) ->\n  alert it"],
  json: ['{\n  "name": "acme",\n  "private": true\n}', '[\n  {\n    "id": 1\n  }\n]', '["a", "b"]'],
  python: ['from acme import go\ngo()', 'def go(a):\n    return a'],
  php: ['<?php echo acme(); ?>'],
  ruby: ["require 'acme'\nAcme.go", 'def go(options = {})\n  options[:a] ||= 1\nend'],
  go: ['package main\n\nfunc main() {}'],
  rust: ['fn main() {\n  let mut a = 1;\n}'],
  java: ['public class Acme {\n}'],
  csharp: ['using Acme;\n\nvar a = new Client();'],
  sql: ['SELECT name\nFROM assets'],
  yaml: ['name: acme\non:\n  push'],
  text: [
    'Internet Explorer 6+\nSafari\nFirefox',
    'https://api.example/v1',
    'acme/\n├── dist/\n│   └── acme.css',
  ],
};

t.test('a language is told by its signs', async (t) => {
  for (const [language, all] of Object.entries(written))
    for (const code of all) t.equal(guessLanguage(code), language, code);
});

t.test('what the page says goes before what the code looks like', async (t) => {
  const block = (outer: string, inner = '') =>
    codeOn(`<div class="${outer}"><pre><code class="${inner}">meyer-reset()</code></pre></div>`)[0]?.[0];
  t.equal(block('', 'language-stylus'), 'stylus');
  t.equal(block('', 'lang-js'), 'javascript');
  t.equal(block('highlight-source-rb'), 'ruby');
  t.equal(block('highlight ruby'), 'ruby');
  t.equal(block('', 'hljs coffeescript language-generic'), 'javascript');
  t.equal(block('highlight me'), 'javascript', 'a word that is no language');
  t.equal(block('language-markup'), 'javascript', 'without a tag');
});

t.test('each block is shown once, whole and without what is not its code', async (t) => {
  const body =
    '<pre><button>Copy</button><span class="line">$ npm i acme</span></pre><pre>$ npm i acme</pre><p>Then <code>go</code>.</p>';
  t.strictSame(codeOn(body), [['bash', '$ npm i acme']]);
});
