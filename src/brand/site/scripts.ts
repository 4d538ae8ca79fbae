/** Whether a page is only the place that its scripts draw something in. */
import { closest, type Element, type Page, TextNode, textOf } from './dom.ts';

/** Text that a page without its scripts shows all the same: a title, "loading". */
const maxChars = 120;
/** Of a script in the page itself that could make one. */
const minScriptChars = 200;

export function isMadeByScripts({ all, body }: Page): boolean {
  if (!body || textOf(body, isSeen, maxChars * 2).length > maxChars) return false;
  // Pictures and frames are something to see, too; a mark in the middle of a waiting page is not.
  const shown = all.filter(({ tag }) => /^(img|iframe|video|object|frame)$/.test(tag));
  return shown.length <= 1 && all.some(isScript);
}

const isSeen = ({ tag, attributes }: Element) => tag !== 'noscript' && !attributes.has('hidden');

function isScript(element: Element): boolean {
  if (element.tag !== 'script' || /json|template/i.test(element.get('type'))) return false;
  if (element.get('src') !== '') return true;
  const text = element.children.map((one) => (one instanceof TextNode ? one.text : '')).join('');
  return text.length >= minScriptChars && closest(element, ({ tag }) => tag === 'body') !== undefined;
}
