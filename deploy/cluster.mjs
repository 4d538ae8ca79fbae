/**
 * Three mongod as one replica set and three nats-server as one JetStream cluster, on free ports of 127.0.0.1: what a
 * real deployment has, for tests, chaos and trying things out.
 *
 *   node deploy/cluster.mjs [--data folder] [--toxiproxy] [--attached]
 *
 * The first line on stdout is JSON with the addresses, the servers and what a service needs in its environment; each
 * later one tells of a server that has ended and was started again, as a supervisor would. SIGTERM and SIGINT end
 * everything, with `--attached` also the end of stdin. Without `--data` the data goes with it. With `--toxiproxy`
 * everything, the servers among themselves too, goes through proxies that its API at `toxiproxyUrl` can spoil; it is
 * built with Go when it is not there, and done without where that cannot be.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { MongoClient } from 'mongodb';
import { ensureBinaries } from './binaries.mjs';
import { findOrBuild } from './go-program.mjs';

const setName = 'rs0';
const countOfEach = 3;
/** How long the set waits for a silent primary: the default is 10 s. */
const electionTimeoutMillis = 2_000;
const startTimeoutMs = 60_000;
const restartAfterMs = 200;
const stopGraceMs = 5_000;
const pollMs = 50;
const alreadyInitialized = 23;

const toxiproxyProgram = {
  name: 'toxiproxy-server',
  built: 'server',
  module: 'github.com/Shopify/toxiproxy/v2',
  package: '/cmd/server',
  version: '2.12.0',
  what: 'tests with bad connections',
};

const { values } = parseArgs({
  options: {
    data: { type: 'string' },
    toxiproxy: { type: 'boolean', default: false },
    attached: { type: 'boolean', default: false },
  },
});
const folder = values.data === undefined ? mkdtempSync(join(tmpdir(), 'cluster-')) : resolve(values.data);
const cache = resolve(process.env.BINARY_CACHE || fileURLToPath(new URL('../.cache/bin', import.meta.url)));
const untilParentDies = spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status === 0;

const say = (line) => console.error(`cluster: ${line}`);
const print = (line) => console.log(JSON.stringify(line));
const leave = () => stop().then(() => process.exit(0));
/** Running servers by name. */
const children = new Map();
let isStopping = false;
let isUp = false;

async function main() {
  const { mongod, natsServer } = await ensureBinaries({
    cache,
    needed: ['mongod', 'natsServer'],
    say,
  });
  const toxiproxy = values.toxiproxy ? await findOrBuild(toxiproxyProgram, say) : undefined;
  if (values.toxiproxy && toxiproxy === undefined)
    say('there is no toxiproxy, nor Go to build it: without proxies');
  const plan = await makePlan(toxiproxy !== undefined);
  if (toxiproxy !== undefined) await startProxies(toxiproxy, plan);
  for (const server of plan.mongods) await startMongod(server, mongod);
  for (const server of plan.natsServers) await startNats(server, plan.natsServers, natsServer);
  await Promise.all([formSet(plan.mongods), untilNatsAgrees(plan.natsServers)]);
  isUp = true;
  print(describe(plan));
}

/** Ports of every server, and where others reach it: there, or at a proxy in front of it. */
async function makePlan(isProxied) {
  const ports = await freePorts(countOfEach * 8 + 1);
  const next = () => ports.pop();
  const numbers = Array.from({ length: countOfEach }, (_, n) => n + 1);
  const placed = () => {
    const port = next();
    return { port, shown: isProxied ? next() : port };
  };
  return {
    toxiproxyPort: isProxied ? next() : undefined,
    mongods: numbers.map((n) => ({ name: `mongod-${n}`, client: placed() })),
    natsServers: numbers.map((n) => ({
      name: `nats-${n}`,
      client: placed(),
      route: placed(),
      monitorPort: next(),
    })),
  };
}

function describe({ mongods, natsServers, toxiproxyPort }) {
  const hosts = mongods.map(({ client }) => `127.0.0.1:${client.shown}`).join(',');
  return {
    mongodbUrl: `mongodb://${hosts}/?replicaSet=${setName}`,
    natsUrl: `nats://${natsServers.map(({ client }) => `127.0.0.1:${client.shown}`).join(',')}`,
    natsMonitorUrl: natsServers.map(({ monitorPort }) => `http://127.0.0.1:${monitorPort}`).join(','),
    ...(toxiproxyPort === undefined ? {} : { toxiproxyUrl: `http://127.0.0.1:${toxiproxyPort}` }),
    folder,
    servers: [...mongods, ...natsServers].map(({ name, client, monitorPort }) => ({
      name,
      pid: children.get(name)?.pid,
      host: `127.0.0.1:${client.port}`,
      shown: `127.0.0.1:${client.shown}`,
      ...(monitorPort === undefined ? {} : { monitorUrl: `http://127.0.0.1:${monitorPort}` }),
    })),
  };
}

async function startMongod({ name, client }, { path, env = {} }) {
  const dbpath = join(folder, name);
  await mkdir(dbpath, { recursive: true });
  keepRunning(name, env, [
    path,
    ...['--dbpath', dbpath, '--port', String(client.port), '--bind_ip', '127.0.0.1', '--nounixsocket'],
    ...['--replSet', setName, '--oplogSize', '256', '--wiredTigerCacheSizeGB', '0.25', '--quiet'],
    ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
    ...['--setParameter', 'shutdownTimeoutMillisForSignaledShutdown=100'],
  ]);
}

async function startNats({ name, client, route, monitorPort }, all, { path, env = {} }) {
  const store = join(folder, name);
  await mkdir(store, { recursive: true });
  const routes = all.filter((one) => one.name !== name).map((one) => `nats://127.0.0.1:${one.route.shown}`);
  const config = join(store, 'nats-server.conf');
  // Clients know all three; told of more addresses they would find ways around the proxies.
  await writeFile(
    config,
    `server_name: ${name}
listen: "127.0.0.1:${client.port}"
http: "127.0.0.1:${monitorPort}"
jetstream { store_dir: ${JSON.stringify(store)}, sync_interval: always, max_file_store: 64GB, max_memory_store: 256MB }
cluster { name: assets, listen: "127.0.0.1:${route.port}", no_advertise: true, routes: ${JSON.stringify(routes)} }
`,
  );
  keepRunning(name, env, [path, '-c', config]);
}

/** Starts a program, and again each time it ends before everything does. */
function keepRunning(name, env, command) {
  const prefix = untilParentDies ? ['setpriv', '--pdeathsig', 'KILL'] : [];
  const [program, ...args] = [...prefix, ...command];
  const output = openSync(join(folder, `${name}.log`), 'a');
  // A group of its own: Ctrl-C reaches it through this script, in order.
  const child = spawn(program, args, {
    detached: true,
    stdio: ['ignore', output, output],
    env: { PATH: process.env.PATH, ...env },
  });
  closeSync(output);
  children.set(name, child);
  if (isUp) print({ restarted: name, pid: child.pid });
  child.once('exit', (code, signal) => {
    if (isStopping) return;
    if (!isUp) return void fail(new Error(`${name} ended with ${code ?? signal} before it was ready`));
    setTimeout(() => {
      if (!isStopping) keepRunning(name, env, command);
    }, restartAfterMs);
  });
}

/** Makes the replica set, unless the folder has it, and waits for its primary and two that follow. */
async function formSet(mongods) {
  const [first] = mongods;
  const client = await until(() => connectTo(first));
  try {
    const members = mongods.map(({ client: { shown } }, _id) => ({ _id, host: `127.0.0.1:${shown}` }));
    await until(async () => {
      await client
        .db('admin')
        .command({
          replSetInitiate: { _id: setName, members, settings: { electionTimeoutMillis } },
        })
        .catch((cause) => {
          if (cause.code !== alreadyInitialized) throw cause;
        });
      return true;
    });
    await until(async () => {
      const status = await client.db('admin').command({ replSetGetStatus: 1 });
      const states = status.members.map(({ stateStr }) => stateStr);
      return states.includes('PRIMARY') && states.every((state) => /^(PRIMARY|SECONDARY)$/.test(state));
    });
  } finally {
    await client.close();
  }
}

function connectTo({ client: { port } }) {
  const url = `mongodb://127.0.0.1:${port}/?directConnection=true`;
  return new MongoClient(url, { serverSelectionTimeoutMS: 1_000 }).connect();
}

/** Until the servers have chosen who leads JetStream, and all of them follow it. */
async function untilNatsAgrees(servers) {
  await until(async () => {
    const answers = await Promise.all(
      servers.map(async ({ monitorPort }) => (await fetch(`http://127.0.0.1:${monitorPort}/jsz`)).json()),
    );
    return answers.every(
      ({ meta_cluster }) => meta_cluster?.leader && meta_cluster.cluster_size === countOfEach,
    );
  });
}

/** One proxy for each address that is shown instead of a server's own. */
async function startProxies(program, { mongods, natsServers, toxiproxyPort }) {
  keepRunning('toxiproxy', {}, [program, '-host', '127.0.0.1', '-port', String(toxiproxyPort)]);
  const entries = [
    ...[...mongods, ...natsServers].map(({ name, client }) => [name, client]),
    ...natsServers.map(({ name, route }) => [`${name}-route`, route]),
  ];
  const proxies = entries.map(([name, { port, shown }]) => ({
    name,
    listen: `127.0.0.1:${shown}`,
    upstream: `127.0.0.1:${port}`,
  }));
  await until(async () => {
    const answer = await fetch(`http://127.0.0.1:${toxiproxyPort}/populate`, {
      method: 'POST',
      body: JSON.stringify(proxies),
    });
    return answer.ok;
  });
}

/** Tries until it answers something. @throws {Error} after a minute, with what went wrong last as its cause */
async function until(attempt) {
  const deadline = Date.now() + startTimeoutMs;
  let lastError;
  while (Date.now() < deadline && !isStopping) {
    try {
      const answer = await attempt();
      if (answer) return answer;
    } catch (cause) {
      lastError = cause;
    }
    await wait(pollMs);
  }
  throw new Error(`the cluster is not ready after ${startTimeoutMs} ms`, { cause: lastError });
}

/** Free at the same moment, so that no two are the same. */
async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

async function stop() {
  if (isStopping) return;
  isStopping = true;
  await Promise.all([...children.values()].map(end));
  if (values.data === undefined) rmSync(folder, { recursive: true, force: true });
}

async function end(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const kill = setTimeout(() => child.kill('SIGKILL'), stopGraceMs);
  await exited;
  clearTimeout(kill);
}

async function fail(error) {
  console.error(`cluster: ${error.message}`, error.cause ?? '', `see the logs in ${folder}`);
  await stop();
  process.exit(1);
}

process.once('SIGTERM', leave);
process.once('SIGINT', leave);
if (values.attached) process.stdin.resume().once('end', leave);
// A reader that has gone is no reason to leave servers behind.
process.stdout.on('error', leave);
await mkdir(folder, { recursive: true });
await main().catch(fail);
