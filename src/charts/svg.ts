/**
 * A machine's drawing as SVG.
 *
 * Each state carries its path in `data-state`, each line the transitions that it stands for in `data-transitions`.
 * Colours are custom properties and classes alone (see chart.css): it is meant to stand within a page, whose policy
 * may refuse styles of its own.
 */
import type { Frame, Layout } from './layout.ts';
import type { ChartModel } from './model.ts';
import type { Box, Drawn, Label, Point } from './shapes.ts';

const corner = 7;

/** `name` makes ids unique where several drawings share a page. */
export function toSvg(name: string, model: ChartModel, layout: Layout): string {
  const { frames, boxes, lines, starts, width } = layout;
  const rules = ruleLabels(model, layout.height);
  const height = layout.height + (rules.length > 0 ? rules.length * ruleHeight + rulePadding : 0);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${name}-chart-title ${name}-chart-desc">`,
    `<title id="${name}-chart-title">${escaped(model.title)}</title>`,
    `<desc id="${name}-chart-desc">${escaped(describe(model))}</desc>`,
    `<defs>${(['step', 'failure', 'wait'] as const).map((kind) => marker(name, kind)).join('')}</defs>`,
    ...frames.map(frame),
    ...starts.map(({ x, y }) => `<circle class="chart-start" cx="${round(x)}" cy="${round(y)}" r="4"/>`),
    ...lines.map((one) => line(name, one)),
    ...boxes.map((one) => state(one, model)),
    ...lines.flatMap(({ label, line: of }) =>
      label ? [text(label, `chart-label chart-${of?.kind ?? 'step'}`)] : [],
    ),
    ...rules.map((label) => text(label, 'chart-purpose')),
    '</svg>\n',
  ].join('\n');
}

const ruleHeight = 18;
const rulePadding = 12;
/** What leads to more places than these leads on as its words say. */
const placesTold = 2;

/** A line for each place where rules hold. What leads nowhere is told to those who hear it alone. */
function ruleLabels({ rules }: ChartModel, y: number): Label[] {
  const leading = rules.filter(({ to }) => to.length > 0);
  return [...new Set(leading.map(({ where }) => where))].map((place, index) => {
    const told = leading
      .filter(({ where }) => where === place)
      .map(({ words, to }) => (to.length > placesTold ? words : `${words} → ${to.join(' or ')}`));
    return {
      text: `${place}: ${told.join(', ')}`,
      x: 10,
      y: y + 16 + index * ruleHeight,
      anchor: 'start',
    };
  });
}

/** For those who hear it: every way there is. */
function describe({ lines, rules }: ChartModel): string {
  const words = (path: string) => path.replaceAll('.', ' ');
  return [
    ...rules.map(
      ({ where, words: what, to }) =>
        `${where}: ${what}${to.length > 0 ? ` leads to ${to.map(words).join(' or ')}` : ''}.`,
    ),
    ...lines.map(({ from, to, words: what }) => `${words(from)} to ${words(to)}: ${what.join(', ')}.`),
  ].join(' ');
}

const marker = (name: string, kind: string): string =>
  `<marker id="${name}-${kind}" class="chart-${kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0.5 0.8 7.2 4 0.5 7.2Z"/></marker>`;

function frame({ path, name, purpose, x, y, width, height, isStage }: Frame): string {
  const middle = y + height / 2;
  const title = isStage
    ? [
        text({ text: name, x: x + 14, y: purpose ? middle - 3 : middle + 4, anchor: 'start' }, 'chart-name'),
        purpose ? text({ text: purpose, x: x + 14, y: middle + 12, anchor: 'start' }, 'chart-purpose') : '',
      ].join('')
    : text({ text: name, x: x + 16, y: y + 25, anchor: 'start' }, 'chart-name');
  return `<g class="${isStage ? 'chart-stage' : 'chart-frame'}" data-state="${path}"><rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="10"/>${title}</g>`;
}

function state({ path, name, x, y, width, height }: Box, { staying }: ChartModel): string {
  const also = staying.filter(({ at }) => at === path).map(({ words }) => words);
  const title = also.length > 0 ? `<title>${escaped(`${name}. Here also: ${also.join('; ')}`)}</title>` : '';
  return `<g class="chart-state" data-state="${path}">${title}<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="${height / 2}"/>${text({ text: name, x: x + width / 2, y: y + height / 2 + 4.5, anchor: 'middle' }, 'chart-name')}</g>`;
}

function line(name: string, { line: of, points, isArrow }: Drawn): string {
  const kind = of?.kind ?? 'step';
  const ids = of
    ? ` data-from="${of.from}" data-to="${of.to}" data-transitions="${of.transitions.join(' ')}"`
    : '';
  const end = isArrow ? ` marker-end="url(#${name}-${kind})"` : '';
  const title = of ? `<title>${escaped(of.words.join(', '))}</title>` : '';
  return `<path class="chart-line chart-${kind}" d="${pathOf(points)}"${end}${ids}>${title}</path>`;
}

/** A line with rounded corners. */
function pathOf(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return '';
  const parts = [`M${round(first.x)} ${round(first.y)}`];
  for (const [index, point] of rest.entries()) {
    const next = rest[index + 1];
    const before = points[index];
    if (!next || !before) parts.push(`L${round(point.x)} ${round(point.y)}`);
    else parts.push(bend(before, point, next));
  }
  return parts.join('');
}

function bend(before: Point, at: Point, next: Point): string {
  const from = towards(at, before);
  const to = towards(at, next);
  return `L${round(from.x)} ${round(from.y)}Q${round(at.x)} ${round(at.y)} ${round(to.x)} ${round(to.y)}`;
}

function towards(at: Point, other: Point): Point {
  const length = Math.hypot(other.x - at.x, other.y - at.y);
  const share = length === 0 ? 0 : Math.min(corner, length / 2) / length;
  return { x: at.x + (other.x - at.x) * share, y: at.y + (other.y - at.y) * share };
}

const text = ({ text: words, x, y, anchor }: Label, kind: string): string =>
  `<text class="${kind}" x="${round(x)}" y="${round(y)}"${anchor === 'middle' ? ' text-anchor="middle"' : ''}>${escaped(words)}</text>`;

const round = (length: number): number => Math.round(length * 10) / 10;

const escaped = (words: string): string =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
