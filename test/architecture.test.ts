/** The import table: who may import whom. A cruise that read too few files would pass anything, so it is counted. */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import t from 'tap';

const roots = ['schemas', 'machines', 'src'];
const files = roots.flatMap((root) =>
  readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('.d.ts'),
  ),
);

t.test('every import is one that the table allows', async (t) => {
  const output = execFileSync(
    process.execPath,
    [
      'node_modules/dependency-cruiser/bin/dependency-cruise.mjs',
      '--config',
      '.dependency-cruiser.mjs',
      '--output-type',
      'json',
      ...roots,
    ],
    { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, env: { ...process.env, NODE_OPTIONS: '' } },
  );
  const { modules, summary } = JSON.parse(output);
  const ours = modules.filter(
    ({ source }: { source: string }) =>
      /^(schemas|machines|src)\/.*\.ts$/.test(source) && !source.endsWith('.d.ts'),
  );
  t.equal(ours.length, files.length, `read all ${files.length} modules`);
  const dependencies = ours.reduce(
    (sum: number, { dependencies }: { dependencies: unknown[] }) => sum + dependencies.length,
    0,
  );
  t.ok(dependencies > files.length, `followed ${dependencies} imports`);
  t.strictSame(
    summary.violations.map(
      ({ rule, from, to }: { rule: { name: string }; from: string; to: string }) =>
        `${rule.name}: ${from} → ${to}`,
    ),
    [],
  );
});
