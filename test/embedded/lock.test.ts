/** Locks and processes: who holds a folder, who is gone, and how a process that will not go is ended. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { lockFolder } from '../../src/embedded/lock.ts';
import {
  endProcess,
  isRunning,
  nameProcess,
  type ProcessName,
  sendSignal,
} from '../../src/embedded/processes.ts';

/** A process that prints one line when it is ready, as Node code. */
async function run(code: string): Promise<ProcessName> {
  const child = spawn(
    process.execPath,
    ['-e', `${code}; console.log('ready'); setInterval(() => {}, 1000)`],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  await once(child.stdout, 'data');
  const name = nameProcess(child.pid ?? 0);
  if (name === undefined) throw new Error('the process is gone already');
  return name;
}

t.test('a lock is free again after its release, and a release does not take what others hold', async (t) => {
  const folder = join(t.testdir(), 'new');
  const unlock = lockFolder(folder);
  t.throws(() => lockFolder(folder), {
    message: `${folder} is in use by process ${process.pid}: stop it, or give this one another DATA_DIR`,
  });
  unlock();
  const unlockAgain = lockFolder(folder);
  writeFileSync(join(folder, 'lock'), 'of somebody else');
  unlockAgain();
  t.equal(readFileSync(join(folder, 'lock'), 'utf8'), 'of somebody else');
});

t.test(
  'a lock is taken over when its holder is gone, its id is used again, or it names nobody',
  async (t) => {
    const other = await run('');
    t.teardown(() => endProcess(other, 1_000));
    const stale = [
      JSON.stringify({ pid: 2 ** 22 + 1, startedAt: '1 boot' }),
      JSON.stringify({ pid: other.pid, startedAt: 'at another time' }),
      '{"pid":',
      '',
    ];
    for (const text of stale) {
      const folder = t.testdir({ lock: text });
      const unlock = lockFolder(folder);
      t.match(readFileSync(join(folder, 'lock'), 'utf8'), `"pid":${process.pid}`, text);
      unlock();
      t.strictSame(readdirSync(folder), [], 'nothing is left');
    }
    const folder = t.testdir({ lock: JSON.stringify(other) });
    t.throws(() => lockFolder(folder), new RegExp(`in use by process ${other.pid}`));
  },
);

t.test('a folder that cannot be locked is an error, not a lock', async (t) => {
  const file = t.testdir({ file: '' });
  t.throws(() => lockFolder(join(file, 'file', 'below')), { code: 'ENOTDIR' });
  t.throws(() => lockFolder(t.testdir({ lock: {} })), { code: 'EISDIR' });
});

t.test('a process is ended, by force when it has to be, and never one that only has its id', async (t) => {
  const polite = await run('');
  await endProcess(polite, 5_000);
  t.notOk(isRunning(polite));
  await endProcess(polite, 5_000);
  sendSignal(polite.pid, 'SIGTERM');

  const stubborn = await run("process.on('SIGTERM', () => {})");
  await endProcess(stubborn, 200);
  t.notOk(isRunning(stubborn));

  const innocent = await run('');
  t.teardown(() => endProcess(innocent, 1_000));
  await endProcess({ ...innocent, startedAt: 'at another time' }, 200);
  t.ok(isRunning(innocent));
  t.throws(() => sendSignal(innocent.pid, 'SIGNONE' as NodeJS.Signals), { code: 'ERR_UNKNOWN_SIGNAL' });
});

t.test('where there is no proc file system, ps tells when a process started', (t) => {
  const folder = t.testdir({ ps: '#!/bin/sh\n[ "$4" = 1 ] && echo " Sat Nov 21 08:00:00 2026 "' });
  chmodSync(join(folder, 'ps'), 0o755);
  const path = process.env['PATH'];
  t.teardown(() => {
    process.env['PATH'] = path;
  });
  process.env['PATH'] = folder;
  t.strictSame(nameProcess(1, '/nowhere'), { pid: 1, startedAt: 'Sat Nov 21 08:00:00 2026' });
  t.equal(nameProcess(2, '/nowhere'), undefined);
  t.end();
});
