/** A brand as it is edited: every field a text, empty where there is none. */
import type { BrandConfig } from '../../../schemas/project.ts';

export const colourNames = ['primary', 'secondary', 'accent', 'background', 'foreground'] as const;
export type ColourName = (typeof colourNames)[number];

export const fieldNames = [...colourNames, 'heading', 'body', 'brandName', 'logoUrl'] as const;
export type FieldName = (typeof fieldNames)[number];

export type Draft = Record<FieldName, string>;

export const labels: Record<FieldName, string> = {
  primary: 'Primary',
  secondary: 'Secondary',
  accent: 'Accent',
  background: 'Background',
  foreground: 'Text',
  heading: 'Headings',
  body: 'Text',
  brandName: 'Name',
  logoUrl: 'Logo',
};

export function toDraft({ colors, fonts, brandName, logoUrl }: BrandConfig): Draft {
  return {
    primary: colors?.primary ?? '',
    secondary: colors?.secondary ?? '',
    accent: colors?.accent ?? '',
    background: colors?.background ?? '',
    foreground: colors?.foreground ?? '',
    heading: fonts?.heading ?? '',
    body: fonts?.body ?? '',
    brandName: brandName ?? '',
    logoUrl: logoUrl ?? '',
  };
}

/** What is missing for a group to be whole: all five colours, both fonts (specification 2). */
export function missingIn(draft: Draft): FieldName[] {
  const groups: FieldName[][] = [[...colourNames], ['heading', 'body']];
  return groups.flatMap((group) => {
    const empty = group.filter((name) => draft[name] === '');
    return empty.length === group.length ? [] : empty;
  });
}

export function toBrand(draft: Draft): BrandConfig {
  const { primary, secondary, accent, background, foreground, heading, body, brandName, logoUrl } = draft;
  return {
    ...(primary === '' ? {} : { colors: { primary, secondary, accent, background, foreground } }),
    ...(heading === '' ? {} : { fonts: { heading, body } }),
    ...(brandName === '' ? {} : { brandName }),
    ...(logoUrl === '' ? {} : { logoUrl }),
  };
}

export type Difference = { name: FieldName; before: string; after: string };

export const differences = (before: Draft, after: Draft): Difference[] =>
  fieldNames
    .filter((name) => before[name] !== after[name])
    .map((name) => ({ name, before: before[name], after: after[name] }));
