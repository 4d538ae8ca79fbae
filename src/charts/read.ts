/**
 * The machines' drawings as the build left them, to be put into pages as they are.
 *
 * Their colours are those of chart.css, which the page brings along.
 */
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';

export type ChartName = (typeof chartNames)[number];
export const chartNames = ['asset', 'delivery'] as const;

/** The drawing as SVG. @throws {Error} when the build has not drawn it */
export function readChart(name: ChartName): string {
  return readFileSync(new URL(`${name}.svg`, builtFolder), 'utf8');
}

/** The drawings' style, for pages that show one. */
export function readChartStyle(): string {
  return readFileSync(new URL('./chart.css', import.meta.url), 'utf8');
}

/** Tests run the sources, and find what the build has made of them. */
const builtFolder = new URL(
  extname(import.meta.url) === '.ts' ? '../../dist/src/charts/' : './',
  import.meta.url,
);
