/**
 * The inside of a composite state whose states are all plain: its name at the left, the states of its work in a
 * row, and above them the state that waits for the next attempt.
 *
 *   ┌──────────────────────────────────────────────┐
 *   │           ┌──▶     ( retrying ) ◀╌╌╌┐        │
 *   │ name      ▼            ▲            ╎        │
 *   │  ──▶ ( submitting ) ──▶( waiting )──▶( copying )
 *   └───────────────────────────┴─────────────┴────┘
 */
import type { ChartLine, ChartState } from './model.ts';
import { type Box, type Drawn, type Point, textWidth } from './shapes.ts';

export type Stage = {
  state: ChartState;
  width: number;
  height: number;
  /** Boxes and lines inside, from the stage's upper left corner. */
  boxes: Box[];
  lines: Drawn[];
  /** Where lines enter and leave: at the upper and the lower border. */
  inX: number;
  outs: { to: string; startX: number; x: number; line: ChartLine }[];
};

const namesWidth = 98;
const side = 14;
const entry = 22;
const boxHeight = 28;
const waitTop = 10;
const rowTop = 58;
const failureY = waitTop + boxHeight + 9;
const joinY = rowTop + boxHeight + 9;
const stageHeight = joinY + 13;
const minGap = 26;
const labelGap = 26;
const outSpread = 14;

/** `next` is the stage that stands below. @throws {Error} for a state that no stage can show: nothing is left out silently */
export function placeStage(state: ChartState, lines: readonly ChartLine[], next: string | undefined): Stage {
  const inner = lines.filter(({ from, to }) => isChild(from, state) && isChild(to, state));
  const waiting = inner.filter(({ kind }) => kind === 'wait').map(({ from }) => from);
  const row = state.states.filter(({ path }) => !waiting.includes(path));
  const rest = state.states.filter(({ path }) => waiting.includes(path));
  if (rest.length > 1 || row[0]?.isInitial !== true)
    throw new Error(`${state.path} cannot be drawn as a stage`);

  const boxes = placeRow(row, inner);
  const rowEnd = boxes.reduce((end, { x, width }) => Math.max(end, x + width), 0);
  const middle = (namesWidth + entry + rowEnd) / 2;
  boxes.push(...rest.map((one) => placeWaiting(one, row.length === 1 ? rowEnd + minGap : middle)));

  const at = (path: string): Box => {
    const box = boxes.find((one) => one.path === path);
    if (!box) throw new Error(`${path} is not in ${state.path}`);
    return box;
  };
  const width = boxes.reduce((end, { x, width: own }) => Math.max(end, x + own), 0) + side;
  const leaving = lines.filter(({ from, to }) => isChild(from, state) && !isChild(to, state));
  const outs = placeOuts(leaving, at, next);
  const first = at(row[0].path);
  const enter = { x: namesWidth, y: rowTop + boxHeight / 2 };
  return {
    state,
    width,
    height: stageHeight,
    boxes,
    inX: namesWidth,
    outs,
    lines: [
      { points: [{ x: namesWidth, y: 0 }, enter, { x: first.x, y: enter.y }], isArrow: true },
      ...inner.map((line) => draw(line, at, row.length)),
      ...leaving.map((line) => drawOut(line, at(line.from), outs)),
    ],
  };
}

const isChild = (path: string, { states }: ChartState): boolean => states.some((one) => one.path === path);

function placeRow(row: readonly ChartState[], inner: readonly ChartLine[]): Box[] {
  let x = namesWidth + entry;
  return row.map(({ path, name }, index) => {
    const width = textWidth(name) + 24;
    const box = { path, name, x, y: rowTop, width, height: boxHeight };
    const next = inner.find(({ from, to }) => from === path && to === row[index + 1]?.path);
    x += width + Math.max(minGap, next ? textWidth(next.words.join(', '), 'label') + labelGap : 0);
    return box;
  });
}

function placeWaiting({ path, name }: ChartState, middle: number): Box {
  const width = textWidth(name) + 24;
  return { path, name, x: middle, y: waitTop, width, height: boxHeight };
}

/** One way out for each state that follows: straight above the way into the next stage, or below what leads there. */
function placeOuts(
  leaving: readonly ChartLine[],
  at: (path: string) => Box,
  next: string | undefined,
): Stage['outs'] {
  const targets = [...new Set(leaving.map(({ to }) => to))];
  return targets.flatMap((to, index) => {
    const line = leaving.findLast((one) => one.to === to);
    if (!line) return [];
    const startX = center(at(line.from)) + (index - (targets.length - 1) / 2) * outSpread;
    return [{ to, startX, x: to === next ? namesWidth : startX, line }];
  });
}

const center = ({ x, width }: Box): number => x + width / 2;

function draw(line: ChartLine, at: (path: string) => Box, rowLength: number): Drawn {
  const from = at(line.from);
  const to = at(line.to);
  if (line.kind === 'wait')
    return { line, points: back(from, to), isArrow: true, label: above(line, from, to) };
  if (line.kind === 'failure')
    return { line, points: rowLength === 1 ? up(from, to) : rise(from, to), isArrow: true };
  const y = from.y + boxHeight / 2;
  const label = {
    text: line.words.join(', '),
    x: (from.x + from.width + to.x) / 2 - 3,
    y: y - 6,
    anchor: 'middle' as const,
  };
  return {
    line,
    points: [
      { x: from.x + from.width, y },
      { x: to.x, y },
    ],
    isArrow: true,
    label,
  };
}

/** From the wait to the first state: to the left, and down. */
function back(from: Box, to: Box): Point[] {
  const y = from.y + boxHeight / 2;
  const x = to.x + 16;
  return [
    { x: from.x, y },
    { x, y },
    { x, y: to.y },
  ];
}

const above = ({ words }: ChartLine, from: Box, to: Box) => ({
  text: words.join(', '),
  x: Math.max(to.x + 24, from.x - textWidth(words.join(', '), 'label') - 12),
  y: from.y + boxHeight / 2 - 6,
  anchor: 'start' as const,
});

/** Up to the common rail, along it, and into the wait from below. */
function rise(from: Box, to: Box): Point[] {
  const own = center(from);
  const into = Math.min(Math.max(own, to.x + 12), to.x + to.width - 12);
  if (own === into)
    return [
      { x: own, y: from.y },
      { x: into, y: to.y + boxHeight },
    ];
  return [
    { x: own, y: from.y },
    { x: own, y: failureY },
    { x: into, y: failureY },
    { x: into, y: to.y + boxHeight },
  ];
}

/** Beside a single state: right, and up. */
function up(from: Box, to: Box): Point[] {
  const y = from.y + boxHeight / 2;
  return [
    { x: from.x + from.width, y },
    { x: center(to), y },
    { x: center(to), y: to.y + boxHeight },
  ];
}

function drawOut(line: ChartLine, from: Box, outs: Stage['outs']): Drawn {
  const out = outs.find(({ to }) => to === line.to);
  if (!out) throw new Error(`no way out to ${line.to}`);
  const isLast = out.line === line;
  const own = isLast ? out.startX : center(from);
  const bottom = { x: own, y: from.y + boxHeight };
  const exit = { x: out.x, y: stageHeight };
  if (own === out.x) return { line, points: [bottom, exit], isArrow: false };
  return { line, points: [bottom, { x: own, y: joinY }, { x: out.x, y: joinY }, exit], isArrow: false };
}
