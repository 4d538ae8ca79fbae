/**
 * Restate as the peer of `bench runs`: the same steps in its own words, on its own server, all on 127.0.0.1.
 *
 * Its packages are fetched from npm beside the project when the bench first asks. Its SDK waits for ever on Node 20
 * unless Promise.withResolvers is there.
 */
import { type ChildProcess, execFile, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { freePort } from '../demo/free-port.ts';
import { cpuMsHere, cpuMsOf } from './cpu.ts';

const serverPackage = '@restatedev/restate-server';
const sdkPackage = '@restatedev/restate-sdk';
const packages = [`${serverPackage}@1.7.12`, `${sdkPackage}@1.17.2`];
const folder = fileURLToPath(new URL('../../../.cache/restate', import.meta.url));
const installMs = 180_000;
const startMs = 60_000;

export type Peer = {
  /** Makes runs, so many at once; answers how long each took, in ms. */
  run(count: number, together: number): Promise<number[]>;
  /** CPU of its server, its service and this process, which calls. */
  cpuMs(): number;
  stop(): Promise<void>;
};

/** The peer, or why it is not to be had. */
export async function startRestate(steps: number): Promise<Peer | { missing: string }> {
  try {
    await install();
  } catch (cause) {
    return { missing: `Restate is not to be had: ${(cause as Error).message.split('\n')[0]}` };
  }
  const data = await mkdtemp(join(tmpdir(), 'bench-restate-'));
  const [ingress, admin, node, service] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const child = fork(fileURLToPath(import.meta.url), ['serve', String(service), String(steps)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const server = spawn(join(folder, 'node_modules', '.bin', 'restate-server'), ['--no-logo'], {
    stdio: 'ignore',
    env: {
      PATH: process.env['PATH'],
      RESTATE_DISABLE_TELEMETRY: 'true',
      RESTATE_BASE_DIR: data,
      RESTATE_LISTEN_MODE: 'tcp',
      RESTATE_BIND_IP: '127.0.0.1',
      RESTATE_BIND_PORT: String(node),
      RESTATE_INGRESS__BIND_PORT: String(ingress),
      RESTATE_ADMIN__BIND_PORT: String(admin),
      RESTATE_LOG_FILTER: 'error',
    },
  });
  await once(child, 'message');
  await register(admin, service);
  const agent = new Agent({ keepAlive: true });
  return {
    async run(count, together) {
      const tookMs: number[] = [];
      let left = count;
      await Promise.all(
        Array.from({ length: together }, async () => {
          while (left > 0) {
            left -= 1;
            const begunAt = performance.now();
            await post(ingress, '/steps/run', {}, agent);
            tookMs.push(performance.now() - begunAt);
          }
        }),
      );
      return tookMs;
    },
    cpuMs: () => cpuMsHere() + cpuMsOf(server.pid ?? 0) + cpuMsOf(child.pid ?? 0),
    async stop() {
      agent.destroy();
      for (const one of [server, child]) await end(one);
      await rm(data, { recursive: true, force: true });
    },
  };
}

async function install(): Promise<void> {
  if (existsSync(join(folder, 'node_modules', '.bin', 'restate-server'))) return;
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{"private":true}');
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...packages];
  await promisify(execFile)('npm', args, { cwd: folder, timeout: installMs });
}

/** Its admin answers some seconds after it was started. */
async function register(admin: number, service: number): Promise<void> {
  const givenUpAt = performance.now() + startMs;
  for (;;) {
    try {
      await post(admin, '/deployments', { uri: `http://127.0.0.1:${service}` });
      return;
    } catch (cause) {
      if (performance.now() > givenUpAt) throw cause;
      await sleep(200);
    }
  }
}

function post(port: number, path: string, body: unknown, agent?: Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' };
    const sent = request(
      { host: '127.0.0.1', port, path, method: 'POST', headers, ...(agent ? { agent } : {}) },
      (answer) => {
        answer.resume();
        const isOk = (answer.statusCode ?? 500) < 300;
        answer.on('end', () =>
          isOk ? resolve() : reject(new Error(`${path} answered ${answer.statusCode}`)),
        );
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

async function end(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM');
  const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
  await Promise.race([ended, sleep(5_000, undefined, { ref: false })]);
  child.kill('SIGKILL');
}

type Sdk = {
  service(definition: object): object;
  serve(options: { services: object[]; port: number }): Promise<number>;
};
type RunContext = { run(name: string, action: () => void): Promise<void> };

async function serve(port: number, steps: number): Promise<void> {
  const promises = Promise as unknown as { withResolvers?: () => unknown };
  promises.withResolvers ??= () => {
    const parts: Record<string, unknown> = {};
    parts['promise'] = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
    return parts;
  };
  const entry = join(folder, 'node_modules', ...sdkPackage.split('/'), 'dist', 'index.js');
  const sdk = (await import(pathToFileURL(entry).href)) as Sdk;
  const run = async (context: RunContext) => {
    for (let n = 1; n <= steps; n += 1) await context.run(`s${n}`, () => undefined);
    return 'done';
  };
  await sdk.serve({ services: [sdk.service({ name: 'steps', handlers: { run } })], port });
  process.on('disconnect', () => process.exit(0));
  process.send?.('ready');
}

const [role, port, steps] = process.argv.slice(2);
if (role === 'serve') await serve(Number(port), Number(steps));
