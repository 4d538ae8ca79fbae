/**
 * State charts on pages: a line `[[chart asset]]` in a guide is the picture of that machine, drawn from its definition
 * at build time into src/charts. Without the picture the line is nothing.
 */
import { existsSync, readFileSync } from 'node:fs';
import { type Html, html } from './html.ts';

const line = /^\[\[chart ([a-z-]+)\]\]$/gm;

/** Where the build draws: one file for each machine. From sources, tests find the build beside them. */
const folders = ['../charts/', '../../dist/src/charts/'];

function pictureOf(name: string): string | undefined {
  const files = folders.map((folder) => new URL(`${folder}${name}.svg`, import.meta.url));
  const found = files.find((file) => existsSync(file));
  return found && readFileSync(found, 'utf8');
}

/** The names of the charts that a guide asks for, with their pictures. */
export function chartsIn(text: string): { name: string; svg: string }[] {
  return [...text.matchAll(line)].flatMap(([, name = '']) => {
    const svg = pictureOf(name);
    return svg === undefined ? [] : [{ name, svg }];
  });
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
