/** `npm run fake-providers [-- --port 9500 --clip file.mp4]`: the stand-in on its own, with the settings that use it. */
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { startFakeProviders } from './server.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '9500' },
    clip: { type: 'string', default: 'src/fake-providers/clip.mp4' },
    'run-ms': { type: 'string', default: '2000' },
  },
});

const { url } = await startFakeProviders({
  port: Number(values.port),
  clip: await readFile(values.clip),
  runMs: Number(values['run-ms']),
});

process.stdout.write(
  [
    `model providers stand in at ${url}; what was asked: ${url}/asked; faults: POST ${url}/control`,
    'VISION_PROVIDER=openai OPENAI_API_KEY=sk-test VIDEO_PROVIDER=replicate,fal,runway,luma \\',
    `OPENAI_BASE_URL=${url}/openai/v1 REPLICATE_API_TOKEN=r8_test REPLICATE_BASE_URL=${url}/replicate/v1 \\`,
    `FAL_KEY=id:secret FAL_BASE_URL=${url}/fal FAL_KEYS_URL=${url}/.well-known/jwks.json \\`,
    `RUNWAY_API_KEY=key_test RUNWAY_BASE_URL=${url}/runway \\`,
    `LUMA_API_KEY=luma-test LUMA_BASE_URL=${url}/luma/dream-machine/v1 npm start`,
    '',
  ].join('\n'),
);
