/** Every test file runs once in the whole suite: by itself, or with others that .taprc leaves out for their group. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { root } from './fixtures/servers.ts';
import { filesOf } from './fixtures/together.ts';

/** What the suite leaves to commands of its own. */
const elsewhere = ['test/redbot/**', 'test/alerts/**', 'test/cluster/cluster.test.ts'];

const groups = join(root, 'test', 'groups');
const patterns = readdirSync(groups).flatMap((name) =>
  [...readFileSync(join(groups, name), 'utf8').matchAll(/^ {2}'(test\/.+)',$/gm)].map(([, one = '']) => one),
);

t.test('what .taprc leaves out is what the groups hold', async (t) => {
  const { exclude }: { exclude: string[] } = parse(readFileSync(join(root, '.taprc'), 'utf8'));
  t.ok(patterns.length > 0);
  t.strictSame(exclude.filter((one) => !elsewhere.includes(one)).sort(), [...patterns].sort());
});

t.test('no file is in two groups, and each is there', async (t) => {
  const files = patterns.flatMap(filesOf);
  const all = new Set(readdirSync(join(root, 'test'), { recursive: true }).map((name) => `test/${name}`));
  t.equal(new Set(files).size, files.length);
  t.strictSame(
    files.filter((file) => !all.has(file)),
    [],
  );
});

t.test('none has subtests at the same time: inside another tap shows one of them for the next', async (t) => {
  const isParallel = (file: string) =>
    /^t\.jobs|buffered:\strue/m.test(readFileSync(join(root, file), 'utf8'));
  t.ok(isParallel('test/client/client.test.ts') || isParallel('test/embed/embed.test.ts'));
  t.strictSame(patterns.flatMap(filesOf).filter(isParallel), []);
});
