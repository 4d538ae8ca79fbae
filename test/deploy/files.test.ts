/**
 * The files of deploy/, checked as far as that goes without an engine to run them: by their schemas, by the programs that
 * read them, and against what the service accepts.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Ajv2020 from 'ajv/dist/2020.js';
import t from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import { describeConfig, readConfig } from '../../src/config.ts';
import { findDeployTools } from '../fixtures/deploy-tools.ts';
import { root } from '../fixtures/servers.ts';

const deploy = join(root, 'deploy');
const read = (...path: string[]) => readFileSync(join(deploy, ...path), 'utf8');
const tools = findDeployTools();
const skip = typeof tools === 'string' ? tools : false;
const settings = new Set([...describeConfig().matchAll(/^ {2}([A-Z][A-Z0-9_]+) /gm)].map(([, name]) => name));
/** Or of the port for those who watch, or of the C library. */
const isSetting = (name: string) => settings.has(name) || /^(METRICS|MALLOC)_/.test(name);

type ComposeService = {
  image?: string;
  environment?: Record<string, string>;
  volumes?: string[];
  networks?: string[] | Record<string, { ipv4_address?: string } | null>;
  secrets?: string[];
  ports?: string[];
  mem_limit?: string;
  restart?: string;
  healthcheck?: object;
  depends_on?: Record<string, object>;
};
type Compose = {
  services: Record<string, ComposeService>;
  networks: Record<string, { internal?: boolean }>;
  volumes: Record<string, null>;
  secrets: Record<string, { file: string }>;
};
const compose: Compose = parse(read('compose.yaml'), { merge: true });

t.test('compose.yaml is what the specification of Compose has', { skip }, async (t) => {
  if (typeof tools === 'string') return;
  const ajv = new Ajv2020.default({ strict: false, validateFormats: false });
  const validate = ajv.compile(JSON.parse(readFileSync(tools.composeSchema, 'utf8')));
  t.ok(validate(compose), JSON.stringify(validate.errors));
  t.notOk(validate({ ...compose, services: { service: { imaeg: 'x' } } }), 'a misspelt name would be found');
});

t.test(
  'compose.yaml names nothing that is not there, and each container is bounded and looked after',
  async (t) => {
    const { services, networks, volumes, secrets } = compose;
    const isThereIn = (mount: string) => {
      const [from = ''] = mount.split(':');
      return from.startsWith('./') ? existsSync(join(deploy, from)) : from in volumes;
    };
    for (const [name, one] of Object.entries(services)) {
      // The image of the service has a check of its own.
      t.ok(
        one.mem_limit && one.restart && (one.healthcheck || name === 'service'),
        `${name} is looked after`,
      );
      const joined = Array.isArray(one.networks) ? one.networks : Object.keys(one.networks ?? {});
      t.strictSame(
        joined.filter((network) => !(network in networks)),
        [],
      );
      t.strictSame(
        (one.secrets ?? []).filter((secret) => !(secret in secrets)),
        [],
      );
      t.strictSame(
        Object.keys(one.depends_on ?? {}).filter((other) => !(other in services)),
        [],
      );
      t.strictSame(
        (one.volumes ?? []).filter((mount) => !isThereIn(mount)),
        [],
      );
      t.equal(one.ports !== undefined, name === 'caddy', 'only Caddy is reached from outside');
    }
    t.equal(networks['inside']?.internal, true);
  },
);

t.test(
  'compose.yaml gives the service settings that production accepts, and trusts Caddy alone',
  async (t) => {
    const { service, caddy } = compose.services;
    const environment = Object.fromEntries(
      Object.entries(service?.environment ?? {}).map(([name, value]) => [
        name,
        String(value).replace(/\$\{\w+:-(.*?)\}/g, '$1'),
      ]),
    );
    for (const name of Object.keys(environment)) t.ok(isSetting(name), name);
    const config = readConfig({ ...environment, NODE_ENV: 'production', HOST: '0.0.0.0', DATA_DIR: '/data' });
    t.match(config, {
      isDevelopment: false,
      isSafetyNeeded: false,
      natsReplicas: 1,
      baseUrl: 'https://localhost',
    });
    const networks = caddy?.networks as Record<string, { ipv4_address?: string }>;
    t.strictSame(config.trustedProxies, [networks['edge']?.ipv4_address]);
    t.equal(config.secretsKeyFile, '/run/secrets/assets_key');
  },
);

type Manifest = {
  kind: string;
  metadata: { name: string };
  data?: Record<string, string>;
  stringData?: Record<string, string>;
  spec?: {
    selector?: { matchLabels?: Record<string, string> };
    scaleTargetRef?: { kind: string; name: string };
    template?: {
      metadata: { labels: Record<string, string> };
      spec: {
        containers: {
          env?: { name: string; value: string }[];
          ports: { name: string }[];
          startupProbe: { httpGet: { port: string } };
          readinessProbe: { httpGet: { port: string } };
          livenessProbe: { httpGet: { port: string } };
        }[];
      };
    };
  };
};
const manifestFiles = readdirSync(join(deploy, 'kubernetes')).filter((name) => name.endsWith('.yaml'));
const manifests = manifestFiles
  .filter((name) => name !== 'kustomization.yaml')
  .flatMap((name) => parseAllDocuments(read('kubernetes', name)).map((one) => one.toJS() as Manifest));
const ofKind = (kind: string) => manifests.filter((one) => one.kind === kind);

t.test('the manifests are what Kubernetes accepts', { skip }, async (t) => {
  if (typeof tools === 'string') return;
  const built = spawnSync(process.execPath, [join(deploy, 'kubeconform.mjs')], { encoding: 'utf8' });
  const program = built.stdout.trim();
  if (program === '') return t.comment('kubeconform is missing, and Go to build it');
  const folder = t.testdir({});
  const schemas = join(folder, 'schemas');
  mkdirSync(schemas);
  // It takes schemas that stand for themselves: without an address of their own, with what they refer to inside.
  const { $defs } = JSON.parse(readFileSync(join(tools.kubernetesSchemas, '_definitions.json'), 'utf8'));
  for (const kind of new Set(manifests.map((one) => one.kind.toLowerCase()))) {
    for (const file of readdirSync(tools.kubernetesSchemas).filter((name) => name.startsWith(`${kind}-`))) {
      const {
        $schema: _,
        $id: __,
        ...schema
      } = JSON.parse(
        readFileSync(join(tools.kubernetesSchemas, file), 'utf8').replaceAll('/api/_definitions.json#', '#'),
      );
      writeFileSync(join(schemas, file), JSON.stringify({ ...schema, $defs: referredTo(schema, $defs) }));
    }
  }
  const judge = (...files: string[]) => {
    const location = join(schemas, '{{.ResourceKind}}{{.KindSuffix}}.json');
    const options = ['-strict', '-summary', '-output', 'json', '-schema-location', location];
    const { stdout } = spawnSync(program, [...options, ...files], { encoding: 'utf8', timeout: 60_000 });
    return JSON.parse(stdout) as { resources: object[]; summary: Record<string, number> };
  };
  const files = manifestFiles
    .filter((name) => name !== 'kustomization.yaml')
    .map((name) => join(deploy, 'kubernetes', name));
  const found = judge(...files);
  t.match(
    found.summary,
    { valid: manifests.length, invalid: 0, errors: 0, skipped: 0 },
    JSON.stringify(found),
  );
  const misspelt = join(folder, 'misspelt.yaml');
  writeFileSync(misspelt, read('kubernetes', 'worker.yaml').replace('runAsNonRoot', 'runAsNonRot'));
  t.match(judge(misspelt).summary, { invalid: 1 }, 'a misspelt name would be found');
});

/** Of the definitions those that a schema needs: kubeconform would read all of them, for each kind anew. */
function referredTo(schema: object, definitions: Record<string, object>): Record<string, object> {
  const needed: Record<string, object> = {};
  const look = (value: object) => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(/"#\/\$defs\/([^"]+)"/g)) {
      const definition = definitions[name];
      if (definition === undefined || name in needed) continue;
      needed[name] = definition;
      look(definition);
    }
  };
  look(schema);
  return needed;
}

t.test('the manifests fit together, and give each role settings that production accepts', async (t) => {
  const listed: { resources: string[] } = parse(read('kubernetes', 'kustomization.yaml'));
  const wanted = manifestFiles.filter((name) => !/^(kustomization|secret\.example)\.yaml$/.test(name));
  t.strictSame([...listed.resources].sort(), wanted.sort());
  const deployments = ofKind('Deployment');
  t.strictSame(deployments.map(({ metadata }) => metadata.name).sort(), ['http', 'scheduler', 'worker']);
  const shared = Object.assign(
    {},
    ...[...ofKind('ConfigMap'), ...ofKind('Secret')].map((one) => one.data ?? {}),
  );
  const [secret] = ofKind('Secret');
  for (const { metadata, spec } of deployments) {
    const pod = spec?.template;
    const [container] = pod?.spec.containers ?? [];
    t.match(pod?.metadata.labels, spec?.selector?.matchLabels ?? { none: true }, 'it selects its own pods');
    const ports = container?.ports.map(({ name }) => name) ?? [];
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'] as const)
      t.ok(
        ports.includes(container?.[probe].httpGet.port ?? ''),
        `${metadata.name} has the port of its ${probe}`,
      );
    const own = Object.fromEntries((container?.env ?? []).map(({ name, value }) => [name, value]));
    const environment = { ...shared, ...secret?.stringData, ...own };
    for (const name of Object.keys(environment)) t.ok(isSetting(name), name);
    const config = readConfig({ ...environment, NODE_ENV: 'production', HOST: '0.0.0.0' });
    t.match(config, { isSafetyNeeded: true, natsReplicas: 3, roles: [metadata.name] });
  }
  for (const budget of ofKind('PodDisruptionBudget')) {
    const labels = budget.spec?.selector?.matchLabels ?? { none: 'true' };
    const selected = deployments.filter(({ spec }) =>
      Object.entries(labels).every(([name, value]) => spec?.template?.metadata.labels[name] === value),
    );
    t.equal(selected.length, 1, `the budget ${budget.metadata.name} is for one deployment`);
  }
  for (const { spec } of ofKind('HorizontalPodAutoscaler'))
    t.ok(deployments.some(({ metadata }) => metadata.name === spec?.scaleTargetRef?.name));
});

type Instruction = { name: string; text: string };

/** `*` stands for any name that ends as the rest does. */
function isThere(source: string): boolean {
  if (!source.includes('*')) return existsSync(join(root, source));
  const ending = source.slice(source.indexOf('*') + 1);
  return readdirSync(join(root, dirname(source))).some((name) => name.endsWith(ending));
}

function readDockerfile(): Instruction[] {
  const lines = read('Dockerfile')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
    .replaceAll(/\\\n\s*/g, '');
  return lines
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', text = ''] =
        /^([A-Z]+)\s+(.*)$/.exec(line) ?? /^\s+([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      return { name, text };
    });
}

t.test(
  'the image copies what is there, runs without rights, and its start and health check are commands',
  async (t) => {
    const instructions = readDockerfile();
    const textsOf = (name: string) => instructions.filter((one) => one.name === name).map(({ text }) => text);
    const ignored = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n');
    const sent = new Set(ignored.filter((line) => line.startsWith('!')).map((line) => line.slice(1)));
    for (const copy of textsOf('COPY').filter((text) => !text.startsWith('--from'))) {
      for (const source of copy.split(/\s+/).slice(0, -1)) {
        t.ok(isThere(source), `${source} is there`);
        t.ok(sent.has(source), `${source} is sent to the engine`);
      }
    }
    t.equal(textsOf('USER').at(-1), 'node');
    const [health = ''] = textsOf('HEALTHCHECK');
    t.equal(JSON.parse(health.slice(health.indexOf('CMD') + 3)).at(0), 'node');
    const started = ['node', '--min-semi-space-size=16', 'dist/src/main.js'];
    t.strictSame(JSON.parse(textsOf('CMD').at(-1) ?? ''), started);
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    for (const text of [scripts.start, read('systemd', 'animated-assets.service')])
      t.ok(text.includes(started.join(' ')), 'everything starts it alike');
    t.equal(
      textsOf('FROM').every((text) => text.startsWith('node:20-bookworm-slim')),
      true,
    );
    if (typeof tools === 'string') return t.comment(`without shellcheck: ${tools}`);
    for (const command of textsOf('RUN')) {
      const { stdout, status } = spawnSync(tools.shellcheck, ['-s', 'sh', '-'], {
        input: `${command}\n`,
        encoding: 'utf8',
      });
      t.equal(status, 0, stdout);
    }
  },
);

t.test('shell scripts are without what shellcheck knows to be wrong', { skip }, async (t) => {
  if (typeof tools === 'string') return;
  const unit = read('systemd', 'animated-assets-backup.service');
  const [, inUnit = ''] = /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(unit) ?? [];
  const [, inJob = ''] = /\[sh, -c, '(.*?)'\]/.exec(read('kubernetes', 'jobs.yaml')) ?? [];
  const scripts: [shell: string, text: string][] = [
    ['bash', readFileSync(join(root, '.ci', 'run'), 'utf8')],
    ['sh', inUnit.replaceAll('%%', '%')],
    ['sh', inJob],
  ];
  for (const [shell, text] of scripts) {
    t.ok(text.length > 20);
    const { stdout, status } = spawnSync(tools.shellcheck, ['-s', shell, '-'], {
      input: text,
      encoding: 'utf8',
    });
    t.equal(status, 0, stdout);
  }
});

t.test('the units are what systemd reads, and their settings what production accepts', async (t) => {
  const names = ['animated-assets.service', 'animated-assets-backup.service', 'animated-assets-backup.timer'];
  const files = names.map((name) => join(deploy, 'systemd', name));
  const checked = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' });
  if (checked.error) t.comment('systemd-analyze is not here: the units are only read');
  else t.notMatch(checked.stderr, /Unknown|Invalid|Failed to parse|Missing '='/, checked.stderr);
  const unit = read('systemd', 'animated-assets.service');
  const environment = Object.fromEntries(
    [
      ...unit.matchAll(/^Environment=(.*)$/gm),
      ...read('systemd', 'env.example').matchAll(/^([A-Z]\w+=.*)$/gm),
    ]
      .flatMap(([, text = '']) => text.split(' '))
      .map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
  for (const name of Object.keys(environment).filter((one) => one !== 'NODE_ENV'))
    t.ok(isSetting(name), name);
  t.match(readConfig(environment), { isDevelopment: false, dataDir: '/var/lib/animated-assets' });
  t.throws(
    () => readConfig({ ...environment, ALLOW_EMBEDDED: 'false' }),
    /MONGODB_URL and NATS_URL are needed/,
  );
});
