/** The short form of `npm run fuzz`: the long one sends ten thousand spoilt requests. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { spoil, type Valid } from '../../src/bench/fuzz-requests.ts';
import { createRandom } from '../../src/random.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

t.test('1,500 spoilt requests: all answered or closed, none by a 5xx, nothing left', async (t) => {
  const { mongodbUrl, natsUrl, ffmpegPath } = await testServers();
  const name = uniqueName('fuzz');
  const env = {
    ...process.env,
    MONGODB_URL: mongodbUrl,
    MONGODB_DATABASE: name,
    NATS_URL: natsUrl,
    NATS_PREFIX: `${name}.`,
    FFMPEG_PATH: ffmpegPath,
  };
  const args = ['dist/src/bench/fuzz.js', '--requests', '1500', '--seed', '7'];
  // What it found is in its line, whether or not it passed.
  const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 200_000 }).catch(
    (failed: { stdout: string }) => failed,
  );
  const { outcomes, healthy, ...result } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  t.match(result, { requests: 1500, faults: [], faultCount: 0, descriptors: 0, temporaryFiles: 0 });
  t.ok(
    outcomes['2xx'] > 50 && outcomes['4xx'] > 300,
    `enough of them are understood: ${JSON.stringify(outcomes)}`,
  );
  t.ok(healthy.count > 20 && healthy.maxMs < 5_000, JSON.stringify(healthy));
});

t.test('a seed makes the same bytes', async (t) => {
  const valid: Valid = {
    method: 'GET',
    target: '/healthz',
    version: 'HTTP/1.1',
    headers: [['Host', 'a']],
    body: Buffer.alloc(0),
  };
  const bytes = (seed: number) => {
    const random = createRandom(seed);
    return Array.from({ length: 50 }, () =>
      Buffer.concat(spoil(valid, [valid], random).pieces).toString('latin1'),
    );
  };
  t.strictSame(bytes(1), bytes(1));
  t.notSame(bytes(1), bytes(2));
  t.equal(valid.target, '/healthz', 'and leaves the valid one as it is');
});
