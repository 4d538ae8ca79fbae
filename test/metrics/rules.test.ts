/** The rules of alerts: what promtool says of them, and the runbook of each. They fire in earnest in test/alerts. */
import { execFile, spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import t from 'tap';

const rulesFile = 'deploy/prometheus/alerts.yml';
const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
const skip = hasPromtool ? false : 'promtool is not installed (Debian: apt-get install prometheus)';
const rules = await readFile(rulesFile, 'utf8');
const alerts = [...rules.matchAll(/- alert: (\w+)\n +expr: (.+)\n[^-]*?runbook_url: (\S+)/g)].map(
  ([, name = '', expr = '', url = '']) => ({ name, expr, path: new URL(url).pathname }),
);
const runbookOf = (path: string) => readFile(`src/docs/guides/runbooks/${path.split('/').at(-1)}.md`, 'utf8');

t.test('every alert has its runbook, with its own rule', async (t) => {
  t.ok(alerts.length >= 12);
  t.equal(alerts.length, rules.match(/- alert:/g)?.length);
  for (const { name, expr, path } of alerts) {
    const text = await runbookOf(path);
    t.ok(text.startsWith(`# ${name}\n`), name);
    t.ok(text.includes(`\`${expr}\``), `${name}: the rule is that of ${rulesFile}`);
    for (const part of ['What to look at', 'What to do', 'How to be sure']) t.ok(text.includes(part), name);
  }
});

t.test('promtool accepts the rules, and they fire when they should', { skip }, async (t) => {
  const check = await promisify(execFile)('promtool', ['check', 'rules', rulesFile]);
  t.match(check.stdout, new RegExp(`${alerts.length} rules found`));
  const test = await promisify(execFile)('promtool', ['test', 'rules', 'test/metrics/alerts.promtool.yml']);
  t.match(test.stdout, /SUCCESS/);
});
