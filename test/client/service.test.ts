/** The typed client and the command line against the real service, and an example as a stranger would write it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import sharp from 'sharp';
import t from 'tap';
import { createClient, proxyUrl, ServiceError, signUrl } from '../../src/client/client.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { launchChromium, skip } from '../fixtures/chromium.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

const service = await startTestService(t);
const user = await service.signUp();
const { projectId } = user;
const { baseUrl } = { baseUrl: service.base };
const byCookie = createClient({ baseUrl, headers: { cookie: user.cookie } });
const { token } = await byCookie.tokens.create({ name: 'test' });
const client = createClient({ baseUrl, token });
const photo = await sharp({ create: { width: 96, height: 64, channels: 3, background: '#27a' } })
  .jpeg()
  .toBuffer();
const sources = await serveSources(t, (request, response) => {
  if (request.url === '/none.jpg') response.writeHead(404).end();
  else response.setHeader('content-type', 'image/jpeg').end(photo);
});
const short = { mode: 'animate-in', dur_seconds: 2 } as const;

t.test(
  'an image becomes an animation that plays by a signed address; its events are told on the way',
  async (t) => {
    const leaving = new AbortController();
    const told: string[] = [];
    const following = (async () => {
      for await (const { event } of client.events.project(projectId, { signal: leaving.signal }))
        told.push(event);
    })().catch(() => undefined);
    const { url } = await client.assets.upload(new Uint8Array(photo));
    const begun = await client.assets.prepare({ project_id: projectId, src: url, ...short });
    const asset = await client.assets.waitFor(begun);
    t.equal(asset.status, 'ready');
    t.equal((await fetch(asset.mp4_url)).headers.get('content-type'), 'video/mp4');
    t.strictSame(
      (await client.assets.timeline(asset.asset_id)).events.map(({ event }) => event).at(-1),
      'ready',
    );
    const { project } = await client.projects.configureProxy(projectId, { enable_signing: true });
    const [key, secret] = [project.proxy_key ?? '', project.signing_secret ?? ''];
    const signed = await signUrl({ baseUrl, key, secret, source: `asset:${asset.asset_id}` });
    t.equal((await fetch(signed)).status, 200);
    const forged = signed.replace(/sig=(.)/, (_, first) => `sig=${first === 'A' ? 'B' : 'A'}`);
    t.equal((await fetch(forged)).status, 403, forged);
    t.equal((await fetch(proxyUrl({ baseUrl, key, source: `asset:${asset.asset_id}` }))).status, 403);
    leaving.abort();
    await following;
    t.ok(told.includes('ready') && told.includes('queued'), told.join());
  },
);

t.test('what the service refuses comes as its code; a run that fails, as that of the run', async (t) => {
  const code = (promise: Promise<unknown>) =>
    promise.then(
      () => 'none',
      (cause: unknown) => (cause instanceof ServiceError ? cause.code : String(cause)),
    );
  const begun = await client.assets.prepare({ project_id: projectId, src: `${sources}/none.jpg` });
  t.equal(await code(client.assets.waitFor(begun)), 'source_unfetchable');
  t.equal(await code(client.assets.get('ast_none')), 'not_found');
  t.equal(await code(client.assets.prepare({ project_id: projectId, src: 'no URL' })), 'invalid_request');
  t.equal(await code(client.tokens.create({ name: 'more' })), 'not_with_api_token');
  t.equal(await code(createClient({ baseUrl }).usage()), 'authentication_required');
  t.equal(await code(client.events.asset('ast_none').next()), 'not_found');
  const project = { name: 'Twice' };
  const key = { idempotencyKey: 'the-same' };
  const [one, two] = [await client.projects.create(project, key), await client.projects.create(project, key)];
  t.equal(one.project.id, two.project.id, 'two calls with one key are one');
  t.equal((await client.usage()).plan, 'team');
});

const home = mkdtempSync(join(tmpdir(), 'cli-'));
t.teardown(() => rmSync(home, { recursive: true, force: true }));

/** Runs the command line as a user whose settings are in `home`. */
async function cli(...args: string[]) {
  const { SERVICE_TOKEN: _token, SERVICE_URL: _url, ...env } = process.env;
  const child = spawn(process.execPath, ['dist/src/client/cli.js', ...args], {
    env: {
      ...env,
      NODE_OPTIONS: '',
      XDG_CONFIG_HOME: home,
      SERVICE_EMAIL: user.email,
      SERVICE_PASSWORD: 'correct horse battery',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => {
    out += data.toString();
  });
  child.stderr.on('data', (data: Buffer) => {
    err += data.toString();
  });
  const [code] = (await once(child, 'close')) as [number];
  return { code, out, err };
}

t.test('the command line signs in once, in a file of its user alone, and out again', async (t) => {
  t.match(await cli('login', '--base', baseUrl), { code: 0, out: `signed in at ${baseUrl}` });
  const file = join(home, 'animated-assets', 'cli.json');
  t.equal(statSync(file).mode & 0o777, 0o600);
  const kept = JSON.parse(readFileSync(file, 'utf8')) as { token: string };
  t.match(kept, { base: baseUrl, token: /^sat_/ });

  const image = join(home, 'photo.jpg');
  writeFileSync(image, photo);
  const mp4 = join(home, 'out.mp4');
  const made = await cli('prepare', image, '--mode', 'animate-in', '--dur', '2', '--out', mp4, '--json');
  t.match(made, { code: 0, err: '' });
  const asset = JSON.parse(made.out) as { asset_id: string; status: string };
  t.equal(asset.status, 'ready');
  t.equal(readFileSync(mp4).subarray(4, 8).toString('latin1'), 'ftyp');

  const [watched, listed, usage, failed, elsewhere] = await Promise.all([
    cli('watch', asset.asset_id),
    cli('assets', '--status', 'ready'),
    cli('usage'),
    cli('prepare', `${sources}/none.jpg`, '--wait'),
    cli('whoami', '--base', 'http://127.0.0.1:9'),
  ]);
  t.match(watched, { code: 0, out: /queued[\s\S]* ready .*http/ });
  t.match(listed.out, asset.asset_id);
  t.match(usage.out, /generations {2}\d+ of 500/);
  t.match(failed, { code: 4, err: /source_unfetchable/ });
  t.match(elsewhere, { code: 5, err: /cannot be reached/ }, 'the token goes to no other service');
  const [signed, refused, deliveries] = await Promise.all([
    cli('sign', 'https://x.example/a.png', '--key', 'pk_1', '--secret', 'sk_1', '--motion', 'kinetic'),
    cli('whoami', '--token', 'sat_wrong', '--json'),
    cli('deliveries', '--json'),
  ]);
  const out = await cli('logout');
  t.match(signed.out, new RegExp(`^${baseUrl}/v1/pk_1/[\\w-]+\\.mp4\\?exp=\\d+&sig=[\\w-]{43}\n$`));
  t.equal(refused.code, 3);
  t.match(JSON.parse(refused.err), { code: 'authentication_required', status: 401 });
  t.ok(Array.isArray((JSON.parse(deliveries.out) as { deliveries: unknown[] }).deliveries));
  t.equal(out.code, 0);
  t.notOk(existsSync(file));
  const revoked = await createClient({ baseUrl, token: kept.token })
    .usage()
    .catch((cause: ServiceError) => cause);
  t.match(revoked, { status: 401 }, 'the token is revoked');
});

t.test('a wrong command line says what is right', async (t) => {
  const [none, unknown, option, help, number] = await Promise.all([
    cli(),
    cli('prepair'),
    cli('prepare', 'x', '--speed', '3'),
    cli('prepare', '--help'),
    cli('assets', '--limit', 'x', '--base', baseUrl),
  ]);
  t.match(none, { code: 0, out: /usage: npm run cli -- <command>[\s\S]*prepare <file\|url>/ });
  t.match(unknown, { code: 2, err: /no command prepair/ });
  t.match(option, { code: 2, err: /--speed[\s\S]*prepare --help/ });
  t.match(help, { code: 0, out: /--wait {2,}until it can be played/ });
  t.match(number, { code: 2, err: /--limit is no whole number/ });
});

t.test(
  'the example of the guide, a shop of forty lines, shows an animation in a browser',
  { skip, timeout: 120_000 },
  async (t) => {
    const guide = readFileSync('src/docs/guides/example.md', 'utf8');
    const [, script = ''] = /~~~js example\n([\s\S]*?)~~~/.exec(guide) ?? [];
    const lines = script.split('\n').filter((line) => line.trim() !== '');
    t.ok(lines.length > 20 && lines.length <= 40, `${lines.length} lines`);
    const folder = mkdtempSync(join(resolve('.cache'), 'example-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'shop.mjs');
    writeFileSync(
      file,
      script.replace('animated-asset-service/client', resolve('dist/src/client/client.js')),
    );
    const port = await freePort();
    const shop = spawn(process.execPath, [file], {
      env: {
        ...process.env,
        PORT: String(port),
        SERVICE_URL: baseUrl,
        SERVICE_TOKEN: token,
        PHOTO: `${sources}/shoe.jpg`,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => shop.kill());
    const started = await Promise.race([once(shop.stdout, 'data'), once(shop, 'exit')]);
    t.match(String(started[0]), /^http/, 'the shop is open');
    const browser = await launchChromium();
    t.teardown(() => browser.close());
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.waitForSelector('animated-asset[state=playing]', { timeout: 60_000 });
    t.match(await page.textContent('h1'), 'Shoe');
    const answer = await fetch(`http://127.0.0.1:${port}/hook`, { method: 'POST', body: '{}' });
    t.equal(answer.status, 400, 'a webhook that nobody has signed');
  },
);
