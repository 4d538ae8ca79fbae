/** Folders for temporary files, one a process. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openTempDir } from '../src/temp-dir.ts';

t.test('what dead processes have left is removed; what living ones use stays', async (t) => {
  const root = join(t.testdir(), 'tmp');
  const deadPid = Number(execFileSync(process.execPath, ['-p', 'process.pid'], { encoding: 'utf8' }));
  for (const name of [`${deadPid}-abc`, `${process.ppid}-notitsname`, 'stray']) {
    mkdirSync(join(root, name), { recursive: true });
    writeFileSync(join(root, name, 'file'), '');
  }
  const own = await openTempDir(root);
  t.strictSame(readdirSync(root), [own.path.slice(root.length + 1)]);

  const again = await openTempDir(root);
  t.equal(again.path, own.path, 'a process keeps its folder');
  await own.remove();
  t.notOk(existsSync(own.path));
});
