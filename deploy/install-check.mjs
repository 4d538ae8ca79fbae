/**
 * Follows the README's production steps in a plain Debian and looks whether they are true: `npm run install-check`, some
 * minutes, as root.
 *
 *   1. debootstrap into a folder (or a copy of `--base`), with Node of this machine: Debian 12 has none that is new enough
 *   2. the commands of README.md between `install-check` marks, at the commit before, then a user, an asset, a webhook key
 *   3. a kill and a start again: everything is there
 *   4. the README's upgrade to the present commit: the data of before is served
 *   5. the README's backup, everything thrown away, the README's restore: everything is served again
 *
 * There is no systemd in it: the unit is read, and its command run as its user with its settings. What this machine needs to
 * reach packages (resolv.conf, certificates, the settings of npm and pip) is lent to the folder and goes with it.
 *
 *   --base folder   a plain Debian 12 to copy, instead of fetching one     --keep   leaves the folder there
 *   --from commit   the commit to upgrade from (default: the one before)
 */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const repository = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({
  options: { base: { type: 'string' }, keep: { type: 'boolean', default: false }, from: { type: 'string' } },
});
/** What the README takes for given. */
const packages = [
  'ca-certificates',
  'curl',
  'ffmpeg',
  'git',
  'openssl',
  'python3',
  'python3-pip',
  'xz-utils',
];
const folder = mkdtempSync(join(tmpdir(), 'install-check-'));
const root = join(folder, 'root');
const mounts = [];
const steps = [];
const port = 20_000 + (randomBytes(2).readUInt16BE() % 20_000);
const base = `http://127.0.0.1:${port}`;
const startMs = 120_000;
const stepMs = 15 * 60_000;

let service;

async function main() {
  if (process.getuid?.() !== 0) throw new Error('it takes root: debootstrap, mount and chroot');
  await step('a plain Debian', makeRoot);
  const before = git('rev-parse', values.from ?? 'HEAD~1');
  const present = git('rev-parse', 'HEAD');
  await step(`the README's installation, at ${before.slice(0, 12)}`, () => {
    git('clone', '-q', '--no-hardlinks', repository, join(root, 'srv', 'repository'));
    runReadme('install', { REPOSITORY: '/srv/repository', COMMIT: before });
    // The units of the present commit: the one before may not have had them.
    cpSync(join(repository, 'deploy/systemd'), join(root, 'opt/animated-assets/deploy/systemd'), {
      recursive: true,
    });
    runReadme('configure', {});
    inRoot('cd /opt/animated-assets && git clean -fdq deploy && git checkout -q -- deploy');
    takeSettings();
    runReadme('start', {});
  });
  const kept = await step('serves', async () => {
    await start();
    return use();
  });
  await step('survives a kill', async () => {
    await stop('SIGKILL');
    await start();
    await look(kept);
  });
  await step(`the README's upgrade, to ${present.slice(0, 12)}`, async () => {
    // Beside the service, which serves meanwhile.
    runReadme('upgrade', { COMMIT: present });
    // Nothing was heard while the commands ran: connections that were closed meanwhile are let go first.
    await wait(1_000);
    await look(kept);
    await stop('SIGTERM');
    await start();
    await look(kept);
  });
  await step("the README's backup", () => runReadme('backup', {}));
  await step("everything lost, the README's restore", async () => {
    await stop('SIGTERM');
    inRoot(
      'rm -rf /var/lib/animated-assets && install -d -o animated-assets -m 700 /var/lib/animated-assets',
    );
    runReadme('restore', {});
    await start();
    await look(kept);
  });
  await step('says that it is well', async () => {
    const report = JSON.parse(asService('node dist/src/cli.js doctor --json', true));
    const troubles = report.checks.flatMap(({ name, findings }) =>
      findings.filter(({ status }) => status === 'trouble').map(({ says }) => `${name}: ${says}`),
    );
    if (troubles.length > 0) throw new Error(troubles.join('\n'));
  });
}

async function makeRoot() {
  if (values.base) run('cp', ['-a', values.base, root]);
  else
    run('debootstrap', ['--variant=minbase', `--include=${packages.join(',')}`, 'bookworm', root, mirror()]);
  for (const [kind, name] of [
    ['proc', 'proc'],
    ['--bind', 'dev'],
  ]) {
    const at = join(root, name);
    mkdirSync(at, { recursive: true });
    run('mount', kind === 'proc' ? ['-t', 'proc', 'proc', at] : ['--bind', `/${name}`, at]);
    mounts.push(at);
  }
  lend();
  if (values.base) {
    inRoot(`set -e; apt-get update -q; apt-get install -y -q --no-install-recommends ${packages.join(' ')}`);
    // The package of certificates has made a bundle of its own.
    lend();
  }
  // Node, as its archive unpacks it.
  const node = dirname(dirname(process.execPath));
  cpSync(process.execPath, join(root, 'usr/bin/node'));
  const npm = [join(node, 'lib/node_modules/npm'), '/usr/lib/node_modules/npm'].find((one) =>
    existsSync(one),
  );
  cpSync(npm, join(root, 'usr/lib/node_modules/npm'), { recursive: true });
  inRoot('ln -sf ../lib/node_modules/npm/bin/npm-cli.js /usr/bin/npm');
  for (const [name, text] of Object.entries(programs))
    writeFileSync(join(root, 'usr/local/bin', name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

/** Where this machine's own packages come from. */
function mirror() {
  const files = ['/etc/apt/sources.list', '/etc/apt/sources.list.d/debian.sources'].filter((file) =>
    existsSync(file),
  );
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  return /^(?:deb|URIs:)\s+(?:\[.*?\]\s+)?(\S+)/m.exec(text)?.[1] ?? 'http://deb.debian.org/debian';
}

/** What reaching the registries takes here. */
function lend() {
  const home = homedir();
  const lent = [
    ['/etc/resolv.conf'],
    ['/etc/hosts'],
    ['/etc/apt/sources.list'],
    ['/etc/apt/sources.list.d'],
    ['/etc/apt/apt.conf.d'],
    ['/etc/ssl/certs/ca-certificates.crt'],
    ['/etc/pip.conf'],
    ['/etc/npmrc', '/usr/etc/npmrc'],
    [join(home, '.npmrc'), '/root/.npmrc'],
    [join(home, '.config/pip'), '/root/.config/pip'],
    ...[process.env.PIP_FIND_LINKS].filter((one) => one).map((one) => [one]),
  ];
  for (const [from, to = from] of lent) {
    if (!existsSync(from)) continue;
    mkdirSync(dirname(join(root, to)), { recursive: true });
    cpSync(from, join(root, to), { recursive: true, force: true, dereference: true });
  }
}

/** Runs the commands of a block of the README, with its example names replaced. */
function runReadme(name, variables) {
  const text = readFileSync(join(repository, 'README.md'), 'utf8');
  const block = new RegExp(`<!-- install-check: ${name} -->\\n+\`\`\`sh\\n([\\s\\S]*?)\`\`\``).exec(
    text,
  )?.[1];
  if (block === undefined) throw new Error(`README.md has no block install-check: ${name}`);
  const exports = Object.entries(variables)
    .map(([key, value]) => `export ${key}=${value}\n`)
    .join('');
  inRoot(`set -eu\ncd /\n${exports}\n${block}`);
}

/** Stand in for systemd: its unit is run by this script. */
const programs = {
  systemctl: 'echo "systemctl $*"',
  'systemd-run': 'while [ "$1" != -- ]; do shift; done\nshift\nexec sh /as-service "$@"',
};

/** A port of ours, and how the unit runs a command. */
function takeSettings() {
  const env = readFileSync(join(root, 'etc/animated-assets/env'), 'utf8')
    .replace(/^BASE_URL=.*$/m, `BASE_URL=${base}`)
    .concat(`PORT=${port}\n`);
  writeFileSync(join(root, 'etc/animated-assets/env'), env);
  const unit = readUnit();
  const settings = [...unit.environment, ...env.split('\n').filter((line) => /^[A-Z]\w*=/.test(line))];
  const credentials = '/run/credentials/animated-assets.service';
  writeFileSync(
    join(root, 'as-service'),
    [
      '#!/bin/sh',
      '# As the unit has it: its user, its folder, its settings, its credential.',
      `install -d -o ${unit.user} -m 500 ${credentials}`,
      `install -o ${unit.user} -m 400 ${unit.credential.split(':')[1]} ${credentials}/${unit.credential.split(':')[0]}`,
      `cd ${unit.folder}`,
      `exec setpriv --reuid=${unit.user} --regid=${unit.user} --clear-groups env -i PATH=/usr/bin:/bin HOME=/nonexistent \\`,
      ...settings.map((pair) => `  '${pair.replace('%d', credentials)}' \\`),
      '  "$@"',
      '',
    ].join('\n'),
  );
}

function readUnit() {
  const text = readFileSync(join(repository, 'deploy/systemd/animated-assets.service'), 'utf8');
  const all = (name) => [...text.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value);
  return {
    user: all('User')[0],
    folder: all('WorkingDirectory')[0],
    command: all('ExecStart')[0],
    credential: all('LoadCredential')[0],
    environment: all('Environment').flatMap((value) => value.split(' ')),
  };
}

async function start() {
  const { command } = readUnit();
  service = spawn('chroot', [root, 'sh', '/as-service', ...command.split(' ')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let said = '';
  for (const stream of [service.stdout, service.stderr])
    stream.on('data', (text) => {
      said = `${said}${text}`.slice(-4_000);
    });
  for (const endAt = Date.now() + startMs; Date.now() < endAt; await wait(250)) {
    if (service.exitCode !== null) throw new Error(`the service ended:\n${said}`);
    const answer = await fetch(`${base}/readyz`).catch(() => undefined);
    if (answer?.ok) return;
  }
  throw new Error(`the service is not ready:\n${said}`);
}

async function stop(signal) {
  if (service === undefined || service.exitCode !== null || service.signalCode !== null) return;
  const ended = once(service, 'exit');
  // KillMode=mixed: the main process is told, what is left of its group is killed.
  process.kill(service.pid, signal);
  await ended;
  try {
    process.kill(-service.pid, 'SIGKILL');
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/** A user, an animation, a signed address: what must be there for ever after. */
async function use() {
  const email = `${randomBytes(6).toString('hex')}@example.com`;
  const password = 'correct horse battery';
  const signedUp = await post('/api/user/signup', { email, password, name: 'Me' });
  const cookie = signedUp.headers.getSetCookie()[0].split(';')[0];
  const [{ id: project }] = (await get('/api/projects', cookie)).projects;
  const form = new FormData();
  form.set('file', new Blob([readFileSync(join(repository, 'src/demo/photo.jpg'))]), 'photo.jpg');
  const uploaded = await fetch(`${base}/api/v1/upload`, { method: 'POST', headers: { cookie }, body: form });
  const { url: src } = await uploaded.json();
  const wish = { project_id: project, src, mode: 'animate-in', motion: 'subtle', dur_seconds: 2 };
  const { asset_id: id } = await (await post('/api/v1/prepare', wish, cookie)).json();
  for (const endAt = Date.now() + startMs; Date.now() < endAt; await wait(500)) {
    const { asset } = await get(`/api/assets/${id}`, cookie);
    if (asset.status === 'failed') throw new Error(`the animation failed: ${asset.error_msg}`);
    if (asset.status === 'ready') return { email, password, id, mp4: asset.mp4_url, bytes: asset.bytes };
  }
  throw new Error('the animation does not come');
}

async function look({ email, password, id, mp4, bytes }) {
  const signedIn = await post('/api/user/signin', { email, password });
  const cookie = signedIn.headers.getSetCookie()[0].split(';')[0];
  const { asset } = await get(`/api/assets/${id}`, cookie);
  if (asset.status !== 'ready' || asset.mp4_url !== mp4)
    throw new Error(`the asset is ${JSON.stringify(asset)}`);
  const media = await fetch(mp4);
  const length = (await media.arrayBuffer()).byteLength;
  if (media.status !== 200 || length !== bytes)
    throw new Error(`its media answer ${media.status}, ${length} bytes`);
}

async function post(path, body, cookie) {
  const headers = { 'content-type': 'application/json', ...(cookie ? { cookie } : {}) };
  const answer = await fetch(`${base}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (answer.ok) return answer;
  throw new Error(`${path} answers ${answer.status} ${await answer.text()}`);
}

async function get(path, cookie) {
  const answer = await fetch(`${base}${path}`, { headers: { cookie } });
  if (answer.ok) return answer.json();
  throw new Error(`${path} answers ${answer.status} ${await answer.text()}`);
}

function inRoot(script) {
  return run('chroot', [root, '/bin/bash', '-c', script], {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    DEBIAN_FRONTEND: 'noninteractive',
    LC_ALL: 'C.UTF-8',
    NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt',
    PIP_CERT: '/etc/ssl/certs/ca-certificates.crt',
    ...(process.env.PIP_FIND_LINKS ? { PIP_FIND_LINKS: process.env.PIP_FIND_LINKS } : {}),
  });
}

/** Runs a command as the service would, and answers what it prints; its exit code is not judged when `isAnyEnd`. */
function asService(command, isAnyEnd) {
  const { stdout, stderr, status } = spawnSync('chroot', [root, 'sh', '/as-service', ...command.split(' ')], {
    encoding: 'utf8',
    timeout: stepMs,
  });
  if (status === 0 || isAnyEnd) return stdout;
  throw new Error(`${command} ended with ${status}:\n${stderr}`);
}

function git(...args) {
  return run('git', ['-C', repository, ...args]).trim();
}

function run(program, args, env = process.env) {
  const { stdout, stderr, status, error } = spawnSync(program, args, {
    encoding: 'utf8',
    env,
    timeout: stepMs,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === 0) return stdout;
  const said = `${error?.message ?? ''}${stdout ?? ''}${stderr ?? ''}`.slice(-4_000);
  throw new Error(`${program} ${args.join(' ').slice(0, 200)} ended with ${status}:\n${said}`);
}

async function step(name, work) {
  const beganAt = performance.now();
  console.log(`… ${name}`);
  const result = await work();
  steps.push(name);
  console.log(`✓ ${name} (${((performance.now() - beganAt) / 1_000).toFixed(1)} s)`);
  return result;
}

async function cleanUp() {
  await stop('SIGKILL').catch(() => undefined);
  if (values.keep) return console.log(`left in ${root}: unmount ${mounts.join(', ')} before it is removed`);
  for (const at of mounts.reverse()) {
    // A tree with something mounted in it must not be removed.
    for (let tries = 1; spawnSync('umount', [at]).status !== 0; tries += 1) {
      if (tries === 20) return console.error(`${at} cannot be unmounted: ${folder} is left there`);
      await wait(250);
    }
  }
  rmSync(folder, { recursive: true, force: true });
}

try {
  await main();
  console.log(`${steps.length} passed, 0 failed`);
} catch (error) {
  console.error(`✗ ${error.message}`);
  console.log(`${steps.length} passed, 1 failed`);
  process.exitCode = 1;
} finally {
  await cleanUp();
}
