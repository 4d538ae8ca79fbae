/** The embedded servers for real: started, refused, stopped, crashed and started again on the same data. */
import { spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';
import t, { type Test } from 'tap';
import { type Embedded, type EmbeddedOptions, startEmbedded } from '../../src/embedded/embedded.ts';
import { findBinary } from '../../src/embedded/find.ts';
import { keptMongodbUrl } from '../../src/embedded/mongod.ts';
import { nameProcess } from '../../src/embedded/processes.ts';
import { readsTypes } from '../fixtures/servers.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function start(t: Test, dataDir: string, more: Partial<EmbeddedOptions> = {}, signal?: AbortSignal) {
  const startedAt = performance.now();
  const embedded = await startEmbedded({ dataDir, log: silent, mongodb: true, nats: true, ...more }, signal);
  t.teardown(() => embedded.stop());
  t.comment(`started in ${Math.round(performance.now() - startedAt)} ms`);
  return embedded;
}

/** Adds one document with a majority write in a transaction, and answers how many there are. */
async function addDocument({ mongodbUrl }: Pick<Embedded, 'mongodbUrl'>): Promise<number> {
  const client = await new MongoClient(mongodbUrl ?? '', {
    writeConcern: { w: 'majority', j: true },
  }).connect();
  try {
    const documents = client.db('embedded').collection('documents');
    await client.withSession((session) =>
      session.withTransaction(() => documents.insertOne({ at: 1 }, { session })),
    );
    return await documents.countDocuments();
  } finally {
    await client.close();
  }
}

/** What a nats-server says about itself to a new client. */
async function natsInfo({ natsUrl }: Embedded): Promise<Record<string, unknown>> {
  const socket = connect({ port: Number(new URL(natsUrl ?? '').port), host: '127.0.0.1' });
  const [line] = await once(createInterface(socket), 'line');
  socket.destroy();
  return JSON.parse(String(line).replace(/^INFO /, ''));
}

async function untilGone(pids: number[], withinMs: number): Promise<boolean> {
  for (const deadline = Date.now() + withinMs; Date.now() < deadline; await wait(20)) {
    if (pids.every((pid) => nameProcess(pid) === undefined)) return true;
  }
  return false;
}

const portOf = ({ mongodbUrl = '' }: Pick<Embedded, 'mongodbUrl'>) => Number(new URL(mongodbUrl).port);

/** An executable shell script. */
function script(path: string, lines: string): string {
  writeFileSync(path, `#!/bin/sh\n${lines}\n`);
  chmodSync(path, 0o755);
  return path;
}

function setVariable(t: Test, name: string, value: string): void {
  const before = process.env[name];
  process.env[name] = value;
  t.teardown(() => {
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
  });
}

t.test('servers start on an empty folder, refuse a second instance, and find their data again', async (t) => {
  const dataDir = join(t.testdir(), 'data');
  const first = await start(t, dataDir);
  t.equal(await addDocument(first), 1);
  t.match(await natsInfo(first), { jetstream: true, host: '127.0.0.1', max_payload: 1024 * 1024 });
  const monitor = await fetch(`${first.natsMonitorUrl}/jsz`);
  t.match(await monitor.json(), { config: { sync_always: true } });
  t.ok(existsSync(first.ffmpegPath));

  for (const pid of first.pids) {
    const group = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[2];
    t.equal(group, String(pid), 'a group of its own, which Ctrl-C does not reach');
    const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
    t.notMatch(environment, 'HOME=', 'none of our environment');
  }

  await t.rejects(start(t, dataDir), {
    message: new RegExp(`${dataDir} is in use by process ${process.pid}`),
  });
  t.equal(await addDocument(first), 2, 'the first is not disturbed');

  const stoppedAt = performance.now();
  await Promise.all([first.stop(), first.stop()]);
  const stopMs = performance.now() - stoppedAt;
  t.ok(stopMs < 8_000, `stopped in ${Math.round(stopMs)} ms`);
  t.ok(await untilGone(first.pids, 1_000));
  t.notOk(existsSync(join(dataDir, 'lock')));
  t.equal(keptMongodbUrl(join(dataDir, 'mongodb')), first.mongodbUrl);
  t.equal(keptMongodbUrl(join(dataDir, 'absent')), undefined);

  // A log that has grown too long is put aside at the next start.
  const logFile = join(dataDir, 'logs', 'mongod.log');
  truncateSync(logFile, 21 * 1024 * 1024);
  const second = await start(t, dataDir);
  t.equal(await addDocument(second), 3);
  t.equal(portOf(second), portOf(first), 'the port stays with the folder');
  t.ok(statSync(logFile).size < 1024 * 1024);
  t.ok(existsSync(`${logFile}.1`));
  await second.stop();

  const squatter = createServer((socket) => socket.destroy()).listen(portOf(first), '127.0.0.1');
  await once(squatter, 'listening');
  t.teardown(() => squatter.close());
  const third = await start(t, dataDir);
  t.not(portOf(third), portOf(first), 'another port when the old one is taken');
  t.equal(await addDocument(third), 4, 'and the set is primary there with its data');
});

t.test('after a crash of the parent', async (t) => {
  const parentScript = fileURLToPath(new URL('../fixtures/servers-parent.ts', import.meta.url));

  /** Starts servers from a process of their own and kills that with SIGKILL. */
  async function crash(dataDir: string, env: NodeJS.ProcessEnv) {
    const parent = spawn(process.execPath, [...readsTypes, parentScript, dataDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env,
    });
    const [line] = await once(createInterface(parent.stdout), 'line');
    const servers: Pick<Embedded, 'mongodbUrl' | 'pids'> = JSON.parse(String(line));
    await addDocument(servers);
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    return servers;
  }

  await t.test('the servers end by themselves where the kernel is asked for that', async (t) => {
    const dataDir = t.testdir();
    const { pids } = await crash(dataDir, process.env);
    t.ok(await untilGone(pids, 15_000));
  });

  await t.test('servers that survive are ended at the next start, which has their data', async (t) => {
    const dataDir = t.testdir();
    const { pids } = await crash(dataDir, { ...process.env, PATH: '/nowhere' });
    t.ok(
      pids.every((pid) => nameProcess(pid) !== undefined),
      'they survived',
    );
    const next = await start(t, dataDir);
    t.ok(pids.every((pid) => nameProcess(pid) === undefined));
    t.equal(await addDocument(next), 2);
  });
});

t.test('a server that ends by itself is reported, and the rest still stops', async (t) => {
  const dataDir = t.testdir();
  const exits = new EventEmitter();
  const onExit = (name: string, code: number | string) => exits.emit('exit', name, code);
  const embedded = await start(t, dataDir, { mongodb: false, onExit });
  t.equal(embedded.mongodbUrl, undefined);
  t.equal(embedded.pids.length, 1);
  const exit = once(exits, 'exit');
  process.kill(embedded.pids[0] ?? 0, 'SIGKILL');
  t.strictSame(await exit, ['nats-server', 'SIGKILL']);
  await embedded.stop();
  const again = await start(t, dataDir, { mongodb: false });
  t.match(await natsInfo(again), { jetstream: true });
});

t.test('nothing is started and no folder made when every server has a URL', async (t) => {
  const dataDir = join(t.testdir(), 'absent');
  const embedded = await start(t, dataDir, { mongodb: false, nats: false });
  t.match(embedded, { mongodbUrl: undefined, natsUrl: undefined, pids: [], ffmpegPath: String });
  t.notOk(existsSync(dataDir));
});

t.test('a start that fails says why and leaves nothing running', async (t) => {
  const dataDir = t.testdir();
  const leavesNothing = async (t: Test) => {
    const list = join(dataDir, 'data', 'children.json');
    const children: { pid: number }[] = existsSync(list) ? JSON.parse(readFileSync(list, 'utf8')) : [];
    t.ok(
      await untilGone(
        children.map(({ pid }) => pid),
        1_000,
      ),
    );
    t.notOk(existsSync(join(dataDir, 'data', 'lock')));
  };

  await t.test('when one of the two does not come up', async (t) => {
    setVariable(t, 'MONGOD_PATH', script(join(dataDir, 'broken'), 'echo "no such library" >&2; exit 7'));
    await t.rejects(start(t, join(dataDir, 'data')), {
      message: 'mongod ended with 7 before it was ready: no such library',
    });
    await leavesNothing(t);
  });

  await t.test('when it is not wanted any more', async (t) => {
    const giveUp = new AbortController();
    setTimeout(() => giveUp.abort(new Error('stopped early')), 100);
    await t.rejects(start(t, join(dataDir, 'data'), {}, giveUp.signal), {
      message: /is not ready: stopped early/,
    });
    await leavesNothing(t);
    await t.rejects(start(t, join(dataDir, 'data'), {}, giveUp.signal), {
      message: /is not ready: stopped early/,
    });
    await leavesNothing(t);
  });

  await t.test('when a server takes no connections', async (t) => {
    setVariable(t, 'NATS_SERVER_PATH', script(join(dataDir, 'deaf'), 'exec sleep 60'));
    // And the setpriv of a small system, which cannot do what it is asked for.
    script(join(dataDir, 'setpriv'), 'exit 1');
    setVariable(t, 'PATH', `${dataDir}:${process.env['PATH']}`);
    const limit = AbortSignal.timeout(500);
    await t.rejects(start(t, join(dataDir, 'data'), { mongodb: false }, limit), {
      message: /nats-server is not ready/,
    });
    await leavesNothing(t);
  });

  await t.test('when mongod finds every port taken', async (t) => {
    const count = join(dataDir, 'count');
    setVariable(t, 'MONGOD_PATH', script(join(dataDir, 'unlucky'), `echo x >>${count}; exit 48`));
    await t.rejects(start(t, join(dataDir, 'data'), { nats: false }), { message: /mongod ended with 48/ });
    t.equal(readFileSync(count, 'utf8'), 'x\nx\nx\n');
    await leavesNothing(t);
  });

  await t.test('and a port lost once to somebody else is no failure', async (t) => {
    const { path } = await findBinary('mongod');
    const once = join(dataDir, 'once');
    const lines = `if [ ! -e ${once} ]; then touch ${once}; exit 48; fi; exec ${path} "$@"`;
    setVariable(t, 'MONGOD_PATH', script(join(dataDir, 'late'), lines));
    const embedded = await start(t, join(dataDir, 'data'), { nats: false });
    t.equal(await addDocument(embedded), 1);
    t.equal(embedded.pids.length, 1);
  });
});

t.test('programs are found in the environment, the manifest, then PATH', async (t) => {
  const folder = t.testdir({ path: {}, cache: {}, empty: {}, damaged: { 'manifest.json': '{"mongod":1}' } });
  const inPath = script(join(folder, 'path', 'mongod'), 'echo "db version v6.0.1"');
  const fetched = script(join(folder, 'cache', 'mongod'), 'echo fetched');
  const nothing = { PATH: join(folder, 'empty'), BINARY_CACHE: join(folder, 'empty') };
  const manifest = { mongod: { path: fetched, env: { LD_LIBRARY_PATH: '/lib' } }, ffmpeg: { path: '/gone' } };
  writeFileSync(join(folder, 'cache', 'manifest.json'), JSON.stringify(manifest));

  const everything = { PATH: join(folder, 'path'), BINARY_CACHE: join(folder, 'cache'), MONGOD_PATH: inPath };
  t.strictSame(await findBinary('mongod', everything), { path: inPath, env: {} });
  t.strictSame(await findBinary('mongod', { ...everything, MONGOD_PATH: '' }), manifest.mongod);
  t.strictSame(await findBinary('mongod', { ...nothing, PATH: join(folder, 'path') }), {
    path: inPath,
    env: {},
  });

  await t.rejects(findBinary('mongod', nothing), {
    message:
      'mongod was not found: run `npm start`, which fetches it, or name it by MONGOD_PATH, or set MONGODB_URL',
  });
  await t.rejects(
    findBinary('ffmpeg', { ...nothing, BINARY_CACHE: join(folder, 'cache') }),
    /ffmpeg was not found/,
  );
  await t.rejects(
    findBinary('mongod', { ...nothing, MONGOD_PATH: folder }),
    /MONGOD_PATH names .* cannot be run/,
  );
  await t.rejects(
    findBinary('mongod', { BINARY_CACHE: join(folder, 'damaged') }),
    /manifest.json is damaged/,
  );

  const answers: [string, 'ffmpeg' | 'natsServer', boolean][] = [
    ['echo nats-server: v2.11.9', 'natsServer', false],
    ['echo nats-server: v2.12.0', 'natsServer', true],
    ['echo nats-server: v3.0.0', 'natsServer', true],
    ['echo ffmpeg version 4.4.2', 'ffmpeg', false],
    ['echo ffmpeg version n7.1', 'ffmpeg', true],
    ['echo ffmpeg version N-109542-g1bf1', 'ffmpeg', true],
    ['echo something else', 'ffmpeg', false],
    ['exit 1', 'ffmpeg', false],
  ];
  for (const [index, [lines, name, isAccepted]] of answers.entries()) {
    const bin = join(folder, String(index));
    mkdirSync(bin);
    script(join(bin, name === 'ffmpeg' ? 'ffmpeg' : 'nats-server'), lines);
    const found = findBinary(name, { ...nothing, PATH: `:/nowhere:${bin}` });
    if (isAccepted) t.match(await found, { env: {} }, lines);
    else await t.rejects(found, /was not found/, lines);
  }
});
