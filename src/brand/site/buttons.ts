/** What is drawn as a button, by its styles and its name. */
import type { Element } from './dom.ts';
import type { Look, Seen } from './look.ts';
import { isNamedButton } from './messaging.ts';
import type { Style } from './style.ts';
import { lengthOf, splitAt } from './values.ts';

/** What is named a button and drawn as a link is one, where others of its name are drawn as buttons. */
export function createIsButton(look: Look): (element: Element) => boolean {
  const isOther = ({ element }: Seen) =>
    element.tag === 'a' && isNamedButton(element) && !isPlain(look, element);
  const areDrawn = look.seen.some(isOther);
  return (element) =>
    isFilled(look, element) || (isNamedButton(element) && !(areDrawn && isPlain(look, element)));
}

/** A link that looks like a button: filled, with some room. */
function isFilled({ styles }: Look, element: Element): boolean {
  const style = styles.of(element);
  return (
    element.tag === 'a' &&
    (style.background.alpha > 0.5 ||
      style.gradient.length > 0 ||
      (style.border !== undefined && style.radius > 0)) &&
    hasRoom(style)
  );
}

/** A link with nothing around or behind it. */
function isPlain({ styles }: Look, element: Element): boolean {
  const style = styles.of(element);
  const shadow = style.value('box-shadow') ?? 'none';
  const isFilled = style.background.alpha > 0 || style.gradient.length > 0 || style.hasImage;
  return element.tag === 'a' && !isFilled && style.border === undefined && shadow === 'none';
}

/** A colour close behind the words of a line marks them, as a pen does. */
function hasRoom(style: Style): boolean {
  if (!/^(?:inline)?$/.test(style.value('display') ?? '')) return true;
  if (/flex|grid/.test(style.parent?.value('display') ?? '')) return true;
  const [top, right = top] = splitAt(style.value('padding') ?? '', ' ');
  const side = style.value('padding-left') ?? right;
  return side === undefined || (lengthOf(side, style.fontSize) ?? minRoomPx) >= minRoomPx;
}

const minRoomPx = 5;
