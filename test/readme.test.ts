/** The README's example works when pasted, and every command it names exists. */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import sharp from 'sharp';
import t from 'tap';
import { startTestService } from './fixtures/service.ts';

const readme = readFileSync('README.md', 'utf8');
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
const hasCurl = spawnSync('curl', ['--version']).status === 0;

t.test('every npm command it names is a script', async (t) => {
  const named = [...readme.matchAll(/npm (?:run )?([a-z-]+)/g)].map(([, name]) => name ?? '');
  t.ok(named.length > 5, 'found the commands');
  // Commands of npm's own.
  const npms = ['ci', 'pack', 'prune'];
  for (const name of new Set(named)) t.ok(name in scripts || npms.includes(name), name);
});

t.test('every folder on its map exists', async (t) => {
  const folders = [...readme.matchAll(/`((?:src|schemas|machines|test)\/[a-z/]*)`/g)].map(
    ([, name]) => name ?? '',
  );
  for (const folder of new Set(folders)) t.ok(statSync(folder).isDirectory(), folder);
});

t.test(
  'its example makes an animation',
  { skip: hasCurl ? false : 'curl is not installed', timeout: 120_000 },
  async (t) => {
    const service = await startTestService(t);
    const [, script = ''] =
      /<!-- executed by test\/readme.test.ts -->\n```sh\n([\s\S]*?)```/.exec(readme) ?? [];
    t.match(script, 'BASE=http://localhost:8080');
    const folder = mkdtempSync(join(tmpdir(), 'readme-'));
    mkdirSync(join(folder, 'src/demo'), { recursive: true });
    // Its photo, small: drawn sooner.
    await sharp('src/demo/photo.jpg').resize({ width: 240 }).toFile(join(folder, 'src/demo/photo.jpg'));
    const pasted = script.replace('http://localhost:8080', service.base);
    await promisify(execFile)('bash', ['-euc', pasted], { cwd: folder, timeout: 110_000 });

    const stored = readFileSync(join(folder, 'animation.mp4'));
    t.equal(stored.subarray(4, 8).toString('latin1'), 'ftyp', 'the file is an mp4');
    t.same(readFileSync(join(folder, 'proxied.mp4')), stored, 'the proxy serves the same bytes');
    execFileSync('rm', ['-rf', folder]);
  },
);
