/** Colours, name and logo: the likeliest candidates, or those that a model of the operator's is sure of. */
import { brandModel as limits } from '../../../schemas/limits.ts';
import type { Choose, Question } from '../choose.ts';
import { metaOf, readIdentity, titleOf } from './identity.ts';
import type { Look } from './look.ts';
import { headingsOfPage } from './messaging.ts';
import type { Palette } from './palette.ts';

export type Brand = { palette: Palette; name: string; logo: string };

type Seen = { document: { url: URL }; look: Look; palette: Palette };

export async function chooseBrand(
  home: Seen,
  choose: Choose | undefined,
  signal: AbortSignal,
): Promise<Brand> {
  const { document, look, palette } = home;
  const { names, logos } = readIdentity(look.page, document.url, look.styles);
  const [name, logo] = [names.map(({ value }) => value), logos.map(({ value }) => value)];
  const chosen = await choose?.(questionOf(home, { name, logo }), signal);
  return {
    palette: palette.withPrimary(chosen?.['primary'] ?? 0),
    name: name[chosen?.['name'] ?? 0] ?? '',
    logo: logo[chosen?.['logo'] ?? 0] ?? '',
  };
}

export async function choosePalette(
  home: Seen,
  choose: Choose | undefined,
  signal: AbortSignal,
): Promise<Palette> {
  const chosen = await choose?.(questionOf(home, {}), signal);
  return home.palette.withPrimary(chosen?.['primary'] ?? 0);
}

function questionOf({ document, look, palette }: Seen, others: Record<string, string[]>): Question {
  const { page } = look;
  const primary = palette.candidates.map(
    ({ color, evidence }) => `${color.hex} of ${evidence.map(({ role }) => role).join(', ')}`,
  );
  const facts = {
    host: document.url.hostname,
    title: titleOf(page),
    description: metaOf(page, 'description', 'og:description'),
    headings: headingsOfPage(page).join(' | '),
    background: palette.background.hex,
  };
  const cut = (text: string) => text.slice(0, limits.maxTextChars);
  const lists = Object.entries({ primary, ...others }).map(([name, list]) => [
    name,
    list.slice(0, limits.maxCandidates).map(cut),
  ]);
  return {
    page: Object.fromEntries(Object.entries(facts).map(([name, text]) => [name, cut(text)])),
    candidates: Object.fromEntries(lists),
  };
}
