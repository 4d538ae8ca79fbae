/**
 * Goes through the steps of deploy/Dockerfile in plain folders, without an engine: `npm run image-check`.
 *
 * Each stage is a folder. COPY copies what .dockerignore lets through, RUN runs in the folder that WORKDIR names; commands
 * for apt and the making of /data are left out. Then the image's own command is started with the image's settings, as a
 * user without rights on files that it cannot write to, and prints its help; and the operators' command line with it.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'image-check-'));
const stepMs = 10 * 60_000;
/** Steps for the distribution, which a plain folder does not have. */
const isForSystem = (command) => command.includes('apt-get');

const stages = [];

const steps = {
  FROM(text) {
    const name = / AS (\w+)/i.exec(text)?.[1];
    const stage = { name, root: join(folder, `stage-${stages.length}`), cwd: '/', env: {} };
    mkdirSync(stage.root);
    stages.push(stage);
  },
  WORKDIR(text, stage) {
    stage.cwd = text;
    mkdirSync(join(stage.root, text), { recursive: true });
  },
  COPY(text, stage) {
    const [, from] = /^--from=(\w+) /.exec(text) ?? [];
    const parts = text.replace(/^--from=\w+ /, '').split(/\s+/);
    const to = parts.pop();
    const source = from === undefined ? repository : stages.find(({ name }) => name === from).root;
    const target = join(stage.root, to.startsWith('/') ? to : join(stage.cwd, to));
    for (const path of parts.flatMap((part) => expand(source, part))) {
      if (from === undefined && !isSent(path)) throw new Error(`COPY ${path}: .dockerignore keeps it back`);
      const isInto = to.endsWith('/') || parts.length > 1 || to === './';
      cpSync(join(source, path), isInto ? join(target, basename(path)) : target, { recursive: true });
    }
  },
  RUN(text, stage) {
    if (isForSystem(text)) return console.log(`  left out: ${text.slice(0, 80)} …`);
    run('sh', ['-c', text], join(stage.root, stage.cwd), { ...process.env, ...stage.env });
  },
  ENV(text, stage) {
    for (const [, name, value] of text.matchAll(/(\w+)=(\S+)/g)) stage.env[name] = value;
  },
  CMD(text, stage) {
    stage.command = JSON.parse(text);
  },
  USER: () => undefined,
  VOLUME: () => undefined,
  EXPOSE: () => undefined,
  HEALTHCHECK: () => undefined,
};

function main() {
  const text = readFileSync(join(repository, 'deploy/Dockerfile'), 'utf8');
  const lines = text
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
  for (const line of lines) {
    const [, name, rest] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    if (steps[name] === undefined) throw new Error(`an instruction that is not known here: ${line}`);
    console.log(`… ${line.slice(0, 100)}`);
    steps[name](rest, stages.at(-1));
  }
  const { root, cwd, env, command } = stages.at(-1);
  const data = join(folder, 'data');
  mkdirSync(data);
  for (const path of [folder, root]) chmodSync(path, 0o755);
  run('chmod', ['-R', 'a-w', root], root, process.env);
  const nobody =
    process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : [];
  const settings = { PATH: process.env.PATH, ...env, DATA_DIR: data, FFMPEG_PATH: '' };
  const start = (args) => {
    const [program, ...rest] = [...nobody, process.execPath, ...args];
    return run(program, rest, join(root, cwd), settings);
  };
  const help = start([...command.slice(1), '--help']);
  if (!help.includes('MONGODB_URL')) throw new Error(`its command says: ${help}`);
  const admin = start(['dist/src/cli.js', 'help']);
  if (!admin.includes('doctor')) throw new Error(`its operators' command says: ${admin}`);
  const packages = readdirSync(join(root, cwd, 'node_modules'));
  for (const dev of ['typescript', 'tap'])
    if (packages.includes(dev)) throw new Error(`${dev} is in the image`);
  console.log('1 passed, 0 failed');
}

/** `*` stands for any name that ends as the rest does. */
function expand(source, path) {
  const plain = path.replace(/^\//, '');
  if (!plain.includes('*')) {
    if (!existsSync(join(source, plain))) throw new Error(`COPY ${path}: there is none`);
    return [plain];
  }
  const ending = plain.slice(plain.indexOf('*') + 1);
  return readdirSync(join(source, dirname(plain)))
    .filter((name) => name.endsWith(ending))
    .map((name) => join(dirname(plain), name));
}

function isSent(path) {
  const lets = readFileSync(join(repository, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1));
  return lets.some((one) =>
    one.includes('*')
      ? path.endsWith(one.slice(one.indexOf('*') + 1))
      : path.split('/')[0] === one || path === one,
  );
}

function run(program, args, cwd, env) {
  const { stdout, stderr, status, error } = spawnSync(program, args, {
    encoding: 'utf8',
    cwd,
    env,
    timeout: stepMs,
  });
  if (status === 0) return stdout;
  throw new Error(
    `${program} ${args.join(' ').slice(0, 100)}: ${error?.message ?? ''}${stdout}${stderr}`.slice(0, 4_000),
  );
}

try {
  main();
} catch (error) {
  console.error(`✗ ${error.message}`);
  console.log('0 passed, 1 failed');
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
