/** Histories of the durable runtime on virtual time: none breaks an invariant, and planted mistakes are found. */
import t from 'tap';
import { type Bug, bugs, runHistory } from '../../src/simulation/history.ts';
import { commandFor, runHistories } from '../../src/simulation/run.ts';

/** Of the time that all tests may take. */
const budgetMs = 7_000;
const findMs = 60_000;

t.test('the same seed gives the same history, event by event, and another seed another', async (t) => {
  const [first, again, other] = [
    await runHistory({ seed: 8 }),
    await runHistory({ seed: 8 }),
    await runHistory({ seed: 9 }),
  ];
  t.ok(first.steps > 100);
  t.strictSame(again, first);
  t.not(other.hash, first.hash);
});

/** The slowest to find takes 94 histories from seed 1 on, half a minute on a busy machine: it begins a little before. */
const firstSeed: Record<Bug, number> = { outbox: 100, fence: 100, timer: 90 };
const invariantOf: Record<Bug, RegExp> = { outbox: /^I2: /, fence: /^I[124]: /, timer: /^I6: / };

for (const bug of bugs) {
  t.test(`a planted mistake is found: ${bug}`, { timeout: 2 * findMs }, async (t) => {
    const until = performance.now() + findMs;
    const { failed, histories } = await runHistories({
      from: firstSeed[bug],
      step: 1,
      seeds: Number.POSITIVE_INFINITY,
      until,
      bug,
    });
    t.match(failed?.violation, invariantOf[bug]);
    const seed = failed?.seed ?? 0;
    t.comment(`found in history ${histories}: ${failed?.violation}`);
    t.equal(commandFor(seed, bug), `npm run simulate -- --from ${seed} --seeds 1 --trace --bug ${bug}`);
    const again = await runHistory({ seed, bug });
    t.match(again, { hash: failed?.hash, violation: failed?.violation }, 'its seed shows it again');
    const right = await runHistory({ seed });
    t.equal(right.violation, undefined, 'the mistake is what was found');
  });
}

t.test('no history breaks an invariant', { timeout: 10 * budgetMs }, async (t) => {
  // Other histories at every run would make a failure hard to tell from a change: npm run simulate looks further.
  const summary = await runHistories({ from: 1, step: 1, seeds: 2_000, until: performance.now() + budgetMs });
  t.equal(summary.failed?.violation, undefined, summary.failed ? commandFor(summary.failed.seed) : '');
  t.ok(summary.histories > 0);
  t.comment(JSON.stringify(summary));
});
