/** The short form of `npm run bench webhooks crash`: the long one kills thirty times over 5,000 deliveries. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';

t.test(
  'the sender killed at random: each event arrives, has one record, and costs no attempt too many',
  { timeout: 120_000 },
  async (t) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['dist/src/bench/bench.js', 'webhooks', 'crash', '--kills', '2', '--events', '100'],
      { timeout: 110_000 },
    );
    const { crash } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    t.match(crash, { events: 100, kills: 2, arrived: 100, records: 100, mostAttempts: 1 });
    // Ten for each of twenty endpoints may have been under way in the moment of a kill.
    t.ok(crash.repeated <= 400, `${crash.repeated} requests were made again`);
  },
);
