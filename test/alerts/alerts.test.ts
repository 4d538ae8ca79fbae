/**
 * The alerts that wake somebody up: each fires at the fault that it is for, in a real Prometheus that reads a real
 * service, and the commands of its runbook run. Times are shortened, nothing else.
 */
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { newKey } from '../../src/auth/secret-box.ts';
import { freePort } from '../../src/demo/free-port.ts';
import { startStandIn } from '../fixtures/model-providers.ts';
import { readsTypes, testServers, uniqueName } from '../fixtures/servers.ts';
import { startTestService } from '../fixtures/service.ts';

const hasPrometheus = spawnSync('prometheus', ['--version']).status === 0;
const skip = hasPrometheus ? false : 'prometheus is not installed (Debian: apt-get install prometheus)';
const rules = await readFile('deploy/prometheus/alerts.yml', 'utf8');

/** `PartitionLag` has the page partition-lag. */
const runbookOf = (alert: string) => {
  const name = alert.replace(/(?<!^)[A-Z]/g, '-$&').toLowerCase();
  return readFile(`src/docs/guides/runbooks/${name}.md`, 'utf8');
};

t.test('five faults, five alerts', { skip, timeout: 110_000 }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'alerts-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const { mongodbUrl, natsUrl, ffmpegPath } = await testServers();
  const name = uniqueName('alerts');
  const standIn = await startStandIn(t);
  const shared = {
    ...standIn.settings,
    MONGODB_DATABASE: name,
    NATS_PREFIX: `${name}.`,
    SECRETS_KEY: newKey(),
    STORAGE_URL: `file:${folder}/storage`,
    VIDEO_PROVIDER: 'replicate',
    WEBHOOK_SCHEDULE: '500ms',
  };
  const bus = await startRelay(Number(new URL(natsUrl.replace(/^(?!nats:)/, 'nats://')).port));
  t.teardown(() => bus.cut());
  const service = await startTestService(t, { ...shared, ROLE: 'http,scheduler', NATS_URL: bus.url });
  const levelFile = join(folder, 'level');
  await writeFile(levelFile, 'info\n');
  const settings = {
    ...shared,
    ROLE: 'worker',
    MONGODB_URL: mongodbUrl,
    NATS_URL: natsUrl,
    DATA_DIR: join(folder, 'worker'),
    BASE_URL: service.base,
    FFMPEG_PATH: ffmpegPath,
    LOG_LEVEL_FILE: levelFile,
    METRICS_PORT: String(await freePort()),
  };
  const worker = await startWorker(t, settings);
  const base = service.base;
  const prometheus = await startPrometheus(folder, [new URL(base).host, new URL(worker.metrics).host]);
  t.teardown(() => prometheus.stop());

  /** Runs every command of a runbook, as it stands there. */
  const follow = async (alert: string, address: string) => {
    const commands = [...(await runbookOf(alert)).matchAll(/```sh\n([^`]+)```/g)].map(
      ([, text = '']) => text,
    );
    t.ok(commands.length > 0, alert);
    for (const command of commands) {
      const env = { ...process.env, METRICS: address, BASE: base, NODE_OPTIONS: '' };
      const ran = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', command], { env }).catch(
        (cause: { stdout: string; stderr: string; code: number }) => cause,
      );
      t.notOk('code' in ran, `${alert}: ${command.trim()}`);
    }
  };

  t.strictSame(await prometheus.firing(), [], 'a service that is well fires nothing');

  const user = await service.signUp();
  await user.call('PUT', `/api/projects/${user.projectId}/webhooks`, {
    webhook_url: `http://127.0.0.1:${await freePort()}/`,
    webhook_events: ['asset.failed'],
    webhooks_enabled: true,
  });
  const test = `/api/projects/${user.projectId}/webhooks/test`;
  const failed: string[] = [];
  const fail = async () => {
    for (let n = 0; n < 3; n += 1) await user.call('POST', test);
    const { asset } = await standIn.make(user, 'fault:503*9');
    failed.push(asset.status);
  };
  await whileNot(
    Promise.all([prometheus.until('ProviderFailing'), prometheus.until('WebhooksFailing')]),
    fail,
  );
  t.ok(
    failed.every((status) => status === 'failed'),
    'its provider is down',
  );
  await follow('ProviderFailing', worker.metrics);
  await follow('WebhooksFailing', worker.metrics);

  await writeFile(levelFile, 'debug\n');
  process.kill(worker.pid, 'SIGHUP');
  await worker.says(/"from":"info","to":"debug"/);

  const blocked = setInterval(() => block(1_500), 2_000);
  await prometheus.until('EventLoopBlocked');
  clearInterval(blocked);
  await follow('EventLoopBlocked', base);

  bus.cut();
  await prometheus.until('BusLost');
  await follow('BusLost', base);
  await bus.mend();
  await prometheus.untilGone('BusLost');

  worker.kill();
  await prometheus.until('PartitionsWithoutWorker');
  await prometheus.until('ProcessDown');
  await startWorker(t, settings);
  await prometheus.untilGone('PartitionsWithoutWorker');
  await follow('PartitionsWithoutWorker', worker.metrics);
});

/** Does something again and again until something else has happened. */
async function whileNot(happened: Promise<unknown>, act: () => Promise<void>): Promise<void> {
  let isOver = false;
  const watched = happened.finally(() => {
    isOver = true;
  });
  watched.catch(() => undefined);
  while (!isOver) await act();
  await watched;
}

/** Does nothing else for so long: nor does this process's service. */
function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** A way to the message bus that can be cut. */
async function startRelay(to: number) {
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect(to, '127.0.0.1');
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  const port = await freePort();
  const mend = async () => {
    relay.listen(port, '127.0.0.1');
    await once(relay, 'listening');
  };
  await mend();
  return {
    url: `nats://127.0.0.1:${port}`,
    mend,
    cut() {
      relay.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** A worker as a process of its own. */
async function startWorker(t: Test, settings: Record<string, string> & { METRICS_PORT: string }) {
  const { PATH = '' } = process.env;
  const child = spawn(process.execPath, [...readsTypes, 'src/main.ts'], {
    env: { PATH, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const says = whatItSays(child);
  await says(/"worker started"/);
  return {
    pid: child.pid ?? 0,
    metrics: `http://127.0.0.1:${settings.METRICS_PORT}`,
    says,
    kill: () => child.kill('SIGKILL'),
  };
}

/** Waits until a process has written what fits. */
function whatItSays(child: ChildProcess) {
  let text = '';
  let wake: () => void = () => undefined;
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (data: Buffer) => {
      text = (text + String(data)).slice(-1_000_000);
      wake();
    });
  child.on('exit', () => wake());
  return async (form: RegExp) => {
    while (!form.test(text)) {
      if (child.exitCode !== null) throw new Error(`it ended: ${text.slice(-2_000)}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
}

/** Longest wait for an alert. */
const patienceMs = 30_000;

async function startPrometheus(folder: string, targets: string[]) {
  const short = rules.replace(/\[\d+[mh]\]/g, '[10s]').replace(/for: [1-9]\d*[ms]/g, 'for: 1s');
  await writeFile(join(folder, 'alerts.yml'), short);
  const config = join(folder, 'prometheus.yml');
  await writeFile(
    config,
    `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: animated-assets
    static_configs: [{targets: ${JSON.stringify(targets)}}]
`,
  );
  const port = await freePort();
  const child = spawn(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${folder}/tsdb`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  await whatItSays(child)(/Server is ready to receive web requests/);

  const firing = async (): Promise<string[]> => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/alerts`);
    const { data } = (await answer.json()) as {
      data: { alerts: { state: string; labels: { alertname: string } }[] };
    };
    return data.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname);
  };
  /** @throws with what Prometheus makes of the rule, when it takes too long. */
  const untilIt = async (name: string, isWanted: boolean) => {
    const givenUpAt = performance.now() + patienceMs;
    while ((await firing()).includes(name) !== isWanted) {
      if (performance.now() > givenUpAt) throw new Error(`${name}: ${await evaluate(name)}`);
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  };
  const evaluate = async (name: string) => {
    const [, expr = ''] = new RegExp(`alert: ${name}\\n +expr: (.+)\\n`).exec(short) ?? [];
    const parts = [expr, 'up', ...expr.split(/ (?:>|<|==) .*? and | (?:>|<|==|\/) /)];
    const found = parts.map(async (query) => {
      const answer = await fetch(`http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`);
      return `${query}: ${await answer.text()}`;
    });
    return (await Promise.all(found)).join('\n');
  };
  return {
    firing,
    until: (name: string) => untilIt(name, true),
    untilGone: (name: string) => untilIt(name, false),
    async stop() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}
