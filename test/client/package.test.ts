/** The package as customers get it: packed, unpacked elsewhere, and used from JavaScript and TypeScript. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';

const run = promisify(execFile);

t.test('npm pack: the client runs without any other package, and its types say what is wrong', async (t) => {
  const folder = t.testdir({ source: {}, user: { node_modules: { 'animated-asset-service': {} } } });
  const source = join(folder, 'source');
  for (const name of ['package.json', 'tsconfig.json', 'LICENSE', 'schemas', 'src/client'])
    cpSync(name, join(source, name), { recursive: true });
  symlinkSync(resolve('node_modules'), join(source, 'node_modules'));
  const { stdout } = await run('npm', ['pack', '--json', '--silent', '--offline'], { cwd: source });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as {
    filename: string;
    files: { path: string }[];
  }[];
  const files = packed?.files.map(({ path }) => path) ?? [];
  t.ok(files.includes('dist/src/client/client.d.ts'));
  t.strictSame(
    files.filter(
      (path) => !/^(dist\/(src\/client|schemas)\/[\w-]+\.(js|d\.ts)|package\.json|LICENSE)$/.test(path),
    ),
    [],
    'nothing else is in it',
  );
  const user = join(folder, 'user');
  const home = join(user, 'node_modules', 'animated-asset-service');
  await run('tar', ['xzf', join(source, packed?.filename ?? ''), '--strip-components=1', '-C', home]);

  const plain = `
    import { createClient, ServiceError, signUrl } from 'animated-asset-service/client';
    const client = createClient({ baseUrl: 'http://127.0.0.1:9', maxRetries: 0 });
    const cause = await client.usage().catch((error) => error);
    console.log(cause instanceof ServiceError, cause.code);
    console.log(await signUrl({ baseUrl: '', key: 'pk_1', secret: 'sk_1', source: 'asset:a', expiresTs: 0 }));`;
  writeFileSync(join(user, 'plain.mjs'), plain);
  writeFileSync(join(user, 'package.json'), '{"type":"module"}');
  const printed = await run(process.execPath, ['plain.mjs'], { cwd: user });
  t.match(printed.stdout, /^true unreachable\n\/v1\/pk_1\/a\/a\.mp4\?exp=0&sig=[\w-]{43}\n$/);

  // Types are made of zod's, which npm installs with the package.
  symlinkSync(resolve('node_modules/zod'), join(user, 'node_modules', 'zod'));
  mkdirSync(join(user, 'node_modules', '@types'));
  symlinkSync(resolve('node_modules/@types/node'), join(user, 'node_modules', '@types', 'node'));
  symlinkSync(resolve('node_modules/undici-types'), join(user, 'node_modules', 'undici-types'));
  const typed = `
    import { type Asset, createClient, ServiceError } from 'animated-asset-service/client';
    const client = createClient({ baseUrl: '', token: 'sat_1' });
    export async function play(src: string): Promise<string> {
      const begun = await client.assets.prepare({ project_id: 'p', src, mode: 'loop' });
      const asset: Asset = await client.assets.get(begun.asset_id).then((one) => one.asset);
      // @ts-expect-error it is null until the asset is ready
      const url: string = asset.mp4_url;
      // @ts-expect-error there is no such mode
      await client.assets.prepare({ project_id: 'p', src, mode: 'spin' });
      for await (const { event } of client.events.asset(begun.asset_id)) if (event === 'ready') break;
      try {
        return (await client.assets.waitFor(begun)).mp4_url + url;
      } catch (cause) {
        if (cause instanceof ServiceError && cause.code === 'monthly_limit_reached') return cause.upgradeUrl ?? '';
        throw cause;
      }
    }`;
  writeFileSync(join(user, 'typed.ts'), typed);
  const settings = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: ['node'],
  };
  writeFileSync(
    join(user, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: settings, files: ['typed.ts'] }),
  );
  const checked = await run(process.execPath, [resolve('node_modules/typescript/bin/tsc')], {
    cwd: user,
  }).catch((cause: { stdout: string }) => cause);
  t.equal(checked.stdout, '');
  const { version } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { version: string };
  t.match(version, /^\d+\.\d+\.\d+$/);
});
