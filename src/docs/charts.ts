/**
 * State charts on pages: a line `[[chart asset]]` in a guide is the picture of that machine, drawn from its definition
 * at build time into src/charts. Without the picture the line is nothing.
 */
import { existsSync, readFileSync } from 'node:fs';
import { type Html, html } from './html.ts';

const line = /^\[\[chart ([a-z-]+)\]\]$/gm;

/** Where pictures are: one file for each machine, with colours for light and dark of its own. */
const fileOf = (name: string): URL => new URL(`../charts/${name}.svg`, import.meta.url);

/** The names of the charts that a guide asks for, with their pictures. */
export function chartsIn(text: string): { name: string; svg: string }[] {
  return [...text.matchAll(line)].flatMap(([, name = '']) =>
    existsSync(fileOf(name)) ? [{ name, svg: readFileSync(fileOf(name), 'utf8') }] : [],
  );
}

/** A guide without the lines of charts: what stands around them is whole without the pictures. */
export function withoutCharts(text: string): string {
  return text.replace(line, '').replace(/\n{3,}/g, '\n\n');
}

/** The parts of a guide between its charts, and each chart as a figure. @param pathOf address of a picture's file */
export function splitAtCharts(text: string, pathOf: (svg: string) => string): (string | Html)[] {
  const known = new Map(chartsIn(text).map(({ name, svg }) => [name, svg]));
  return text.split(line).map((part, index) => {
    if (index % 2 === 0) return part;
    const svg = known.get(part);
    return svg === undefined
      ? ''
      : html`<figure class="chart"><a href="${pathOf(svg)}"><img src="${pathOf(svg)}" alt="State chart of the ${part} machine" loading="lazy"></a></figure>`;
  });
}
