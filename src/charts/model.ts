/**
 * What a machine's drawing shows, read from the machine itself through xstate's directed graph.
 *
 * Every transition of the machine is in the drawing exactly once, in one of these ways:
 *
 *   line    from state to state; several between the same two share one. More than two that lead out of a state from
 *           within it, to the same place, begin at its border: whatever happens inside, this may follow
 *   rule    what the machine itself accepts in every state (a state's own form of it, with other work to do, counts
 *           as the same), and what its words tell of many states at once
 *   staying what leads nowhere: work asked for again, and the like
 */
import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { toDirectedGraph } from 'xstate/graph';
import { type ChartWords, type LineKind, tell } from './words.ts';

export type ChartState = {
  /** As documents and the API name it: `pending.stage1.waiting`; empty for the machine. */
  path: string;
  name: string;
  purpose: string | undefined;
  isInitial: boolean;
  /** What happens here without leading anywhere, in words. */
  staying: string[];
  states: ChartState[];
};

export type ChartLine = { from: string; to: string; words: string[]; kind: LineKind; transitions: string[] };

/** `where` it holds, in words; `to` is where it leads, nothing for what leads nowhere. */
export type ChartRule = { where: string; words: string; to: string[]; transitions: string[] };

export type ChartModel = {
  title: string;
  root: ChartState;
  lines: ChartLine[];
  rules: ChartRule[];
  /** Every transition that stays where it is, by state. */
  staying: { at: string; words: string; transitions: string[] }[];
};

/** Ids in `transitions` are those of xstate's directed graph. */
export function readMachine(machine: AnyStateMachine, words: ChartWords): ChartModel {
  const edges = edgesOf(toDirectedGraph(machine), words);
  const rules = rulesOf(edges);
  const rest = edges.filter((edge) => !rules.some(({ transitions }) => transitions.includes(edge.id)));
  const staying = rest
    .filter(({ to }) => to === undefined)
    .map(({ from, words, id }) => ({ at: from, words, transitions: [id] }));
  return {
    title: words.title,
    root: stateOf(machine.root, words, staying),
    lines: linesOf(rest.flatMap(({ to, ...edge }) => (to === undefined ? [] : [{ ...edge, to }]))),
    rules,
    staying,
  };
}

type Graph = ReturnType<typeof toDirectedGraph>;
type Edge = {
  id: string;
  event: string;
  from: string;
  to: string | undefined;
  words: string;
  kind: LineKind;
  where?: string;
};
type Leading = Edge & { to: string };

function edgesOf({ edges, children }: Graph, words: ChartWords): Edge[] {
  const own = edges.map(({ id, source, target, transition }) => ({
    id,
    event: transition.eventType,
    from: pathOf(source),
    to: transition.target === undefined ? undefined : pathOf(target),
    ...tell(words, transition.eventType, guardsOf(transition.guard)),
  }));
  return [...own, ...children.flatMap((child) => edgesOf(child, words))];
}

const pathOf = (node: AnyStateNode): string => node.path.join('.');

/** Names of a guard and of those that it joins. */
function guardsOf(guard: unknown): string[] {
  if (typeof guard === 'string') return [guard];
  if (typeof guard === 'function' && 'guards' in guard && Array.isArray(guard.guards))
    return guard.guards.flatMap(guardsOf);
  if (typeof guard === 'object' && guard !== null && 'type' in guard) return [String(guard.type)];
  return [];
}

function rulesOf(edges: readonly Edge[]): ChartRule[] {
  const everywhere = edges
    .filter(({ from }) => from === '')
    .map(({ event, to, words }) => ({
      where: 'From every state',
      words,
      to: to === undefined ? [] : [to],
      transitions: edges.filter((one) => one.event === event && isSameRule(one, to)).map(({ id }) => id),
    }));
  return [...everywhere, ...toldRules(edges)];
}

function toldRules(edges: readonly Edge[]): ChartRule[] {
  const rules = new Map<string, ChartRule>();
  for (const { id, to, words, where } of edges) {
    if (where === undefined) continue;
    const rule = rules.get(`${where}: ${words}`) ?? { where, words, to: [], transitions: [] };
    rules.set(`${where}: ${words}`, rule);
    rule.transitions.push(id);
    if (to !== undefined && !rule.to.includes(to)) rule.to.push(to);
  }
  return [...rules.values()];
}

/** A state that refuses what the machine accepts elsewhere is part of the rule too. */
const isSameRule = ({ from, to }: Edge, ruled: string | undefined): boolean =>
  to === ruled || (ruled !== undefined && to === undefined) || from === '';

const sharedFrom = 3;

function linesOf(edges: readonly Leading[]): ChartLine[] {
  const sources = (to: string, within: string) =>
    new Set(edges.filter((one) => one.to === to && isWithin(one.from, within)).map(({ from }) => from));
  const lines = new Map<string, ChartLine>();
  for (const { id, from: own, to, words, kind } of edges) {
    const border = borderOf(own, to);
    const from = sources(to, border).size >= sharedFrom ? border : own;
    const line = lines.get(`${from}>${to}`) ?? { from, to, words: [], kind, transitions: [] };
    lines.set(`${from}>${to}`, line);
    if (!line.words.includes(words)) line.words.push(words);
    line.transitions.push(id);
  }
  return [...lines.values()];
}

export const isWithin = (path: string, outer: string): boolean =>
  path === outer || path.startsWith(`${outer}.`);

/** The outermost state that a transition leaves. */
function borderOf(from: string, to: string): string {
  const target = to.split('.');
  const source = from.split('.');
  const shared = source.findIndex((name, index) => name !== target[index]);
  return source.slice(0, shared === -1 ? source.length : shared + 1).join('.');
}

function stateOf(node: AnyStateNode, words: ChartWords, staying: ChartModel['staying']): ChartState {
  const path = pathOf(node);
  const initial = node.initial?.target?.map(pathOf) ?? [];
  return {
    path,
    name: node.key,
    purpose: words.states[path],
    isInitial: false,
    staying: [...new Set(staying.filter(({ at }) => at === path).map((one) => one.words))],
    states: Object.values(node.states).map((child) => ({
      ...stateOf(child, words, staying),
      isInitial: initial.includes(pathOf(child)),
    })),
  };
}
