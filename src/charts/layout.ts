/** Places a machine's states and leads its lines around them: ELK for the whole, src/charts/stage.ts for stages. */
import type { ElkExtendedEdge, ElkNode } from 'elkjs';
import ELK from 'elkjs/lib/elk.bundled.js';
import { type ChartLine, type ChartModel, type ChartState, isWithin } from './model.ts';
import { type Box, type Drawn, type Label, type Point, textWidth } from './shapes.ts';
import { placeStage, type Stage } from './stage.ts';

/** A composite state: its frame, and where its name stands. */
export type Frame = Box & { purpose: string | undefined; isStage: boolean };

export type Layout = {
  width: number;
  height: number;
  frames: Frame[];
  boxes: Box[];
  lines: Drawn[];
  starts: Point[];
};

const boxHeight = 30;
const startSize = 8;

/** The same model gives the same layout, always. */
export async function layOut(model: ChartModel): Promise<Layout> {
  const { lines } = model;
  const order = inOrder(stagesOf(model.root), lines);
  const stages = new Map(
    order.map((state, index) => [state.path, placeStage(state, lines, order[index + 1]?.path)]),
  );
  const wide = Math.max(0, ...[...stages.values()].map(({ width }) => width));
  for (const stage of stages.values()) stage.width = wide;

  const outer = lines.filter((line) => ![...stages.values()].some((stage) => isInside(line, stage)));
  const graph = {
    id: '',
    layoutOptions: rootOptions,
    children: model.root.states.map((state) => nodeOf(state, stages, lines)),
    edges: [
      ...startEdges(model.root, stages),
      ...chain(order, stages),
      ...outer.flatMap((line, index) => edgeOf(line, index, stages, outer)),
    ],
  };
  const placed = await new ELK.default().layout(graph);
  return collect(placed, model, outer, stages);
}

const rootOptions = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.padding': '[top=8,left=8,bottom=8,right=8]',
  'elk.spacing.nodeNode': '28',
  'elk.spacing.edgeNode': '16',
  'elk.spacing.edgeEdge': '12',
  'elk.spacing.edgeLabel': '4',
  'elk.layered.spacing.nodeNodeBetweenLayers': '26',
  'elk.layered.spacing.edgeNodeBetweenLayers': '12',
  'elk.layered.spacing.edgeEdgeBetweenLayers': '12',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
  'elk.layered.considerModelOrder.strategy': 'PREFER_NODES',
  'elk.layered.cycleBreaking.strategy': 'MODEL_ORDER',
  'elk.randomSeed': '1',
  'elk.json.edgeCoords': 'ROOT',
  'elk.json.shapeCoords': 'ROOT',
};

const isPlain = ({ states }: ChartState): boolean => states.length === 0;

/** Composite states with plain ones alone. */
function stagesOf(state: ChartState): ChartState[] {
  if (state.path !== '' && !isPlain(state) && state.states.every(isPlain)) return [state];
  return state.states.flatMap(stagesOf);
}

const isInside = ({ from, to }: ChartLine, { state }: Stage): boolean =>
  [from, to].every((path) => state.states.some((one) => one.path === path));

/**
 * Stages in the order of their work: a branch to its end before the next one. @throws {Error} where work goes in
 * circles
 */
function inOrder(stages: readonly ChartState[], lines: readonly ChartLine[]): ChartState[] {
  const before = (stage: ChartState) =>
    stages.filter((one) => lines.some(({ from, to }) => to === stage.path && isWithin(from, one.path)));
  const order: ChartState[] = [];
  while (order.length < stages.length) {
    const ready = stages.filter(
      (one) => !order.includes(one) && before(one).every((each) => order.includes(each)),
    );
    const last = order.at(-1);
    const next = ready.find((one) => last && before(one).includes(last)) ?? ready[0];
    if (!next) throw new Error('the stages have no order');
    order.push(next);
  }
  return order;
}

/** Keeps stages below each other in this order where no line does. */
const chain = (order: readonly ChartState[], stages: ReadonlyMap<string, Stage>): ElkExtendedEdge[] =>
  order.slice(1).flatMap(({ path }, index) => {
    const above = stages.get(order[index]?.path ?? '');
    if (!above || above.outs.some(({ to }) => to === path)) return [];
    const ends = { sources: [`${above.state.path}#below`], targets: [`${path}#in`] };
    return [{ id: `${path}#chain`, ...ends, layoutOptions: straight }];
  });

const straight = { 'elk.layered.priority.straightness': '20', 'elk.layered.priority.shortness': '20' };

function nodeOf(state: ChartState, stages: ReadonlyMap<string, Stage>, lines: readonly ChartLine[]): ElkNode {
  const stage = stages.get(state.path);
  if (stage) return stageNode(stage);
  if (isPlain(state)) {
    const size = { width: textWidth(state.name) + 32, height: boxHeight };
    return { id: state.path, ...size, layoutOptions: endOf(state, lines) };
  }
  return {
    id: state.path,
    layoutOptions: {
      'elk.padding': '[top=40,left=18,bottom=18,right=18]',
      'elk.layered.spacing.nodeNodeBetweenLayers': '24',
    },
    children: [
      { id: startOf(state), width: startSize, height: startSize },
      ...state.states.map((child) => nodeOf(child, stages, lines)),
    ],
  };
}

/** Where everything begins is at the top, what leads nowhere at the bottom. */
function endOf({ path, isInitial }: ChartState, lines: readonly ChartLine[]): Record<string, string> {
  if (isInitial) return { 'elk.layered.layering.layerConstraint': 'FIRST' };
  return lines.some(({ from }) => from === path) ? {} : { 'elk.layered.layering.layerConstraint': 'LAST' };
}

const startOf = ({ path }: ChartState): string => `${path}#start`;

function stageNode({ state, width, height, inX, outs }: Stage): ElkNode {
  const port = (id: string, x: number, y: number, side: string) => ({
    id: `${state.path}#${id}`,
    x,
    y,
    width: 0,
    height: 0,
    layoutOptions: { 'elk.port.side': side },
  });
  return {
    id: state.path,
    width,
    height,
    layoutOptions: { 'elk.portConstraints': 'FIXED_POS' },
    ports: [
      port('in', inX, 0, 'NORTH'),
      port('below', inX, height, 'SOUTH'),
      ...outs.map(({ to, x }) => port(to, x, height, 'SOUTH')),
    ],
  };
}

function startEdges(state: ChartState, stages: ReadonlyMap<string, Stage>): ElkExtendedEdge[] {
  return state.states
    .filter((one) => !isPlain(one) && !stages.has(one.path))
    .flatMap((one) => {
      const first = one.states.find(({ isInitial }) => isInitial);
      return first
        ? [{ id: startOf(one), sources: [startOf(one)], targets: [entryOf(first.path, stages)] }]
        : [];
    });
}

const entryOf = (path: string, stages: ReadonlyMap<string, Stage>): string =>
  stages.has(path) ? `${path}#in` : path;

/** What several states of a stage share is led on once, from the stage's border. */
function edgeOf(
  line: ChartLine,
  index: number,
  stages: ReadonlyMap<string, Stage>,
  all: readonly ChartLine[],
): ElkExtendedEdge[] {
  const stage = stageAround(line.from, stages);
  if (stage && !stage.outs.some((out) => out.line === line)) return [];
  const text = wordsOf(line, stage, all).join(' · ');
  const ends = {
    id: `${index}`,
    sources: [stage ? `${stage.state.path}#${line.to}` : line.from],
    targets: [entryOf(line.to, stages)],
  };
  // Between stages there is room beside a straight line: its label needs no place of its own.
  if (isStraightOn(line, stage)) return [{ ...ends, labels: [{ text }], layoutOptions: straight }];
  return [{ ...ends, labels: [{ text, width: textWidth(text, 'label') + 4, height: 15 }] }];
}

const isStraightOn = (line: ChartLine, stage: Stage | undefined): boolean =>
  stage?.outs.some((out) => out.line === line && out.x === stage.inX) === true;

const stageAround = (path: string, stages: ReadonlyMap<string, Stage>): Stage | undefined =>
  [...stages.values()].find(({ state }) => state.states.some((one) => one.path === path));

function wordsOf(line: ChartLine, stage: Stage | undefined, all: readonly ChartLine[]): string[] {
  if (!stage) return line.words;
  const together = all.filter(({ from, to }) => to === line.to && stageAround(from, new Map([['', stage]])));
  return [...new Set(together.flatMap(({ words }) => words))];
}

function collect(
  placed: ElkNode,
  model: ChartModel,
  outer: readonly ChartLine[],
  stages: ReadonlyMap<string, Stage>,
): Layout {
  const layout: Layout = {
    width: Math.ceil(placed.width ?? 0),
    height: Math.ceil(placed.height ?? 0),
    frames: [],
    boxes: [],
    lines: [],
    starts: [],
  };
  const states = new Map(allStates(model.root).map((state) => [state.path, state]));
  for (const node of allNodes(placed)) place(node, states.get(node.id), stages.get(node.id), layout);
  for (const edge of allNodes(placed).flatMap(({ edges = [] }) => edges)) {
    if (!edge.id.endsWith('#chain')) layout.lines.push(drawnOf(edge, outer[Number(edge.id)]));
  }
  return layout;
}

const allStates = (state: ChartState): ChartState[] => [state, ...state.states.flatMap(allStates)];
const allNodes = (node: ElkNode): ElkNode[] => [node, ...(node.children ?? []).flatMap(allNodes)];

function place(node: ElkNode, state: ChartState | undefined, stage: Stage | undefined, layout: Layout): void {
  const { x = 0, y = 0, width = 0, height = 0 } = node;
  if (node.id.includes('#')) layout.starts.push({ x: x + width / 2, y: y + height / 2 });
  if (!state || state.path === '') return;
  const box = { path: state.path, name: state.name, x, y, width, height };
  if (isPlain(state)) layout.boxes.push(box);
  else layout.frames.push({ ...box, purpose: state.purpose, isStage: stage !== undefined });
  if (!stage) return;
  const moved = <Shape extends Point>(one: Shape): Shape => ({ ...one, x: one.x + x, y: one.y + y });
  layout.boxes.push(...stage.boxes.map(moved));
  layout.lines.push(
    ...stage.lines.map((drawn) => ({
      ...drawn,
      points: drawn.points.map(moved),
      ...(drawn.label ? { label: moved(drawn.label) } : {}),
    })),
  );
}

function drawnOf(edge: ElkExtendedEdge, line: ChartLine | undefined): Drawn {
  const points = (edge.sections ?? []).flatMap(({ startPoint, bendPoints = [], endPoint }) => [
    startPoint,
    ...bendPoints,
    endPoint,
  ]);
  const drawn: Drawn = { points, isArrow: !edge.targets.some((id) => id.endsWith('#in')) };
  if (line) drawn.line = line;
  const label = labelOf(edge, points);
  if (label) drawn.label = label;
  return drawn;
}

function labelOf({ labels = [] }: ElkExtendedEdge, points: readonly Point[]): Label | undefined {
  const [label] = labels;
  if (label?.text === undefined) return undefined;
  const { text, width, x = 0, y = 0 } = label;
  if (width) return { text, x: x + 2, y: y + 11, anchor: 'start' };
  const [start, end] = points;
  return { text, x: (start?.x ?? 0) + 9, y: ((start?.y ?? 0) + (end?.y ?? 0)) / 2 + 4, anchor: 'start' };
}
