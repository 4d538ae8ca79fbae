/** The drawings of the machines, held against the machines themselves. */
import { parseFragment } from 'parse5';
import t from 'tap';
import type { AnyStateMachine, AnyStateNode } from 'xstate';
import { createAssetMachine } from '../../machines/asset.ts';
import { createDeliveryMachine } from '../../machines/delivery.ts';
import { draw, models } from '../../src/charts/draw.ts';
import { readMachine } from '../../src/charts/model.ts';
import { chartNames, readChart, readChartStyle } from '../../src/charts/read.ts';
import { deliveryWords } from '../../src/charts/words.ts';

const machines = { asset: createAssetMachine(), delivery: createDeliveryMachine() };

for (const name of chartNames) {
  t.test(`the drawing of the ${name} machine has every state of it once, and no other`, async (t) => {
    const states = allNodes(machines[name].root).map((node) => node.path.join('.'));
    t.ok(states.length > 5);
    t.strictSame(attributes(await draw(name), 'data-state').sort(), states.filter(Boolean).sort());
  });

  t.test(
    `every transition of the ${name} machine is in its drawing once: a line, a rule, or staying`,
    async (t) => {
      const { rules, staying } = models[name]();
      const drawn = new Set(
        attributes(await draw(name), 'data-transitions').flatMap((ids) => ids.split(' ')),
      );
      const told = [...drawn, ...[...rules, ...staying].flatMap(({ transitions }) => transitions)];
      t.strictSame(
        told.sort(),
        transitionsOf(machines[name])
          .map(({ id }) => id)
          .sort(),
      );
    },
  );

  t.test(
    `each line of the ${name} drawing leads where its transitions lead, from where they begin`,
    async (t) => {
      const known = new Map(transitionsOf(machines[name]).map((one) => [one.id, one]));
      const { lines, rules } = models[name]();
      for (const { from, to, transitions } of lines) {
        for (const id of transitions) {
          const { source, target } = known.get(id) ?? { source: '', target: '' };
          t.equal(target, to, id);
          t.ok(source === from || source.startsWith(`${from}.`), id);
        }
      }
      for (const { to, transitions } of rules)
        t.ok(transitions.every((id) => [...to, undefined].includes(known.get(id)?.target)));
    },
  );

  t.test(`the ${name} drawing is the same each time, and what the build has drawn`, async (t) => {
    const svg = await draw(name);
    t.equal(await draw(name), svg);
    t.equal(readChart(name), svg);
  });

  t.test(
    `the ${name} drawing has a title and a description, and nothing that a strict policy refuses`,
    async (t) => {
      const svg = await draw(name);
      t.match(svg, new RegExp(`aria-labelledby="${name}-chart-title ${name}-chart-desc"`));
      t.notMatch(svg, /<style|style="|<script|xlink|href=/);
      for (const used of attributes(svg, 'class').flatMap((all) => all.split(' ')))
        if (!['chart-step'].includes(used)) t.ok(readChartStyle().includes(`.${used}`), used);
    },
  );
}

t.test('a message that nobody has put into words stops the drawing', async (t) => {
  const { START: _, ...messages } = deliveryWords.messages;
  t.throws(() => readMachine(machines.delivery, { ...deliveryWords, messages }), /no words for START/);
});

t.test('states read aloud tell what happens in them', async (t) => {
  const svg = await draw('asset');
  t.match(svg, /From every state: regenerate leads to pending/);
  t.match(svg, /Until it has ended: given up by an operator leads to failed/);
  t.match(svg, /pending stage1 waiting to pending stage1 copying: output there/);
  t.match(svg, /<title>waiting\. Here also: asked again when its worker died/);
});

function allNodes(node: AnyStateNode): AnyStateNode[] {
  return [node, ...Object.values(node.states).flatMap(allNodes)];
}

/** Read from the definition, by other means than the drawing's. Ids are built as xstate's graph builds its own. */
function transitionsOf(machine: AnyStateMachine) {
  return allNodes(machine.root).flatMap((node) =>
    [...node.transitions.values()].flat().map(({ target }, index) => ({
      id: `${node.id}:${index}:0`,
      source: node.path.join('.'),
      target: target?.[0]?.path.join('.'),
    })),
  );
}

/** Values of an attribute, in order. */
function attributes(svg: string, name: string): string[] {
  type Node = { attrs?: { name: string; value: string }[]; childNodes?: Node[] };
  const collect = ({ attrs = [], childNodes = [] }: Node): string[] => [
    ...attrs.filter((one) => one.name === name).map(({ value }) => value),
    ...childNodes.flatMap(collect),
  ];
  return collect(parseFragment(svg) as Node);
}
