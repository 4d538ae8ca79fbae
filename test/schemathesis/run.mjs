/**
 * `npm run contract`: schemathesis sends what /openapi.json allows and forbids to the real service, and compares
 * every answer with what the document promises.
 *
 *   npm run contract -- [--seeds 1,2,3,4,5] [--examples 200]
 *
 * Passes when no answer is a server error, has a status, type, header or body that the document does not describe,
 * or takes what it calls invalid. Skipped, and says so, where Python or pip's package is not to be had.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));
const requirements = join(here, 'requirements.txt');
const venv = join(root, '.cache', readFileSync(requirements, 'utf8').trim().replace('==', '-'));
const python = join(venv, 'bin', 'python');
const users = 8;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1,2,3,4,5' },
    examples: { type: 'string', default: '200' },
  },
});

const checks = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_headers_conformance',
  'response_schema_conformance',
  'negative_data_rejection',
].join(',');

/** A stream of events has no end that a client could wait for: test/http/events.test.ts looks at them. */
const isStream = (operations) =>
  Object.values(operations).some(({ responses }) => 'text/event-stream' in (responses[200]?.content ?? {}));

process.exitCode = await main();

async function main() {
  const missing = prepare();
  if (missing) {
    say(`skipped: ${missing}`);
    return 0;
  }
  const service = await startService();
  try {
    const env = { ...process.env, ...(await makeUsers(service.base)) };
    const excluded = await listExcluded(service.base);
    for (const seed of values.seeds.split(',')) {
      say(`seed ${seed}, ${values.examples} examples`);
      const child = spawn(python, ['-m', 'schemathesis.cli', ...argumentsOf(service.base, seed, excluded)], {
        // It writes what it remembers where it runs.
        cwd: venv,
        env,
        stdio: 'inherit',
      });
      const [code] = await once(child, 'exit');
      if (code !== 0) return 1;
    }
    return 0;
  } finally {
    await service.stop();
  }
}

/** Installs the pinned package beside the project. Answers why it cannot. */
function prepare() {
  if (existsSync(join(venv, 'bin', 'schemathesis'))) return undefined;
  const run = (command, ...args) => {
    const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    return status === 0
      ? undefined
      : `${command} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`;
  };
  say('installing schemathesis');
  return run('python3', '-m', 'venv', venv) ?? run(python, '-m', 'pip', 'install', '-q', '-r', requirements);
}

function argumentsOf(base, seed, excluded) {
  return [
    '--no-color',
    '--config-file',
    join(here, 'schemathesis.toml'),
    'run',
    `${base}/openapi.json`,
    '--url',
    base,
    '--phases',
    'examples,coverage,fuzzing,stateful',
    '--checks',
    checks,
    '--seed',
    seed,
    '--max-examples',
    values.examples,
    '--workers',
    '2',
    '--request-timeout',
    '20',
    '--generation-database',
    'none',
    // Every request has a user: see hooks.py. That others are refused is what test/http looks at.
    '--generation-with-security-parameters',
    'false',
    '--warnings',
    'off',
    ...excluded.flatMap((path) => ['--exclude-path', path]),
  ];
}

/** The service with its own servers and fresh data. */
async function startService() {
  const dataDir = mkdtempSync(join(tmpdir(), 'contract-'));
  const port = await freePort();
  const child = spawn(process.execPath, [join(root, 'dist', 'src', 'main.js')], {
    env: {
      ...process.env,
      PORT: String(port),
      DATA_DIR: dataDir,
      LOG_LEVEL: 'error',
      RATE_LIMIT_FACTOR: '1000',
      // What the document's examples name as sources and endpoints must not be reached.
      OUTBOUND_ALLOW: '',
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const base = `http://127.0.0.1:${port}`;
  while (
    !(await fetch(`${base}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null) throw new Error('the service does not start');
    await sleep(100);
  }
  return {
    base,
    async stop() {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** Signed-in users with what they own, as the environment of hooks.py. */
async function makeUsers(base) {
  const made = [];
  for (let n = 0; n < users; n += 1) {
    const credentials = { email: `contract-${n}@example.com`, password: 'correct horse battery' };
    const call = async (method, path, body, cookie = '') => {
      const answer = await fetch(`${base}${path}`, {
        method,
        headers: { cookie, ...(body ? { 'content-type': 'application/json' } : {}) },
        body: body && JSON.stringify(body),
      });
      if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}`);
      return { cookie: answer.headers.getSetCookie()[0]?.split(';')[0], body: await answer.json() };
    };
    const { cookie } = await call('POST', '/api/user/signup', { ...credentials, name: 'Contract' });
    const { body } = await call('GET', '/api/projects', undefined, cookie);
    const projectId = body.projects[0].id;
    const asset = { project_id: projectId, src: 'https://example.com/picture.png' };
    const prepared = await call('POST', '/api/v1/prepare', asset, cookie);
    made.push({ credentials, cookie, known: { projectId, assetId: prepared.body.asset_id } });
  }
  return {
    CONTRACT_BASE: base,
    CONTRACT_USERS: JSON.stringify(made),
    SCHEMATHESIS_HOOKS: 'hooks',
    PYTHONPATH: here,
    PYTHONDONTWRITEBYTECODE: '1',
  };
}

/** Paths that are left out. */
async function listExcluded(base) {
  const { paths } = await (await fetch(`${base}/openapi.json`)).json();
  const streams = Object.keys(paths).filter((path) => isStream(paths[path]));
  // Made-up domains are looked up for as long as a crawl may take: test/http/brand.test.ts has sites of its own.
  const crawls = Object.keys(paths).filter((path) => /\/(detect-brand|deep-crawl)$/.test(path));
  for (const path of streams) say(`left out: ${path}: a stream never ends`);
  for (const path of crawls) say(`left out: ${path}: it would look for made-up sites on the network`);
  return [...streams, ...crawls];
}

function say(line) {
  process.stdout.write(`contract: ${line}\n`);
}
