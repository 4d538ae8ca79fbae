/** The estimate of a queue's length, which refuses runs before they are counted. */
import t from 'tap';
import { createLoad, loadSubject } from '../src/load.ts';

function loadOf(beats: { workerId: string; threads: number; waiting: Record<string, number> }[]) {
  const clock = { now: 1_000 };
  let hear: (body: unknown) => void = () => undefined;
  const load = createLoad(
    (name, onMessage) => {
      t.equal(name, loadSubject);
      hear = onMessage;
    },
    () => clock.now,
  );
  for (const beat of beats) hear(beat);
  return { load, clock };
}

t.test('no worker heard, no wait known', async (t) => {
  t.equal(loadOf([]).load.waitMs('p1'), 0);
});

t.test('a project waits behind its own runs', async (t) => {
  const { load } = loadOf([{ workerId: 'w1', threads: 2, waiting: { p1: 100 } }]);
  t.equal(load.waitMs('p1'), 400_000);
});

t.test('another project waits for one turn of each, not for their backlog', async (t) => {
  const { load } = loadOf([
    { workerId: 'w1', threads: 1, waiting: { p1: 900, p2: 3 } },
    { workerId: 'w2', threads: 1, waiting: { p1: 100 } },
  ]);
  t.equal(load.waitMs('p3'), 8_000);
  t.equal(load.waitMs('p2'), 28_000, 'three of its own and four turns of the other');
});

t.test('a worker that is silent for five seconds counts no more', async (t) => {
  const { load, clock } = loadOf([{ workerId: 'w1', threads: 1, waiting: { p1: 900 } }]);
  clock.now += 5_001;
  t.equal(load.waitMs('p1'), 0);
});
