/** The short form of `npm run crash`: the long one kills fifty times over two hundred assets. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { testServers } from './fixtures/servers.ts';

t.test(
  'service, mongod and nats-server killed at random: nothing lost, doubled or counted twice',
  { timeout: 240_000 },
  async (t) => {
    const { ffmpegPath } = await testServers();
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['dist/src/bench/crash.js', '--assets', '4', '--kills', '3', '--seed', '7'],
      { env: { ...process.env, FFMPEG_PATH: ffmpegPath }, timeout: 230_000 },
    );
    const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
    t.match(result, { assets: 4, ready: 4, lost: 0, doubled: 0, disordered: 0, counted: 4 });
    const kills = Object.values(result.kills as Record<string, number>).reduce(
      (sum, count) => sum + count,
      0,
    );
    t.equal(kills, 3);
    // A second kill may meet one that is ending already.
    t.ok(result.restarts >= 1, `restarted ${result.restarts} times`);
  },
);
