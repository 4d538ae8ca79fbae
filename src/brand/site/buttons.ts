/** What is drawn as a button, by its styles and its name. */
import type { Element } from './dom.ts';
import type { Look, Seen } from './look.ts';
import { isNamedButton } from './messaging.ts';
import type { Style } from './style.ts';
import { lengthOf, splitAt } from './values.ts';

export const isDrawnAsButton = (look: Look, element: Element): boolean =>
  isFilled(look, element) || (isNamedButton(element) && !isBare(look, element));

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

/** Named as a button and drawn as a link, where others of its name are filled. */
function isBare({ styles, seen }: Look, element: Element): boolean {
  const isPlain = (one: Element) => {
    const style = styles.of(one);
    const shadow = style.value('box-shadow') ?? 'none';
    const isFilled = style.background.alpha > 0 || style.gradient.length > 0 || style.hasImage;
    return one.tag === 'a' && !isFilled && style.border === undefined && shadow === 'none';
  };
  const isOther = ({ element: one }: Seen) => one.tag === 'a' && isNamedButton(one) && !isPlain(one);
  return isPlain(element) && seen.some(isOther);
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
