/** What a group of siblings is about, by what stands around it: the heading above it, people's names, questions. */
import { descendants, type Element } from './dom.ts';
import type { Group, Item, Outline } from './outline.ts';

/** A reader takes what it knows of a group and says whether the group was of its kind. */
export type Reader<Found> = (outline: Outline, group: Group, found: Found) => boolean;

/** How far above a group its heading may stand. */
const maxLevels = 3;

/** The heading that a group stands under; empty when there is none near. */
export function captionOf(outline: Outline, group: Group): string {
  const heading = captionElement(outline, group);
  return heading ? outline.text(heading, 120) : '';
}

/** The few words right above that heading, such as `How it works`; empty when there are none. */
export function kickerOf(outline: Outline, group: Group): string {
  const heading = captionElement(outline, group);
  const around = heading?.parent?.elements ?? [];
  const before = heading && around[around.indexOf(heading) - 1];
  if (!before || /^h[1-6]$/.test(before.tag) || !outline.isShown(before)) return '';
  const words = outline.text(before, maxKickerChars + 1);
  return words.length <= maxKickerChars ? words : '';
}

export const maxKickerChars = 40;

function captionElement({ isShown }: Outline, { parent, items }: Group): Element | undefined {
  const inside = new Set(items.map(({ element }) => element));
  let below: Element = parent;
  for (let level = 0, one: Element | null = parent; one && level < maxLevels; level += 1, one = one.parent) {
    if (one.tag === 'body') return undefined;
    const before = one === parent ? one.elements : one.elements.slice(0, one.elements.indexOf(below));
    const heading = before
      .filter((other) => !inside.has(other))
      .flatMap((other) => [other, ...descendants(other)])
      .findLast((other) => /^h[1-6]$/.test(other.tag) && isShown(other));
    if (heading) return heading;
    below = one;
  }
  return undefined;
}

/** Most of the items; of two both. */
export const isMost = (count: number, items: readonly unknown[]): boolean =>
  count >= Math.max(2, items.length * 0.6);

const roles =
  /\b(ceo|cto|cfo|coo|founder|co-?founder|chief|head|lead|manager|engineer|designer|developer|director|officer|president|professor|partner|assistant|editor|owner|leiter(?:in)?|gründer(?:in)?|geschäftsführer(?:in)?|entwickler(?:in)?|inhaber(?:in)?|directeur|directrice|gérante?|fondateur|fondatrice|direttore|responsable|kierownik|prezes)\b|代表|取締役|社長|店長|部長|院長|教授/iu;
const personName = /^(?:\p{Lu}[\p{L}'’.-]*\s){1,3}\p{Lu}[\p{L}'’.-]*$/u;

/** People of a team, or with something to say: each item a name, and what the person does or how they look. */
export function arePeople(items: readonly Item[]): boolean {
  const people = items.filter(({ element, title, text }) => {
    if (!personName.test(title)) return false;
    const rest = text.replace(title, ' ').trim();
    return roles.test(rest.slice(0, 80)) || rest.length < 40 || hasPortrait(element);
  });
  return isMost(people.length, items);
}

const portraits =
  /(^|[\s/_-])(avatars?|portraits?|profiles?|persons?|people|faces?|members?|users?|team)([\s/_.-]|\d|$)/i;

function hasPortrait(element: Element): boolean {
  for (const one of descendants(element)) {
    const isPicture = one.tag === 'img' || one.attributes.has('style') || one.elements.length === 0;
    if (isPicture && portraits.test(`${one.get('class')} ${one.get('src')}`)) return true;
  }
  return false;
}

/** Questions with their answers: some do not end as one. */
export function areQuestions(items: readonly Item[]): boolean {
  return items.filter(({ title }) => /[?？]\s*$/.test(title)).length >= Math.max(1, items.length * 0.4);
}

const pictures = new Set(['img', 'svg', 'picture', 'video']);

/** Whether something is shown beside the text: a picture, or an icon of a font. */
export function hasPicture(element: Element): boolean {
  for (const one of descendants(element)) {
    if (pictures.has(one.tag)) return true;
    if (one.tag === 'i' && one.classes.length > 0 && one.elements.length === 0) return true;
  }
  return false;
}

const cart =
  /add to (?:cart|bag|basket)|buy now|in den (?:warenkorb|einkaufswagen)|ajouter au panier|aggiungi al carrello|añadir al carrito|do koszyka|カートに入れる|加入购物车/i;

/** Goods that one puts into a cart. */
export const areGoods = (items: readonly Item[]): boolean =>
  isMost(items.filter(({ text }) => cart.test(text)).length, items);
