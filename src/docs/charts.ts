/**
 * State charts on pages: a line `[[chart asset]]` in a guide is the picture of that machine, drawn from its definition
 * at build time.
 *
 * A picture is an image of its own, to be opened alone, so it brings the colours along: those of the pages, by the
 * reader's theme.
 */
import { readFileSync } from 'node:fs';
import { type ChartName, chartNames, readChart, readChartStyle } from '../charts/read.ts';
import { type Html, html } from './html.ts';

const line = /^\[\[chart ([a-z-]+)\]\]$/gm;

/** The pictures that a guide asks for. @throws {Error} for a machine that has none */
export function chartsIn(text: string): string[] {
  return [...text.matchAll(line)].map(([, name = '']) => pictureOf(name));
}

/** A guide without the lines of charts: what stands around them is whole without the pictures. */
export function withoutCharts(text: string): string {
  return text.replace(line, '').replace(/\n{3,}/g, '\n\n');
}

/** The parts of a guide between its charts, and each chart as a figure. @param pathOf address of a picture's file */
export function splitAtCharts(text: string, pathOf: (svg: string) => string): (string | Html)[] {
  return text.split(line).map((part, index) => {
    if (index % 2 === 0) return part;
    const path = pathOf(pictureOf(part));
    return html`<figure class="chart"><a href="${path}"><img src="${path}" alt="State chart of the ${part} machine" loading="lazy"></a></figure>`;
  });
}

function pictureOf(name: string): string {
  if (!isChart(name)) throw new Error(`a guide asks for the chart ${name}, which there is not`);
  return readChart(name).replace(
    /^<svg [^>]*>/,
    (opening) => `${opening}\n<style>\n${colours}${readChartStyle()}</style>`,
  );
}

const isChart = (name: string): name is ChartName => chartNames.some((one) => one === name);

/** The pages' own, of both themes: what style.css begins with. */
const style = readFileSync(new URL('style.css', import.meta.url), 'utf8');
const colours = style.slice(style.indexOf(':root'), style.indexOf('*,'));
