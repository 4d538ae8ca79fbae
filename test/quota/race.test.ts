/** The short form of `npm run bench quota`: the long one races twenty times. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { testServers } from '../fixtures/servers.ts';

t.test(
  '500 first hits at three processes with 100 runs left: exactly 100 are accepted',
  { timeout: 120_000 },
  async (t) => {
    const { mongodbUrl, natsUrl, ffmpegPath } = await testServers();
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['dist/src/bench/quota.js', '--times', '1'],
      {
        env: {
          ...process.env,
          MONGODB_URL: mongodbUrl,
          NATS_URL: natsUrl,
          FFMPEG_PATH: ffmpegPath,
          NODE_OPTIONS: '',
        },
        timeout: 110_000,
      },
    );
    t.match(JSON.parse(stdout), { rounds: 1, exact: 1, processes: 3, requests: 500, left: 100, inexact: [] });
  },
);
