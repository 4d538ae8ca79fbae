/** In which language a piece of code is written, where its page does not say. */

const maxChars = 1_000;

/** What people call a language that goes by a shorter name. */
export const languageNames: Record<string, string> = {
  js: 'javascript',
  jsx: 'javascript',
  ts: 'typescript',
  tsx: 'typescript',
  sh: 'bash',
  shell: 'bash',
  console: 'bash',
  zsh: 'bash',
  py: 'python',
  rb: 'ruby',
  yml: 'yaml',
  markup: 'html',
  xml: 'html',
  rs: 'rust',
  'c++': 'cpp',
  'c#': 'csharp',
  cs: 'csharp',
  golang: 'go',
};
export const knownLanguages = new Set(
  'javascript typescript bash python ruby yaml html css scss json go rust java php sql csharp cpp kotlin swift'.split(
    ' ',
  ),
);

const commands =
  'npm npx yarn pnpm bun bower jspm component volo composer gem bundle pip pip3 pipenv poetry conda brew port apt apt-get yum dnf pacman apk git hg svn curl wget docker docker-compose kubectl helm cargo rustup go node deno php python python3 ruby rails rake make cmake gulp grunt meteor dotnet nuget mvn gradle sudo cd mkdir cp mv rm ls cat echo source chmod ssh scp tar unzip open vim'.replaceAll(
    ' ',
    '|',
  );
/** A prompt, or a command with what it is given: not a call, an assignment or a sentence. */
const command = new RegExp(`^\\s*(?:[$%>] [\\w.~/-]+|export \\w+=|(?:${commands}) (?![=(.:])[\\w@.~/:"'-]+)`);

/** A tag at the beginning of a line. */
const tag = /^\s*<\/?[a-z][\w-]*(?:[\s/>]|$)/i;
const attribute = /^\s*(?:data-)?[a-z][\w-]*=(?:"[^"]*"|'[^']*')\s*$/i;

/** Pseudo-classes and attributes apart, a selector has no brackets, quotes or signs of an assignment. */
const ruleSet =
  /^\s*(?:@[\w-]+[^{};]*|(?:[^{}()=;'"[\]$]|:[\w-]+\([^)]*\)|\[[^\]]*\])+)(?<![:,]\s*)\{\s*(?:\.{3}|…|\}|[^{}]*[\w-]\s*:[^{}]+|[^{}]+\{[^{}]*:)/;
const declarations = /^(?:\s*--?[\w-]+|\s*[a-z-]+)\s*:\s*[^;{}]+;(?:\s*[a-z-]+\s*:\s*[^;{}]+;)*\s*$/;

/** What the first line of a diagram says of its kind. */
const diagram =
  /^ ?(?:(?:graph|flowchart) (?:TB|TD|BT|RL|LR)\b|(?:sequenceDiagram|classDiagram|stateDiagram(?:-v2)?|erDiagram|gantt|gitGraph:?) ?$)/;

/** By the first sign that a language gives, of code without its comments. */
const signs: [language: string, isOf: (code: string, lines: string[]) => boolean][] = [
  ['php', (code) => code.includes('<?php')],
  ['html', (code, lines) => /^\s*<!doctype/i.test(code) || startsWithTag(lines) || attribute.test(code)],
  ['bash', (_, [first = '']) => command.test(first)],
  ['mermaid', (_, [first = '']) => diagram.test(first)],
  ['json', isJson],
  [
    'python',
    (code) => /^\s*(?:def \w+\(.*\).*:|class \w+.*:|from \w[\w.]* import |import \w+$|print\()/m.test(code),
  ],
  ['go', (code) => /^\s*(?:package \w+$|func (?:\(\w+ \*?\w+\) )?\w*\()/m.test(code)],
  ['rust', (code) => /\bfn \w+\(|\blet mut |\bimpl \w+/.test(code)],
  ['csharp', (code) => /^\s*(?:using [\w.]+;|namespace [\w.]+)/m.test(code)],
  ['java', (code) => /\bpublic (?:class|static|interface)\b/.test(code)],
  ['sql', (code) => /^\s*(?:select\s.+\sfrom|insert into|create table|update \w+ set)\s/ims.test(code)],
  ['ruby', isRuby],
  ['scss', (code) => /@(?:include|mixin|extend|use)\b|^\s*\$[\w-]+\s*:|[{;]\s*&[:.\s-]/m.test(code)],
  ['less', (code) => /^\s*@[\w-]+\s*:[^{]*;/m.test(code)],
  [
    'typescript',
    (code) =>
      /^\s*(?:export )?(?:interface|type) \w+|\w\??: (?:string|number|boolean)\b|^import type /m.test(code),
  ],
  ['css', (code) => ruleSet.test(code) || declarations.test(code)],
  ['coffeescript', (code) => /(?:^|[\s)])[-=]>\s*$/m.test(code) && !/[;{]\s*$/m.test(code)],
  ['javascript', (code) => javascript.test(code)],
  ['yaml', (code) => /^[\w-]+:(?:\s|$)/m.test(code) && !/[;{}]/.test(code)],
];

/** Words, calls, assignments and members of objects. */
const javascript =
  /\b(?:const|let|var|function|import|export|require|return|new|typeof|instanceof)\b|=>|[\w$\])]\(.*\)|[\w$\])] ?\(\s*[{[]?\s*$|[\w$\])][ \t]*=[ \t]*\S|^\s*[{[]\s*['"]?[\w$]+['"]?\s*:|^\s*['"]?[\w$]+['"]?\s*:\s*[{['"\d]/m;
/** Comments of one line that no other language on a page of the web has. */
const slashes = /(?:^|\s)\/\/(?!\S*\.\w)/m;

/**
 * The language of a piece of code, by the first sign that it gives; `text` when there is none. Of a long one the
 * beginning decides.
 */
export function guessLanguage(code: string): string {
  const begin = code.slice(0, maxChars);
  const lines = begin
    .replace(/<!?--[\s\S]*?(?:-->|$)/g, '')
    .replace(/\/\*[\s\S]*?(?:\*\/|$)/g, '')
    .split('\n')
    // Of white space no more than one: what is looked for at the beginning of a line is found there.
    .map((line) => line.replace(/\s+/g, ' ').replace(/(?:^| )\/\/.*$|^ ?#(?: .*)?$/, ''))
    .filter((line) => line.trim() !== '');
  const bare = lines.join('\n');
  const found = signs.find(([, isOf]) =>
    isOf(
      bare,
      lines.filter((line) => /\w/.test(line)),
    ),
  )?.[0];
  if (found !== undefined) return found;
  if (/^\s*<!?--/.test(begin)) return 'html';
  return slashes.test(begin) ? 'javascript' : 'text';
}

/** What stands before the first tag, an ellipsis say, is no program. */
function startsWithTag([first = '', second = '']: string[]): boolean {
  return tag.test(first) || (tag.test(second) && /^\W*\w*\W*$/.test(first));
}

/** Also with comments and an ellipsis in it. */
function isJson(code: string): boolean {
  if (!/^\s*[{[]/.test(code)) return false;
  return /^\s*\{\s*"[^"\n]+"\s*:/.test(code) || /^\s*\[\s*(?:\{\s*)?(?:"[^"\n]*"|[\d.]+)\s*[:,\]]/.test(code);
}

function isRuby(code: string): boolean {
  if (/[;{]\s*$/m.test(code)) return false;
  return /^ ?(?:require|gem) ['"]|\bdo \|/m.test(code) || (/^ ?def \w+/m.test(code) && /^ ?end$/m.test(code));
}
