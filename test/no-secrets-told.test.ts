/** What users must keep to themselves is in no log, answer, event or record but where it belongs. */
import { MongoClient } from 'mongodb';
import t from 'tap';
import { signUrl } from '../src/auth/signed-url.ts';
import { testServers, uniqueName } from './fixtures/servers.ts';
import { startTestService } from './fixtures/service.ts';

const key = 'q83vEjRWeJq8AAEid5Ka+hZB4Msxj9MvRmT1nEyXuo0=';
const password = 'correct horse battery staple';
const source = 'https://images.example.com/cat.png';

t.test('typical flows tell no secret', { timeout: 60_000 }, async (t) => {
  const lines: string[] = [];
  const database = uniqueName('told');
  const settings = {
    LOG_LEVEL: 'trace',
    ROLE: 'http,scheduler',
    SECRETS_KEY: key,
    MONGODB_DATABASE: database,
    METRICS_TOKEN: 'metrics-token-0123456789',
  };
  const { base } = await startTestService(t, settings, { write: (line) => void lines.push(line) });
  /** Everything that was answered, but what the answer is there to give. */
  const answers: string[] = [];
  let cookie = '';
  const call = async (method: string, path: string, body?: unknown, gives = false) => {
    const answer = await fetch(`${base}${path}`, {
      method,
      headers: { ...(cookie ? { cookie } : {}), ...(body ? { 'content-type': 'application/json' } : {}) },
      ...(body ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    });
    cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? cookie;
    const text = await answer.text();
    if (!gives) answers.push(text);
    return { status: answer.status, text, json: () => JSON.parse(text) as Record<string, never> };
  };

  // An account, a wrong password, the right one.
  const account = { email: 'ada@example.com', password, name: 'Ada' };
  t.equal((await call('POST', '/api/user/signup', account)).status, 201);
  const tokens = [cookie];
  t.equal((await call('POST', '/api/user/signin', { ...account, password: `${password}!` })).status, 401);
  t.equal((await call('POST', '/api/user/signin', account)).status, 200);
  tokens.push(cookie);

  // A signing secret, and its successor.
  const [project] = (await call('GET', '/api/projects')).json()['projects'] as unknown as { id: string }[];
  const path = `/api/projects/${project?.id}`;
  const config = (await call('PUT', `${path}/proxy-config`, { enable_signing: true }, true)).json()[
    'project'
  ];
  const { proxy_key, signing_secret } = config as unknown as { proxy_key: string; signing_secret: string };
  const rotated = (await call('POST', `${path}/keys/rotate?which=signing`, undefined, true)).json();
  const secrets = [signing_secret, String(rotated['signing_secret'])];
  t.match(secrets, [/^sk_/, /^sk_/]);
  t.equal((await call('PUT', `${path}/proxy-config`, { enable_signing: true })).status, 200);
  t.equal((await call('GET', path)).status, 200);

  // A signed URL that is right, one with the old secret, and one that is past.
  const signatures = secrets.flatMap((secret) =>
    [60_000, -60_000].map((ms) => signUrl({ key: proxy_key, secret, source }, Date.now() + ms)),
  );
  const codes = [];
  for (const url of signatures) codes.push((await call('GET', url)).status);
  t.strictSame(codes, [403, 403, 202, 403]);

  // Errors: a body that is none, one that fits nothing, paths that are none.
  t.equal((await call('POST', '/api/user/signup', `{"password":"${password}"`)).status, 400);
  t.equal((await call('POST', '/api/user/signup', { ...account, email: password })).status, 400);
  t.equal((await call('POST', '/api/user/signup', { ...account, name: 7 })).status, 400);
  t.equal((await call('GET', `/nowhere?token=${secrets[0]}&password=${password}`)).status, 404);
  t.equal((await call('GET', `/api/projects/${secrets[0]}`)).status, 404);
  for (const page of ['/openapi.json', '/healthz', '/readyz', '/metrics', '/api/assets', '/api/user/me'])
    await call('GET', page);
  t.equal((await call('POST', '/api/user/signout')).status, 200);

  const kept: Record<string, string[]> = {
    password: [password, JSON.stringify(password).slice(1, -1), encodeURIComponent(password)],
    'session token': tokens.map((one) => one.split('=')[1] ?? ''),
    'signing secret': secrets.flatMap((one) => [one, one.slice(3)]),
    sig: signatures.map((url) => new URLSearchParams(url.split('?')[1]).get('sig') ?? ''),
    key: [key, Buffer.from(key, 'base64').toString('hex')],
    'metrics token': [settings.METRICS_TOKEN],
  };
  const stored = await readDatabase(database);
  t.ok(lines.length > 20, 'the log was written');
  t.ok(lines.some((line) => line.includes('/v1/*')) && answers.length > 20);
  t.match(stored, /"signingSecret":"v1\./, 'the database was read');
  for (const [name, texts] of Object.entries(kept)) {
    for (const text of texts) {
      t.ok(text.length > 15, name);
      t.notOk(
        lines.find((line) => line.includes(text)),
        `${name}: in no line of the log`,
      );
      t.notOk(
        answers.find((answer) => answer.includes(text)),
        `${name}: in no answer`,
      );
      t.notOk(stored.includes(text), `${name}: nowhere in the database`);
    }
  }
  t.notOk(
    lines.some((line) => /[?&](exp|sig|token)=/.test(line)),
    'no query of a request is logged',
  );
});

t.test('a start without the key that the database was sealed with is refused, with one line', async (t) => {
  const settings = { ROLE: 'scheduler', MONGODB_DATABASE: uniqueName('sealed') };
  await startTestService(t, { ...settings, SECRETS_KEY: key });
  const cause = await startTestService(t, settings).catch((one: unknown) => one);
  t.match(cause, {
    name: 'SecretError',
    message: /^this database was sealed with key [0-9a-f]{8}, which is not .*$/,
  });
});

/** Every document of every collection, facts that became events among them. */
async function readDatabase(name: string): Promise<string> {
  const client = await new MongoClient((await testServers()).mongodbUrl).connect();
  try {
    const collections = await client.db(name).listCollections({}, { nameOnly: true }).toArray();
    const all = await Promise.all(
      collections.map((one) => client.db(name).collection(one.name).find().toArray()),
    );
    return JSON.stringify(all);
  } finally {
    await client.close();
  }
}
