/** A process of its own that serves the proxy's routes over a world in memory, and says what it costs. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { descriptorsOf } from './cpu.ts';
import { keyOf, startProxyWorld } from './proxy-world.ts';

/** What the process tells. `rssBytes` after a garbage collection;  */
export type Told = { port: number; rssBytes: number; reads: number; waiting: number };

export type ProxyProcess = {
  port: number;
  ask(): Promise<Told>;
  /** Open files and sockets, without disturbing it. */
  descriptors(): number;
  finish(assetId: string): void;
};

const role = 'proxy-child';

/** Runs work with such a process, whose storage has an animation and a poster of each size, and ends it. */
export async function withProxyProcess(
  sizes: Record<string, number>,
  work: (process: ProxyProcess) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-proxy-'));
  for (const [name, bytes] of Object.entries(sizes)) {
    for (const extension of ['mp4', 'jpg'] as const) {
      const file = join(folder, 'objects', keyOf(`ast_${name}`, extension));
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, Buffer.alloc(bytes, name));
    }
  }
  const child = fork(fileURLToPath(import.meta.url), [role, folder], {
    stdio: ['ignore', openSync('/dev/null', 'w'), 'inherit', 'ipc'],
    execArgv: ['--expose-gc'],
  });
  try {
    const { port } = await heard(child);
    const ask = (): Promise<Told> => {
      child.send({ kind: 'ask' });
      return heard(child);
    };
    await work({
      port,
      ask,
      descriptors: () => descriptorsOf(child.pid ?? 0),
      finish: (assetId) => void child.send({ kind: 'finish', assetId }),
    });
  } finally {
    child.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

async function heard(child: ChildProcess): Promise<Told> {
  const [told] = (await once(child, 'message')) as [Told];
  return told;
}

async function serve(folder: string): Promise<void> {
  const world = await startProxyWorld(folder);
  const tell = (): void => {
    for (let n = 0; n < 3; n += 1) globalThis.gc?.();
    const told: Told = {
      port: world.server.port,
      rssBytes: process.memoryUsage().rss,
      reads: world.reads(),
      waiting: world.waiting(),
    };
    process.send?.(told);
  };
  process.on('disconnect', () => process.exit());
  process.on('message', (message: { kind: 'ask' } | { kind: 'finish'; assetId: string }) => {
    if (message.kind === 'finish') world.finish(message.assetId);
    else tell();
  });
  tell();
}

if (process.argv[2] === role) await serve(process.argv[3] ?? '');
