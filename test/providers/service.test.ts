/** The whole service with the stand-in for model providers: a loop with each of them, and what it cost. */
import t from 'tap';
import { checkClip } from '../../src/media/clip-check.ts';
import { startStandIn } from '../fixtures/model-providers.ts';
import { startTestService } from '../fixtures/service.ts';

const { make, settings } = await startStandIn(t);

for (const provider of ['replicate', 'fal', 'luma', 'runway']) {
  t.test(
    `a loop is made by ${provider}, each of its two clips paid once`,
    { timeout: 200_000 },
    async (t) => {
      const service = await startTestService(t, { ...settings, VIDEO_PROVIDER: provider });
      const user = await service.signUp();
      const { asset, paid, predictions } = await make(user, '', { mode: 'loop' });
      t.match(asset, { status: 'ready', loop_mode: 'native', error_code: null });
      t.equal(paid, 2);
      t.ok(Math.abs((await durationOf(asset.mp4_url ?? '')) - 2) <= 1 / 24, 'it is as long as wished');
      const [out, back] = predictions.map(({ input }) => JSON.stringify(input));
      t.match(back, /last_frame_image|end_image_url|"last"|frame1/, 'the way back is told how to end');
      t.notMatch(out, /last_frame_image|end_image_url|"last"|frame1/);
      const stored = await service.store.assets.find(asset.asset_id);
      const { costMicros } = (stored?.machine.context ?? {}) as { costMicros: number };
      if (provider === 'runway') t.equal(costMicros, 1_200_000, 'what it cost is in the run');
      const images = JSON.stringify(predictions).match(/http:[^"]*\/media\/[^"]*\.jpg/g) ?? [];
      t.ok(images.length >= 3);
      for (const url of images)
        t.equal((await fetch(url)).status, 404, 'images are shown for the work alone');
    },
  );
}

async function durationOf(url: string): Promise<number> {
  return (await checkClip(new Uint8Array(await (await fetch(url)).arrayBuffer()))).seconds;
}
