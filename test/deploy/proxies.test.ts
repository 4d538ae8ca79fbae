/**
 * The proxies of deploy/ in front of a real service: with TLS and HTTP/2, streams that are not held back, ranges, a cache
 * that keeps what it may, and nothing of one request that could begin another.
 *
 * Each is left out, and says so, where it is not to be had.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect as connectH2 } from 'node:http2';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from 'node:tls';
import t, { type Test } from 'tap';
import { freePort } from '../../src/demo/free-port.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { findDeployTools } from '../fixtures/deploy-tools.ts';
import { photo } from '../fixtures/images.ts';
import { selfSigned } from '../fixtures/self-signed.ts';
import { root } from '../fixtures/servers.ts';
import { startTestService, type TestService, type TestUser } from '../fixtures/service.ts';

const tools = findDeployTools();
const hasNginx = spawnSync('nginx', ['-v']).error === undefined;
const mediaPath = '/media/ast_0123456789abcdefghij/1-0123456789abcdef0123456789abcd.mp4';
const mediaBytes = Buffer.from('0123456789'.repeat(100));

async function temporary(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'proxy-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function startBehind(t: Test, port: number): Promise<{ service: TestService; user: TestUser }> {
  const folder = await temporary(t);
  const service = await startTestService(t, {
    STORAGE_URL: `file:${folder}`,
    TRUSTED_PROXIES: '127.0.0.1',
    MEDIA_BASE_URL: `https://localhost:${port}`,
  });
  const storage = await createFileStorage(folder);
  const options = { contentType: 'video/mp4', signal: new AbortController().signal };
  await storage.put(mediaPath.slice(1), mediaBytes, options);
  return { service, user: await service.signUp() };
}

/** Ended with the test; `isReady` is asked until it says so. */
async function startProgram(
  t: Test,
  [program = '', ...args]: string[],
  env: Record<string, string>,
  isReady: () => Promise<boolean>,
): Promise<ChildProcess> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text));
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  for (let tries = 0; tries < 400; tries += 1) {
    if (child.exitCode !== null) throw new Error(`${program} ended: ${said}`);
    if (await isReady().catch(() => false)) return child;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`${program} does not answer: ${said}`);
}

type Answer = { status: number; headers: Record<string, unknown>; body: Buffer };

function ask(
  port: number,
  path: string,
  {
    method = 'GET',
    headers = {},
    body,
  }: { method?: string; headers?: Record<string, string>; body?: Buffer } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      servername: 'localhost',
      port,
      path,
      method,
      headers: { host: 'localhost', ...headers },
      rejectUnauthorized: false,
    };
    const asking = request(options, async (response) => {
      const bytes = Buffer.concat(await response.toArray());
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: bytes });
    });
    asking.on('error', reject).setTimeout(10_000, () => asking.destroy(new Error('no answer')));
    asking.end(body);
  });
}

/** What every proxy must do. */
async function judge(t: Test, port: number, { user }: { user: TestUser }): Promise<void> {
  const { cookie } = user;
  const me = await ask(port, '/api/user/me', { headers: { cookie } });
  t.match(me, { status: 200, headers: { 'x-request-id': /.+/ } });
  t.equal(JSON.parse(me.body.toString()).email, user.email);

  const bytes = await photo();
  const edge = 'part-of-the-form';
  const form = Buffer.concat([
    Buffer.from(`--${edge}\r\ncontent-disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n`),
    bytes,
    Buffer.from(`\r\n--${edge}--\r\n`),
  ]);
  const type = { 'content-type': `multipart/form-data; boundary=${edge}` };
  const uploaded = await ask(port, '/api/v1/upload', {
    method: 'POST',
    headers: { cookie, ...type },
    body: form,
  });
  t.equal(uploaded.status, 200, 'uploads get through');

  const range = await ask(port, mediaPath, { headers: { range: 'bytes=10-19' } });
  t.match(range, { status: 206, headers: { 'content-range': `bytes 10-19/${mediaBytes.length}` } });
  t.same(range.body, mediaBytes.subarray(10, 20));
  t.equal((await ask(port, mediaPath)).headers['access-control-allow-origin'], '*');

  await t.test('HTTP/2, and events that come as they happen', async (t) => {
    const session = connectH2(`https://127.0.0.1:${port}`, {
      servername: 'localhost',
      rejectUnauthorized: false,
    });
    t.teardown(() => session.destroy());
    const stream = session.request({
      ':authority': 'localhost',
      ':path': `/api/projects/${user.projectId}/activity`,
      cookie,
    });
    const [headers] = await once(stream, 'response');
    t.match(headers, { ':status': 200, 'content-type': /^text\/event-stream/ });
    const [first] = await once(stream, 'data');
    t.match(String(first), /^retry: \d+/, 'the first bytes are here while the stream is open');
    stream.close();
  });

  await t.test('trailers of one request do not become the next one', async (t) => {
    const socket = connect({ host: '127.0.0.1', servername: 'localhost', port, rejectUnauthorized: false });
    t.teardown(() => socket.destroy());
    await once(socket, 'secureConnect');
    const body = '{"email":"a@example.com","password":"wrong password"}';
    socket.write(
      [
        'POST /api/user/signin HTTP/1.1',
        'host: localhost',
        'content-type: application/json',
        'transfer-encoding: chunked',
        'trailer: x-one',
        '',
        body.length.toString(16),
        body,
        '0',
        'x-one: GET /smuggled HTTP/1.1',
        '',
        '',
      ].join('\r\n'),
    );
    let said = '';
    socket.on('data', (text) => {
      said += text;
    });
    const heads = () => said.match(/HTTP\/1\.1 \d+/g) ?? [];
    const until = async (count: number) => {
      for (let tries = 0; tries < 200 && heads().length < count && !socket.destroyed; tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 20));
    };
    await until(1);
    t.match(heads()[0], /401$/);
    // On the same connection of the proxy, if it keeps one.
    for (let n = 0; n < 5; n += 1)
      t.equal((await ask(port, '/healthz')).status, 200, 'the next request is itself');
    t.notMatch(said, 'smuggled');
  });
}

t.test(
  'Caddy, with the Caddyfile: TLS, HTTP/2, streams, ranges, and a health check of its own',
  { skip: typeof tools === 'string' ? tools : false, timeout: 90_000 },
  async (t) => {
    if (typeof tools === 'string') return;
    const folder = await temporary(t);
    const [port, httpPort] = [await freePort(), await freePort()];
    const behind = await startBehind(t, port);
    const original = join(root, 'deploy', 'Caddyfile');
    const env = {
      DOMAIN: 'localhost',
      UPSTREAM: new URL(behind.service.base).host,
      XDG_DATA_HOME: folder,
      XDG_CONFIG_HOME: folder,
      HOME: folder,
    };
    const validated = spawnSync(tools.caddy, ['validate', '--adapter', 'caddyfile', '--config', original], {
      encoding: 'utf8',
      env: { ...process.env, ...env },
    });
    t.equal(validated.status, 0, validated.stderr);
    const formatted = spawnSync(tools.caddy, ['fmt', original], { encoding: 'utf8' });
    t.equal(formatted.stdout, await readFile(original, 'utf8'), 'it is formatted');

    // Ports of ours, and nothing of the machine is changed.
    const ours = `{\n\tskip_install_trust\n\tadmin off\n\tauto_https disable_redirects\n\thttp_port ${httpPort}\n\thttps_port ${port}\n`;
    const file = join(folder, 'Caddyfile');
    await writeFile(file, (await readFile(original, 'utf8')).replace(/^\{\n/m, ours));
    await startProgram(
      t,
      [tools.caddy, 'run', '--adapter', 'caddyfile', '--config', file],
      env,
      async () => (await ask(port, '/readyz')).status === 200,
    );
    await judge(t, port, behind);
    t.match((await ask(port, '/healthz')).headers, { 'strict-transport-security': /max-age/ });
  },
);

t.test(
  'nginx, with nginx.conf: the same, and media once asked for are in its cache under their address alone',
  { skip: hasNginx ? false : 'nginx is not installed: apt-get install nginx-light', timeout: 90_000 },
  async (t) => {
    const folder = await temporary(t);
    const [port, httpPort] = [await freePort(), await freePort()];
    const behind = await startBehind(t, port);
    await writeFile(join(folder, 'cert.pem'), selfSigned.cert);
    await writeFile(join(folder, 'key.pem'), selfSigned.key);
    await mkdir(join(folder, 'cache'));
    const site = (await readFile(join(root, 'deploy', 'nginx.conf'), 'utf8'))
      .replaceAll(/^\s*listen \[::\].*\n/gm, '')
      .replace('listen 80;', `listen 127.0.0.1:${httpPort};`)
      .replace('listen 443 ', `listen 127.0.0.1:${port} `)
      .replace('server 127.0.0.1:8080;', `server ${new URL(behind.service.base).host};`)
      .replace('/var/cache/nginx/animated-assets', join(folder, 'cache'))
      .replace(/\/etc\/letsencrypt\S*fullchain\.pem/, join(folder, 'cert.pem'))
      .replace(/\/etc\/letsencrypt\S*privkey\.pem/, join(folder, 'key.pem'));
    const temps = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const file = join(folder, 'nginx.conf');
    await writeFile(
      file,
      `daemon off; pid ${folder}/pid; user root; events {} http { access_log off; ${temps.join(' ')}\n${site}\n}`,
    );
    const tested = spawnSync('nginx', ['-t', '-c', file, '-e', join(folder, 'error.log')], {
      encoding: 'utf8',
    });
    t.equal(tested.status, 0, tested.stderr);
    const child = await startProgram(
      t,
      ['nginx', '-c', file, '-e', join(folder, 'error.log')],
      {},
      async () => (await ask(port, '/readyz')).status === 200,
    );
    // Killed, it would leave its workers behind.
    t.teardown(async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    });
    await judge(t, port, behind);
    const again = await ask(port, `${mediaPath}?any=thing`, { headers: { origin: 'https://page.example' } });
    t.match(again, { status: 200, headers: { 'x-cache': 'HIT' } });
    t.match(await ask(port, mediaPath, { headers: { range: 'bytes=990-' } }), {
      status: 206,
      headers: { 'x-cache': 'HIT', 'content-range': 'bytes 990-999/1000' },
    });
    const missing = mediaPath.replace('1-', '2-');
    for (const _ of [1, 2])
      t.match(await ask(port, missing), { status: 404, headers: { 'x-cache': 'MISS' } });
    t.equal((await ask(port, '/api/user/me')).headers['x-cache'], undefined);
    t.equal((await ask(port, '/api/user/me')).status, 401, 'answers for a user are kept for nobody');
  },
);
