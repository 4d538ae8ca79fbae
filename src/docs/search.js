/**
 * The one script of the documentation: search (/ or Ctrl-K), and buttons that copy examples. Pages are whole without
 * it. The index is loaded when the search is first opened.
 */
const script = document.currentScript;
const button = document.querySelector('.find');
const maxResults = 12;
let dialog;
let entries;

button.hidden = false;
button.addEventListener('click', open);
addEventListener('keydown', (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? '');
  const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey;
  const isCommand = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey);
  if (isTyping || !(isSlash || isCommand)) return;
  event.preventDefault();
  void open();
});

for (const block of document.querySelectorAll('pre')) addCopy(block);

async function open() {
  dialog ??= build();
  dialog.showModal();
  dialog.querySelector('input').select();
  if (entries) return;
  try {
    const answer = await fetch(script.dataset.index);
    if (!answer.ok) throw new Error(String(answer.status));
    entries = (await answer.json()).map(([path, anchor, title, heading, text]) => ({
      href: anchor ? `${path}#${anchor}` : path,
      title,
      heading,
      text,
      low: [`${title} ${heading}`.toLowerCase(), text.toLowerCase()],
    }));
    show();
  } catch {
    say('The search cannot be loaded. Are you offline?');
  }
}

function build() {
  const made = make('dialog', { className: 'search', ariaLabel: 'Search the documentation' });
  // Not of type search: there Escape would clear the text first.
  const input = make('input', { type: 'text', placeholder: 'Search the documentation', autocomplete: 'off' });
  for (const [name, value] of Object.entries({
    role: 'combobox',
    'aria-label': 'Search the documentation',
    'aria-expanded': 'false',
    'aria-controls': 'found',
    'aria-autocomplete': 'list',
  }))
    input.setAttribute(name, value);
  const list = make('div', { id: 'found' });
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Results');
  const status = make('p', { className: 'status' });
  status.setAttribute('role', 'status');
  made.append(input, list, status);
  document.body.append(made);
  input.addEventListener('input', show);
  input.addEventListener('keydown', onKey);
  made.addEventListener('click', (event) => {
    if (event.target === made) made.close();
  });
  return made;
}

function onKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const options = [...dialog.querySelectorAll('[role=option]')];
  const at = options.findIndex((one) => one.ariaSelected === 'true');
  if (step && options.length > 0) {
    event.preventDefault();
    select(options, (at + step + options.length) % options.length);
  }
  if (event.key === 'Enter' && options.length > 0) {
    event.preventDefault();
    options[Math.max(at, 0)].click();
  }
}

function select(options, index) {
  for (const [place, option] of options.entries()) option.ariaSelected = String(place === index);
  options[index].scrollIntoView({ block: 'nearest' });
  dialog.querySelector('input').setAttribute('aria-activedescendant', options[index].id);
}

/** Finds and shows what holds all words; titles count more than texts, beginnings of words more than middles. */
function show() {
  if (!entries) return;
  const input = dialog.querySelector('input');
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0 ? [] : rank(words).slice(0, maxResults);
  const list = dialog.querySelector('[role=listbox]');
  list.replaceChildren(...found.map((entry, index) => row(entry, words, index)));
  input.setAttribute('aria-expanded', String(found.length > 0));
  input.removeAttribute('aria-activedescendant');
  if (found.length > 0) select([...list.children], 0);
  if (words.length === 0) say('Words of a title, an endpoint, an error code…');
  else say(found.length === 0 ? 'Nothing found.' : `${found.length} found`, found.length > 0);
}

function rank(words) {
  const scored = [];
  for (const entry of entries) {
    let sum = 0;
    for (const word of words) {
      const score = scoreOf(entry, word);
      if (score === 0) {
        sum = 0;
        break;
      }
      sum += score;
    }
    if (sum > 0) scored.push([sum + (entry.heading === '' ? 2 : 0), entry]);
  }
  return scored.sort((one, other) => other[0] - one[0]).map(([, entry]) => entry);
}

function scoreOf({ low: [head, text] }, word) {
  const at = head.indexOf(word);
  if (at >= 0) return at === 0 || /[^a-z0-9]/.test(head[at - 1]) ? 20 : 8;
  const inText = text.indexOf(word);
  if (inText < 0) return 0;
  return inText === 0 || /[^a-z0-9]/.test(text[inText - 1]) ? 4 : 1;
}

function row({ href, title, heading, text }, words, index) {
  const link = make('a', { id: `found-${index}`, href, tabIndex: -1 });
  link.setAttribute('role', 'option');
  link.ariaSelected = 'false';
  link.append(
    make('strong', { textContent: heading || title }),
    make('small', { textContent: heading ? title : '' }),
    make('span', { textContent: excerpt(text, words[0]) }),
  );
  link.addEventListener('click', () => dialog.close());
  return link;
}

/** The text around a word. */
function excerpt(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at > 0 ? '…' : '') + text.slice(at, at + 120) + (text.length > at + 120 ? '…' : '');
}

function say(text, isQuiet = false) {
  const status = dialog.querySelector('.status');
  status.textContent = text;
  status.classList.toggle('quiet', isQuiet);
}

function addCopy(block) {
  if (!navigator.clipboard) return;
  const copy = make('button', { type: 'button', className: 'copy', textContent: 'Copy' });
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.querySelector('code').textContent);
    copy.textContent = 'Copied';
    setTimeout(() => {
      copy.textContent = 'Copy';
    }, 1500);
  });
  const frame = make('div', { className: 'copyable' });
  block.replaceWith(frame);
  frame.append(block, copy);
}

function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}
