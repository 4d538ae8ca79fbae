/** Servers and settings that would lose what was accepted: refused with one line that says what to do (decisions 10). */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { judgeSync } from '../../src/bus/monitor.ts';
import { readConfig } from '../../src/config.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { type Binary, findBinary } from '../../src/embedded/find.ts';
import { createLog } from '../../src/log.ts';
import { startService } from '../../src/service.ts';
import { openStore } from '../../src/store/client.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';

const log = createLog('silent');

/** What the start says about settings; 'started' when it likes them. `logged` takes the warnings. */
async function outcome(
  t: Test,
  settings: Record<string, string | undefined>,
  logged: string[] = [],
): Promise<string> {
  const { mongodbUrl, natsUrl, ffmpegPath } = await testServers();
  process.env.FFMPEG_PATH ??= ffmpegPath;
  const name = uniqueName('settings');
  const config = readConfig({
    PORT: '0',
    NODE_ENV: 'production',
    BASE_URL: 'http://127.0.0.1:8080',
    DATA_DIR: join(tmpdir(), name),
    ROLE: 'scheduler',
    MONGODB_URL: mongodbUrl,
    MONGODB_DATABASE: name,
    NATS_URL: natsUrl,
    NATS_PREFIX: `${name}.`,
    SECRETS_KEY: randomBytes(32).toString('base64'),
    ...settings,
  });
  t.teardown(() => rm(config.dataDir, { recursive: true, force: true }));
  const warnings = createLog('warn', { write: (line: string) => void logged.push(line) });
  try {
    const service = await startService(config, warnings, (cause) => t.fail(cause.message));
    await service.stop();
    return 'started';
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause);
  }
}

/** Killed at the end of the test. */
function start(t: Test, { path, env }: Binary, args: string[]): void {
  const child = spawn(path, args, { stdio: 'ignore', env: { ...process.env, ...env } });
  t.teardown(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  });
}

async function startNats(t: Test, more: string): Promise<string> {
  const folder = t.testdir();
  const [port, monitor] = [await freePort(), await freePort()];
  const config = join(folder, 'nats.conf');
  const jetstream = `jetstream { store_dir: ${JSON.stringify(folder)}${more} }`;
  await writeFile(config, `listen: "127.0.0.1:${port}"\nhttp: "127.0.0.1:${monitor}"\n${jetstream}\n`);
  const url = `http://127.0.0.1:${monitor}`;
  start(t, await findBinary('natsServer'), ['-c', config]);
  const isReady = () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) await sleep(20);
  return url;
}

t.test('production needs three members of the replica set and three replicas, or one machine', async (t) => {
  t.equal(
    await outcome(t, {}),
    'the replica set rs0 has 1 of the 3 members that production needs (or SINGLE_MACHINE=true)',
  );
  t.match(
    await outcome(t, { SINGLE_MACHINE: 'true', NATS_REPLICAS: '3' }),
    /^NATS has too few servers for 3 replicas of each stream: add some, or lower NATS_REPLICAS$/,
  );
  const logged: string[] = [];
  t.equal(await outcome(t, { SINGLE_MACHINE: 'true' }, logged), 'started');
  t.match(logged.join(''), /NATS_MONITOR_URL is not set/, 'what cannot be seen is said');
  t.match(logged.join(''), /on one machine/, 'and that one machine is all there is');
});

t.test('NATS that confirms messages before they are on disk is found out', async (t) => {
  const [unsafe, safe] = [await startNats(t, ''), await startNats(t, ', sync_interval: always')];
  t.equal(await judgeSync([safe]), undefined);
  t.equal(
    await judgeSync([safe, unsafe]),
    `the nats-server at ${unsafe} confirms messages before they are on disk: set sync_interval: always`,
  );
  t.match(await judgeSync([`http://127.0.0.1:${await freePort()}`]), /^NATS_MONITOR_URL: .* cannot be asked/);
  t.match(await judgeSync([`${safe}/elsewhere`]), /^NATS_MONITOR_URL: .* answers 404$/);

  const logged: string[] = [];
  const warned = { SINGLE_MACHINE: 'true', NATS_MONITOR_URL: unsafe };
  t.equal(await outcome(t, warned, logged), 'started');
  t.match(logged.join(''), /before they are on disk/, 'on one machine it is a warning');
});

t.test('a standalone mongod is refused', async (t) => {
  const port = await freePort();
  const folder = t.testdir({ data: {} });
  start(t, await findBinary('mongod'), [
    ...['--dbpath', join(folder, 'data'), '--port', String(port), '--bind_ip', '127.0.0.1', '--nounixsocket'],
  ]);
  // It is tried again until it is there.
  await t.rejects(openStore(`mongodb://127.0.0.1:${port}`, 'none', { log }), {
    message: 'MongoDB runs standalone: make it a replica set (one member will do)',
  });
});

t.test('storage that cannot be written to is refused, and keys that are missing', async (t) => {
  const one = { SINGLE_MACHINE: 'true' };
  const folder = t.testdir({ file: '' });
  t.equal(
    await outcome(t, { ...one, STORAGE_URL: `file:${folder}/file` }),
    `STORAGE_URL: files cannot be kept in ${folder}/file (ENOTDIR)`,
  );
  const SECRETS_KEY_FILE = join(folder, 'none');
  t.match(
    await outcome(t, { ...one, SECRETS_KEY: undefined, SECRETS_KEY_FILE }),
    /^SECRETS_KEY_FILE .*none cannot be read \(ENOENT\)$/,
  );
});
