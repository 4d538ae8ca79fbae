/**
 * The examples of the guides work as they stand. A fence with `run=<name>` is handed to the row of that name; one
 * without a row fails, and so does a row without its fence.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import sharp from 'sharp';
import t, { type Test } from 'tap';
import { signUrl } from '../../src/auth/signed-url.ts';
import { commands } from '../../src/client/commands.ts';
import { signWebhook } from '../../src/client/webhooks.ts';
import { readGuides } from '../../src/docs/guides.ts';
import { startTestService } from '../fixtures/service.ts';

const base = 'http://localhost:8080';
const fences = new Map<string, string>();
for (const { text } of readGuides(base)) {
  for (const [, name = '', code = ''] of text.matchAll(/^~~~\w+ run=([\w-]+)\n([\s\S]*?)^~~~$/gm))
    fences.set(name, `${fences.get(name) ?? ''}${code}`);
}

const run = promisify(execFile);
const service = await startTestService(t);
const key = 'pk_abc';
const secret = 'sk_secret';
const source = 'https://example.com/cat.png#motion=kinetic&dur=4';

/** Runs a module beside this project's packages, and answers what it prints. */
async function runModule(t: Test, code: string, env: Record<string, string> = {}): Promise<string> {
  const file = join(t.testdir({}), 'example.mjs');
  const client = resolve('dist/src/client/client.js');
  writeFileSync(file, code.replaceAll("'animated-asset-service/client'", `'${client}'`));
  // What it runs is not what is measured here.
  return (await run(process.execPath, [file], { env: { ...process.env, NODE_OPTIONS: '', ...env } })).stdout;
}

/** The photo of the examples, small: what it becomes has as many pixels, and is drawn sooner. */
async function copyPhoto(to: string): Promise<string> {
  await sharp('src/demo/photo.jpg').resize({ width: 120 }).toFile(to);
  return to;
}

/** An address is that of the service, for the time that it names. */
function isRight(t: Test, url: string, of: string) {
  const { pathname, search, searchParams } = new URL(url.trim());
  t.equal(pathname + search, signUrl({ key, secret, source: of }, Number(searchParams.get('exp')) * 1_000));
}

/** Beside the folder of the example, which each example has to itself. */
const scratch = mkdtempSync(join(tmpdir(), 'guides-'));
t.teardown(() => rmSync(scratch, { recursive: true, force: true }));

const rows: Record<string, (t: Test, code: string) => Promise<void>> = {
  async 'quick-start'(t, code) {
    const folder = t.testdir({});
    await copyPhoto(join(folder, 'photo.jpg'));
    // Its end counts, not that of the stream which it leaves behind.
    const shell = spawn('bash', ['-euc', code.replace(base, service.base)], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
      timeout: 100_000,
    });
    t.strictSame(await once(shell, 'exit'), [0, null]);
    const stored = readFileSync(join(folder, 'animation.mp4'));
    t.equal(stored.subarray(4, 8).toString('latin1'), 'ftyp');
    t.same(readFileSync(join(folder, 'proxied.mp4')), stored);
  },
  async 'signed-url'(t, code) {
    const own = code.replace(
      /^signedUrl\(.*$/m,
      `console.log(signedUrl('${base}', '${key}', '${secret}', '${source}'));`,
    );
    isRight(t, await runModule(t, own), source);
  },
  async 'signed-url-python'(t, code) {
    const call = `print(signed_url("${base}", "${key}", "${secret}", "${source}"))`;
    isRight(t, (await run('python3', ['-c', `${code}\n${call}`])).stdout, source);
  },
  async 'proxy-url'(t, code) {
    const printed = await runModule(t, `${code}\nconsole.log(url);`);
    const [, encoded = ''] = /\/([\w-]+)\.mp4\?motion=medium/.exec(printed) ?? [];
    t.equal(Buffer.from(encoded, 'base64url').toString(), 'https://example.com/cat.png');
  },
  async 'is-genuine'(t, code) {
    const whsec = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    const headers = JSON.stringify(signWebhook(whsec, 'evt_1', '{}'));
    const calls = [`'${whsec}', ${headers}, '{}'`, `'${whsec}', ${headers}, '{ }'`];
    const printed = await runModule(
      t,
      `${code}\n${calls.map((one) => `console.log(isGenuine(${one}));`).join('\n')}`,
    );
    t.equal(printed, 'true\nfalse\n');
  },
  async client(t, code) {
    const user = await service.signUp();
    const made = await user.call<{ token: string }>('POST', '/api/user/tokens', { name: 'guide' });
    const photo = `const photo = (await import('node:fs')).readFileSync('${await copyPhoto(join(scratch, 'photo.jpg'))}');`;
    const env = { SERVICE_URL: service.base, SERVICE_TOKEN: made.body.token };
    const following = `const projectId = projects[0].id; setTimeout(() => client.assets.prepare({ project_id: projectId, src: '${service.base}/none.png' }), 500);`;
    const events = fences.get('client-events') ?? '';
    const printed = await runModule(t, `${photo}\n${code}\n${following}\n${events}`, env);
    t.match(
      printed,
      /queued[\s\S]*stage_completed[\s\S]*ready[\s\S]*\/media\/ast_\w+\/[\w-]+\.mp4\nfailed ast_/,
    );
  },
  // Runs behind the one above, with its project.
  'client-events': async (t, code) => void t.match(code, /for await/),
  async 'client-sign'(t, code) {
    const own = code.replaceAll('pk_…', key);
    const payload = JSON.stringify({ id: 'evt_1', type: 'asset.test', data: {} });
    const whsec = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
    const headers = JSON.stringify(signWebhook(whsec, 'evt_1', payload));
    const request = `new Request('http://x', { method: 'POST', headers: ${headers}, body: '${payload}' })`;
    const printing = `console.log(url); console.log(await (await receive(${request})).text());`;
    const env = { SIGNING_SECRET: secret, WEBHOOK_SECRET: whsec };
    const [url = '', type] = (await runModule(t, `${own}\n${printing}`, env)).split('\n');
    isRight(t, url, source);
    t.equal(type, 'asset.test');
  },
  async cli(t, code) {
    for (const line of code.trim().split('\n')) {
      const [, name = '', rest = ''] = /^npm run cli -- (\w+)(.*)$/.exec(line) ?? [];
      const options = [...rest.matchAll(/--([\w-]+)/g)].map(([, option]) => option ?? '');
      const known = { base: {}, token: {}, json: {}, ...commands[name]?.options };
      t.ok(Object.hasOwn(commands, name), line);
      for (const option of options) t.ok(Object.hasOwn(known, option), `${line}: --${option}`);
    }
  },
  async admin(t, code) {
    const { stdout } = await run(process.execPath, ['dist/src/cli.js', 'help']);
    for (const line of code.trim().split('\n')) {
      const [, name = ''] = /^npm run (admin -- \w+ \w+(?: end)?)/.exec(line) ?? [];
      t.ok(name !== '' && stdout.includes(name), line);
    }
  },
};

const needs: Record<string, string> = { 'quick-start': 'curl', 'signed-url-python': 'python3' };

t.test('every example that is to be run has its row, and every row its example', async (t) => {
  t.strictSame([...fences.keys()].sort(), Object.keys(rows).sort());
});

for (const [name, code] of fences) {
  const program = needs[name];
  const isThere = program === undefined || spawnSync(program, ['--version']).status === 0;
  t.test(
    `the example ${name} works`,
    { skip: isThere ? false : `${program} is not installed`, timeout: 120_000 },
    (t) => rows[name]?.(t, code) ?? Promise.reject(new Error(`no row for ${name}`)),
  );
}
