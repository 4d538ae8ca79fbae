/** `npm run demo`, as a newcomer runs it: the files it leaves, and its page playing in a real browser. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { launchChromium, skip } from './fixtures/chromium.ts';
import { testServers } from './fixtures/servers.ts';

const hasProbe = spawnSync('ffprobe', ['-version']).status === 0;
const limitMs = 110_000;

t.test(
  'a photo becomes an animation that a page plays through the proxy',
  { timeout: 2 * limitMs },
  async (t) => {
    const { ffmpegPath } = await testServers();
    const folder = mkdtempSync(join(tmpdir(), 'demo-'));
    const env = { ...process.env, FFMPEG_PATH: ffmpegPath, DATA_DIR: join(folder, 'data'), BASE_URL: '' };
    const demo = spawn(process.execPath, ['dist/src/demo/demo.js', '--seconds', '2', '--out', folder], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (text) => (printed += text));
    t.teardown(async () => {
      demo.kill('SIGTERM');
      if (demo.exitCode === null) await once(demo, 'exit');
      rmSync(folder, { recursive: true, force: true });
    });
    await untilFile(join(folder, 'page-url.txt'), demo, () => printed);

    t.match(
      printed,
      /vision .* s · stage1 .* s · stage2 .* s · merge .* s · store_write/,
      'shows the stages with their times',
    );
    t.test(
      'the mp4 is one that every browser plays',
      { skip: hasProbe ? false : 'ffprobe is not installed' },
      async (t) => {
        const file = join(folder, 'photo.mp4');
        const probed = execFileSync(
          'ffprobe',
          ['-v', 'error', '-show_streams', '-show_format', '-of', 'json', file],
          {
            encoding: 'utf8',
          },
        );
        const { streams, format } = JSON.parse(probed);
        t.equal(streams.length, 1);
        t.match(streams[0], {
          codec_name: 'h264',
          pix_fmt: 'yuv420p',
          nb_frames: '60',
          r_frame_rate: '30/1',
        });
        t.equal(Number(format.duration), 2);
        const bytes = readFileSync(file);
        t.ok(bytes.indexOf('moov') < bytes.indexOf('mdat'), 'it can be played while it loads');
      },
    );

    t.test('its page plays it', { skip }, async (t) => {
      const browser = await launchChromium();
      t.teardown(() => browser.close());
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
      const failures: string[] = [];
      page.on('response', (response) => {
        if (response.status() >= 400 && !response.url().endsWith('/favicon.ico'))
          failures.push(`${response.status()} ${response.url()}`);
      });
      await page.goto(readFileSync(join(folder, 'page-url.txt'), 'utf8').trim());
      await page.waitForFunction('document.querySelector("video").currentTime > 0.5', undefined, {
        timeout: 20_000,
      });
      const video = (await page.evaluate(
        '(({ videoWidth, duration, currentSrc, error }) => ({ videoWidth, duration, currentSrc, error }))(document.querySelector("video"))',
      )) as Record<string, unknown>;
      t.match(video, { duration: 2, error: null, currentSrc: /\/v1\/pk_\w+\/a\/ast_\w+\.mp4$/ });
      t.ok(Number(video.videoWidth) > 1_000);
      t.strictSame(failures, [], 'nothing on the page fails to load');
      const screenshot = process.env.SCREENSHOT;
      if (screenshot) await page.screenshot({ path: screenshot });
    });
  },
);

async function untilFile(path: string, child: ChildProcess, printed: () => string): Promise<void> {
  const givenUpAt = Date.now() + limitMs;
  while (!existsSync(path)) {
    if (child.exitCode !== null || Date.now() > givenUpAt)
      throw new Error(`the demo did not finish:\n${printed()}`);
    await sleep(100);
  }
}
