/**
 * Every field of every endpoint meets bad values: nothing is answered 5xx, nothing hangs, nothing is kept. The first
 * field of an endpoint meets all of them, each other one a third; `npm run bad-input` gives all to all.
 *
 * Endpoints and fields come from the service's own OpenAPI document, so a new one is covered by being described.
 */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import ajvModule from 'ajv/dist/2020.js';
import sharp from 'sharp';
import t, { type Test } from 'tap';
import { http as httpLimits, upload as uploadLimits } from '../../schemas/limits.ts';
import type { JsonSchema } from '../../schemas/openapi.ts';
import { type Example, toExamples } from '../../src/bench/examples.ts';
import { startFront } from '../fixtures/http.ts';
import { startTestService, type TestUser } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const dataDir = await mkdtemp(join(tmpdir(), 'bad-input-'));
t.teardown(() => rm(dataDir, { recursive: true, force: true }));
/** Each user is an operator, so that the routes of operators do what they say. */
const emails = Array.from({ length: 100 }, (_, n) => `operator-${n}@example.com`);
const service = await startTestService(t, { DATA_DIR: dataDir, OPERATOR_EMAILS: emails.join(',') });
const { document } = service;
/** Nothing listens there: accepted runs end without anything to render. */
const src = 'http://127.0.0.1:1025/picture.png';
const Ajv = ajvModule.default ?? ajvModule;
const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });

const isLong = process.env.EVERY_VALUE === '1';

type Answer = { status: number; type: string; text: string };

/** The parser hangs up on a slow body after 12 s at most. */
const slowMs = 13_000;
/** A hang fails the test by this. */
const answerMs = 15_000;

async function send(
  { method, path, search }: Pick<Example, 'method' | 'path' | 'search'>,
  as: TestUser,
  body?: string | Uint8Array | ReadableStream | FormData,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const init: RequestInit & { duplex: 'half' } = {
    method,
    redirect: 'manual',
    duplex: 'half',
    headers: { cookie: as.cookie, ...headers },
    signal: AbortSignal.timeout(answerMs),
  };
  if (body !== undefined) init.body = body as NonNullable<RequestInit['body']>;
  const response = await fetch(`${service.base}${path}${search}`, init);
  const { status } = response;
  const [type = ''] = (response.headers.get('content-type') ?? '').split(';');
  if (type !== 'text/event-stream') return { status, type, text: await response.text() };
  await response.body?.cancel();
  return { status, type, text: '' };
}

type World = { user: TestUser; known: Record<string, string> };

/** A user with a project and an asset: nothing of it may be lost to what an earlier endpoint did. */
async function newUser(): Promise<World> {
  const user = await service.signUp(emails.pop());
  const { projectId } = user;
  const prepared = await user.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
    project_id: projectId,
    src,
  });
  const assetId = prepared.body.asset_id;
  return { user, known: { projectId, project_id: projectId, assetId, asset_id: assetId, id: assetId, src } };
}

/** The ids of operators' routes are those of users. */
function knownFor({ user, known }: World, template: string): Record<string, string> {
  return template.startsWith('/api/operator/users/') ? { ...known, id: user.userId } : known;
}

async function isIntact(user: TestUser): Promise<boolean> {
  return (await user.call('GET', `/api/projects/${user.projectId}`)).status === 200;
}

/** It takes longer than the parser's patience: begun here, looked at below. */
const slow = sendSlowly(await service.signUp());

function sendSlowly({ cookie }: TestUser): Promise<{ text: string }> {
  const body = JSON.stringify({ name: 'A slow one' });
  const head = `POST /api/projects HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nContent-Type: application/json\r\n`;
  const port = Number(new URL(service.base).port);
  return trickle(port, `${head}Content-Length: ${body.length}\r\n\r\n`, body, slowMs / body.length);
}

const json = { 'content-type': 'application/json' };
const rtl = '\u202e\u2066abc';

/** JSON texts, since some are values that JavaScript does not have. */
const values: Record<string, string> = {
  null: 'null',
  true: 'true',
  zero: '0',
  'minus zero': '-0',
  'a fraction': '1.5',
  'a negative': '-1',
  'past safe integers': '9007199254740993',
  'past floats': '1e999',
  'minus infinity': '-1e999',
  'a number of many digits': '1'.repeat(5_000),
  'NaN as text': '"NaN"',
  'a number as text': '"4"',
  'an empty text': '""',
  blanks: '"   "',
  'a NUL': JSON.stringify('a\0b'),
  'control characters': JSON.stringify('a\r\nb\x1b[31m\x7f'),
  'a right-to-left override': JSON.stringify(rtl),
  'astral characters': JSON.stringify('😀'.repeat(64)),
  'half a surrogate pair': '"\\ud800"',
  'the other half': '"a\\udc00b"',
  'a long text': JSON.stringify('x'.repeat(5_000)),
  'a very long text': JSON.stringify('x'.repeat(200_000)),
  'an operator': '{"$gt":""}',
  'a regular expression': '{"$regex":".*"}',
  'code of a database': '{"$where":"sleep(1000)"}',
  'a prototype': '{"__proto__":{"admin":true}}',
  'a constructor': '{"constructor":{"prototype":{"admin":true}}}',
  'an empty object': '{}',
  'an empty list': '[]',
  'a list of null': '[null]',
  'a list of texts': JSON.stringify(['a\0b', rtl, 'x'.repeat(300), '']),
  'a list of objects': '[{"$ne":null}]',
  'a long list': `[${Array.from({ length: 100_000 }, () => 1).join(',')}]`,
  'deep lists': `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
  'deep objects': `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`,
  'deep lists with half a pair': `${'['.repeat(100_000)}"\\ud800"${']'.repeat(100_000)}`,
};
/** Sent for the first field of an endpoint alone: they cost more, and say little of the field. */
const heavy = new Set([
  'a long list',
  'deep lists',
  'deep objects',
  'deep lists with half a pair',
  'a very long text',
]);
/** Enough for a field inside of another. */
const brief = new Set([
  'null',
  'a fraction',
  'a NUL',
  'half a surrogate pair',
  'a long text',
  'an operator',
  'a list of null',
]);

const texts = [
  '',
  ' ',
  'NaN',
  '1e999',
  '-0',
  '1.5',
  '-1',
  '99999999999999999999',
  '0x10',
  'a\0b',
  '\r\nSet-Cookie: a=b',
  rtl,
  '😀',
  '\ufffd',
  '{"$gt":""}',
  '[object Object]',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  '..\\..',
  "' OR 1=1 --",
  'x'.repeat(2_000),
];

t.test('JSON bodies', async (t) => {
  let world = await newUser();
  for (const { method, template } of toExamples(document, {})) {
    if (!(await isIntact(world.user))) world = await newUser();
    const { user } = world;
    const known = knownFor(world, template);
    const example = toExamples(document, known).find(
      (one) => one.method === method && one.template === template,
    );
    if (!example?.bodySchema) continue;
    await t.test(`${method} ${template}`, async (t) => {
      await spoilFields(t, example, user);
      await spoilWhole(t, example, user);
    });
  }
});

async function spoilFields(t: Test, example: Example, user: TestUser): Promise<void> {
  const { bodySchema = {}, body } = example;
  const unspoilt = await send(example, user, JSON.stringify(body), json);
  // No host of such a name is there to be looked at, which is said of the field.
  const isUnreachable = unspoilt.text.includes('the address is not allowed');
  t.ok(isUnreachable || !unspoilt.text.includes('"issues"'), `valid before it is spoilt: ${unspoilt.text}`);
  const validate = ajv.compile(bodySchema as object);
  const bodies = Object.entries(values).flatMap(([name, value], turn) =>
    fieldsOf(bodySchema)
      .filter((field, index) => {
        if (index === 0) return true;
        const isItsTurn = isLong || (turn + index) % 3 === 0;
        return isItsTurn && (field.length === 1 ? !heavy.has(name) : brief.has(name));
      })
      .map((field) => ({ name: `${field.join('.')}: ${name}`, text: withField(body, field, value) })),
  );
  bodies.push(
    ...fieldsOf(bodySchema).map((field) => ({ name: `no ${field.join('.')}`, text: withField(body, field) })),
  );
  await inTurns(bodies, async ({ name, text }) => {
    const answer = await send(example, user, text, json);
    checkAnswer(t, example, name, answer);
    if (isMisfit(validate, text) && answer.status < 400) t.fail(`${name} is taken: ${answer.status}`);
  });
}

const certain = new Set(['type', 'enum', 'const', 'maxLength', 'maxItems', 'minimum', 'maximum', 'required']);

/** Whether a body breaks its schema in a way that no trimming mends. */
function isMisfit(validate: ReturnType<typeof ajv.compile>, text: string): boolean {
  if (text.length > 100_000) return false;
  const value = JSON.parse(text);
  if (JSON.stringify(value).includes('   ') || validate(value)) return false;
  return (validate.errors ?? []).every(({ keyword }) => certain.has(keyword));
}

async function spoilWhole(t: Test, example: Example, user: TestUser): Promise<void> {
  const good = JSON.stringify(example.body);
  const utf16 = Buffer.from(good, 'utf16le');
  const cases: [string, number[] | undefined, string | Uint8Array, Record<string, string>][] = [
    ['a text', [400], '"text"', json],
    ['a number', [400], '1', json],
    ['null', [400], 'null', json],
    ['a list', [400], '[]', json],
    ['no JSON', [400], '{"a":', json],
    ['two values', [400], '{} {}', json],
    ['comments', [400], '{/* */}', json],
    ['NaN', [400], '{"a":NaN}', json],
    ['bytes that are no UTF-8', [400], Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), json],
    ['UTF-16', [400], utf16, json],
    ['UTF-16 that says so', [415], utf16, { 'content-type': 'application/json; charset=utf-16' }],
    ['plain text', [415], good, { 'content-type': 'text/plain' }],
    ['a form', [415], 'a=b', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['no type', [415], Buffer.from(good), {}],
    ['gzip', [415], gzipSync(good), { ...json, 'content-encoding': 'gzip' }],
    ['an empty body', undefined, '', json],
    ['a byte order mark', undefined, `\ufeff${good}`, json],
    ['a repeated key', undefined, good.replace('{', '{"__proto__":1,"a":1,"a":2,'), json],
    ['1 MB', undefined, `{"padding":"${'x'.repeat(httpLimits.maxJsonBytes - 14)}"}`, json],
    ['more than 1 MB', [413], `{"padding":"${'x'.repeat(httpLimits.maxJsonBytes)}"}`, json],
  ];
  await inTurns(cases, async ([name, want, body, headers]) => {
    const answer = await send(example, user, body, headers);
    checkAnswer(t, example, name, answer);
    if (want && !want.includes(answer.status))
      t.fail(`${name}: ${answer.status} ${answer.text.slice(0, 200)}`);
  });
}

t.test('paths and queries', async (t) => {
  let world = await newUser();
  for (const { method, template } of toExamples(document, {})) {
    if (!(await isIntact(world.user))) world = await newUser();
    const { user } = world;
    const known = knownFor(world, template);
    const odd = (text: string) => toExamples(document, { ...known, ...(text && paramsOf(template, text)) });
    const pick = (examples: Example[]) =>
      examples.find((one) => one.method === method && one.template === template) as Example;
    const example = pick(toExamples(document, known));
    const requests = texts.flatMap((text) => [
      ...(example.params.length > 0 && text !== '' ? [pick(odd(encodeURIComponent(text)))] : []),
      ...Object.keys(example.query).map((name) => ({
        ...example,
        search: `?${new URLSearchParams({ [name]: text })}`,
      })),
    ]);
    requests.push(
      ...Object.keys(example.query).flatMap((name) =>
        [
          `?${name}[$gt]=`,
          `?${name}=1&${name}=2`,
          `?${name}`,
          `?${name}=%ff%zz`,
          '?__proto__=1&constructor=2',
        ].map((search) => ({ ...example, search })),
      ),
    );
    await t.test(`${method} ${template}`, async (t) => {
      await inTurns(requests, async (request) => {
        const body = request.bodySchema && JSON.stringify(request.body);
        const answer = await send(request, user, body, body ? json : {});
        checkAnswer(t, request, `${request.path}${request.search}`.slice(0, 120), answer);
        // Below /dashboard every path is the page, which finds its own way.
        const isWrong = request.path !== example.path && template !== '/dashboard/{page}';
        if (isWrong && answer.status < 300) t.fail(`${request.path}: ${answer.status}`);
      });
    });
  }
});

function paramsOf(template: string, text: string): Record<string, string> {
  return Object.fromEntries([...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name, text]));
}

t.test('uploads', async (t) => {
  const { user } = await newUser();
  const upload = { method: 'POST', path: '/api/v1/upload', search: '' };
  const png = await sharp({ create: { width: 80, height: 64, channels: 3, background: '#468' } })
    .png()
    .toBuffer();
  const type = 'multipart/form-data; boundary=b';
  const head = (disposition: string, more = '') =>
    `--b\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\n`;
  const file = (content: Uint8Array, disposition = 'name="file"; filename="a.png"', more = '') =>
    Buffer.concat([Buffer.from(head(disposition, more)), content, Buffer.from('\r\n')]);
  const end = Buffer.from('--b--\r\n');
  const whole = (...parts: (string | Uint8Array)[]) =>
    Buffer.concat([...parts.map((one) => Buffer.from(one)), end]);
  const cases: [string, number[], Uint8Array | string, Record<string, string>?][] = [
    ['no boundary', [400], whole(file(png)), { 'content-type': 'multipart/form-data' }],
    ['an empty boundary', [400], whole(file(png)), { 'content-type': 'multipart/form-data; boundary=' }],
    ['another boundary', [400], whole(file(png)), { 'content-type': 'multipart/form-data; boundary=c' }],
    [
      'a boundary of 5,000',
      [400],
      whole(file(png)),
      { 'content-type': `multipart/form-data; boundary=${'b'.repeat(5_000)}` },
    ],
    ['another type', [400], whole(file(png)), { 'content-type': 'application/octet-stream' }],
    ['mixed', [400], whole(file(png)), { 'content-type': 'multipart/mixed; boundary=b' }],
    ['gzip', [415], gzipSync(whole(file(png))), { 'content-encoding': 'gzip' }],
    ['an empty body', [400], ''],
    ['only the end', [400], end],
    ['no end', [400], file(png)],
    ['cut within the head of a part', [400], '--b\r\nContent-Dispo'],
    ['an empty file', [400], whole(file(new Uint8Array()))],
    ['a file of one byte', [415], whole(file(Buffer.from('x')))],
    ['a head of a part without end', [400], `--b\r\n${'X: y\r\n'.repeat(20_000)}`],
    ['a line without end', [400], `--b\r\nContent-Disposition: ${'x'.repeat(200_000)}`],
    ['2 MB before the form', [200, 400, 413], whole('x'.repeat(2 * 1024 * 1024), '\r\n', file(png))],
    [
      '2 MB of fields',
      [200, 400, 413],
      whole(...Array.from({ length: 200 }, () => `${head('name="a"')}${'x'.repeat(10_000)}\r\n`), file(png)),
    ],
    ['100,000 fields', [200, 400, 413], whole(`${head('name="a"')}\r\n`.repeat(20_000), file(png))],
    [
      'a nested form',
      [400, 415],
      whole(
        file(
          Buffer.from('--d\r\n\r\nx\r\n--d--\r\n'),
          'name="file"',
          'Content-Type: multipart/mixed; boundary=d\r\n',
        ),
      ),
    ],
    ['a file called something else', [400], whole(file(png, 'name="files"; filename="a.png"'))],
    [
      'a file of 10 MB and a byte',
      [413],
      whole(file(Buffer.concat([png, Buffer.alloc(uploadLimits.maxBytes + 1 - png.length)]))),
    ],
    ['two files', [200, 400], whole(file(png), file(png))],
    ['a field before the file', [200], whole(`${head('name="note"')}x\r\n`, file(png))],
    ['a file without a name', [200], whole(file(png, 'name="file"'))],
    ...[
      '../../etc/passwd',
      '/etc/passwd',
      'C:\\a.png',
      'a\0.png',
      `${'x'.repeat(300)}.png`,
      rtl,
      '',
      '.',
      '%00',
    ].map((name): [string, number[], Uint8Array] => [
      `the name ${JSON.stringify(name.slice(0, 9))}`,
      [200, 400],
      whole(file(png, `name="file"; filename="${name}"`)),
    ]),
    ['an encoded name', [200], whole(file(png, 'name="file"; filename*=UTF-8\'\'%2e%2e%2fa.png'))],
    [
      'an encoded part',
      [200, 400, 415],
      whole(file(png, 'name="file"; filename="a"', 'Content-Transfer-Encoding: base64\r\n')),
    ],
  ];
  const accepted: string[] = [];
  await inTurns(cases, async ([name, want, body, headers]) => {
    const answer = await send(upload, user, body, { 'content-type': type, ...headers });
    t.ok(want.includes(answer.status), `${name}: ${answer.status} ${answer.text.slice(0, 100)}`);
    if (answer.status === 200) accepted.push(JSON.parse(answer.text).key);
    else t.match(JSON.parse(answer.text), { error: String }, name);
  });
  await cutUploads(user, file(png));

  const kept = async () => (await service.store.uploads.unusedBefore(Date.now() + 60_000, 1_000)).length;
  await until(kept, (count) => count === accepted.length, answerMs);
  const files = (await filesIn(join(dataDir, 'storage'))).filter((name) => !name.endsWith('.json'));
  t.strictSame(files.sort(), accepted.sort(), 'nothing else is kept');
  t.strictSame(await filesIn(join(dataDir, 'tmp')), []);
});

/** Uploads whose senders leave in the middle. */
async function cutUploads({ cookie }: TestUser, part: Uint8Array): Promise<void> {
  const head = `POST /api/v1/upload HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nContent-Type: multipart/form-data; boundary=b\r\n`;
  const bodies = [
    Buffer.concat([Buffer.from(`${head}Content-Length: 900000\r\n\r\n`), part]),
    Buffer.concat([
      Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${part.length.toString(16)}\r\n`),
      part,
      Buffer.from('\r\n'),
    ]),
    Buffer.from(`${head}Content-Length: 900000\r\n\r\n`),
  ];
  await Promise.all(
    bodies.flatMap((body) =>
      ['end', 'destroy', 'resetAndDestroy'].map(async (leave) => {
        const socket = connect(Number(new URL(service.base).port), '127.0.0.1');
        socket.on('error', () => socket.destroy());
        await new Promise<void>((resolve) => socket.write(body, () => resolve()));
        const gone = new Promise((resolve) => socket.once('close', resolve));
        // Its reservation is made by then, or will never be: either is looked at below.
        await fetch(`${service.base}/healthz`);
        socket[leave as 'end']();
        socket.resume();
        await gone;
      }),
    ),
  );
}

t.test('bodies that come too slowly', async (t) => {
  const front = await startFront({ bodyTimes: { bodyMs: 600, streamMs: 600, bodySilenceMs: 200 } });
  t.teardown(() => front.close());
  const { cookie } = await front.signUp();
  const signIn = 'POST /api/user/signin HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n';
  const upload = `POST /api/v1/upload HTTP/1.1\r\nHost: a\r\nCookie: ${cookie}\r\nContent-Type: multipart/form-data; boundary=b\r\n`;
  const form =
    '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\x89PNG\r\n\x1a\n\0\0\0\rIHDR';
  for (const [name, head, first] of [
    ['JSON', signIn, '{'],
    ['JSON that never begins', signIn, ''],
    ['a form', upload, form],
    ['a form that never begins', upload, ''],
  ] as const) {
    t.test(`408 for ${name} that falls silent, and the end of the connection`, async (t) => {
      checkSlow(t, await trickle(front.port, `${head}Content-Length: 900\r\n\r\n${first}`));
      const inChunks = first === '' ? '' : `${first.length.toString(16)}\r\n${first}\r\n`;
      checkSlow(t, await trickle(front.port, `${head}Transfer-Encoding: chunked\r\n\r\n${inChunks}`));
    });
    t.test(`408 for ${name} that trickles past its time`, async (t) => {
      const rest = head === signIn ? ' ' : 'x';
      checkSlow(t, await trickle(front.port, `${head}Content-Length: 900\r\n\r\n${first}`, rest));
    });
  }
  t.test('200 for one that trickles in time', async (t) => {
    const body = JSON.stringify({ email: 'a@example.com', password: 'wrong' });
    const answer = await trickle(front.port, `${signIn}Content-Length: ${body.length}\r\n\r\n`, body, 4);
    t.match(answer.text, /^HTTP\/1\.1 401 /);
  });
  t.strictSame(
    await front.store.uploads.unusedBefore(front.clock.now + 1, 10),
    [],
    'nothing is reserved for them',
  );
  t.notOk(front.logged.some(({ status }) => Number(status) >= 500));
});

t.test('201 for a body slower than the parser would bear, as long as it moves', async (t) => {
  t.match((await slow).text, /^HTTP\/1\.1 201 /);
});

t.test('the service is as well as before', async (t) => {
  const { user } = await newUser();
  t.equal((await user.call('GET', '/api/user/me')).status, 200);
  t.equal((await user.call('GET', '/readyz')).status, 200);
  t.equal(({} as Record<string, unknown>)['admin'], undefined, 'no prototype has changed');
});

function checkSlow(t: Test, { text, isClosed }: { text: string; isClosed: boolean }): void {
  t.match(text, /^HTTP\/1\.1 408 Request Timeout\r\n/);
  t.match(text, /\{"error":"the body took too long","code":"request_timeout",[^{}]*\}$/);
  t.ok(isClosed);
}

/** Sends a head, then `rest` byte by byte (a single one for ever); answers what came back once it is answered. */
function trickle(
  port: number,
  head: string,
  rest = '',
  everyMs = 50,
): Promise<{ text: string; isClosed: boolean }> {
  return new Promise((resolve) => {
    let text = '';
    let sent = 0;
    const socket = connect(port, '127.0.0.1', () => socket.write(Buffer.from(head, 'latin1')));
    const timer = setInterval(() => {
      if (rest.length === 1 || sent < rest.length) socket.write(rest[rest.length === 1 ? 0 : sent] ?? '');
      sent += 1;
      if (!text.startsWith('HTTP/1.1 408') && text !== '') finish(false);
    }, everyMs);
    const finish = (isClosed: boolean) => {
      clearInterval(timer);
      socket.destroy();
      resolve({ text, isClosed });
    };
    if (rest === '') timer.unref();
    socket.on('data', (data) => {
      text += data.toString('latin1');
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => finish(true));
  });
}

/** Judges what every answer owes. */
function checkAnswer(
  t: Test,
  { method, template, statuses }: Example,
  name: string,
  { status, type, text }: Answer,
): void {
  if (status >= 500) t.fail(`${method} ${template} with ${name}: ${status} ${text}`);
  if (!statuses.includes(status)) {
    t.fail(`${method} ${template} with ${name}: ${status} is not described`);
  }
  if (status < 400 || method === 'HEAD') return;
  const isPage = template.startsWith('/docs') && type === 'text/html';
  if (!isPage && typeof JSON.parse(text).error !== 'string') t.fail(`${name}: ${text}`);
}

/** Fields of a schema, those inside of objects too, as paths. */
function fieldsOf(schema: JsonSchema, above: string[] = []): string[][] {
  const inner = [schema, ...(schema.anyOf ?? [])].find(({ properties }) => properties);
  return Object.entries(inner?.properties ?? {}).flatMap(([name, one]) => [
    [...above, name],
    ...fieldsOf(one, [...above, name]),
  ]);
}

/** The JSON of a body with one field replaced by a text of JSON, or left out. */
function withField(body: unknown, field: string[], text?: string): string {
  const copy = structuredClone(body) as Record<string, unknown>;
  const last = field.at(-1) ?? '';
  const parent = field.slice(0, -1).reduce((one, key) => one[key] as Record<string, unknown>, copy);
  if (text === undefined) delete parent[last];
  else parent[last] = mark;
  return JSON.stringify(copy).replace(JSON.stringify(mark), () => text ?? '');
}

const mark = 'the place of the value';

/** Calls back for each item, some at a time. */
async function inTurns<Item>(items: readonly Item[], act: (item: Item) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item);
    }),
  );
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((one) => one.isFile()).map((one) => one.name);
}
