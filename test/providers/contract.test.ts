/**
 * The adapters against what the providers publish of themselves: each exchange of test/providers/exchanges is answered
 * by a server on this machine as it was published, what the adapter asks for is held against the published request and
 * its schema, and how the answer is read against the rules of the wire formats (1.1, 4 and 6).
 */
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import ajvModule from 'ajv/dist/2020.js';
import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { EffectError } from '../../schemas/errors.ts';
import { provider as limits } from '../../schemas/limits.ts';
import { createOutbound } from '../../src/outbound/outbound.ts';
import { createChatVision } from '../../src/providers/chat-vision.ts';
import { createFal } from '../../src/providers/fal.ts';
import { createLocalVision } from '../../src/providers/local-vision.ts';
import { createLuma } from '../../src/providers/luma.ts';
import {
  acceptedModels,
  type ChosenModels,
  defaultModels,
  type RemoteName,
  readModels,
} from '../../src/providers/models.ts';
import {
  ProviderError,
  type Submitted,
  type VideoJob,
  type VideoProvider,
} from '../../src/providers/provider.ts';
import { createReplicate } from '../../src/providers/replicate.ts';
import { createRunway } from '../../src/providers/runway.ts';
import { motionPlan } from '../fixtures/asset-messages.ts';
import { photo } from '../fixtures/images.ts';
import { root } from '../fixtures/servers.ts';

type Answer = { status: number; headers?: Record<string, string>; body?: unknown };

type Exchange = {
  name: string;
  /** Where it is published: an address, or a repository and a file in it. */
  source: string;
  /** What of it is not as published. */
  note?: string;
  does: 'submit' | 'status' | 'cancel' | 'callback' | 'describe';
  /** Id of the model that a submit is for. */
  model?: string;
  callbackUrl?: string;
  /** The prediction that is read or called off. */
  job?: Submitted;
  /** The body of a callback. */
  callback?: object;
  /** The last request of the exchange. */
  request?: {
    method: string;
    path: string;
    headers?: Record<string, string>;
    body?: unknown;
    /** Headers whose values differ from request to request. */
    formats?: Record<string, { example: string; pattern: string }>;
  };
  /** In the order of the requests. */
  answers: Answer[];
  /** How the adapter must read it. */
  reads: unknown;
};

type Book = {
  base: string;
  /** What stands for the key in what is published. */
  key: string;
  /** Of the bodies of submits: `submit` of all of them, the others of the inputs of a model. */
  schemas: Record<string, { source: string; note?: string; schema: object }>;
  exchanges: Exchange[];
};

type Asked = { method: string; url: URL; headers: IncomingMessage['headers']; body: unknown };
type BookName = RemoteName | 'chat';

const videoNames = ['replicate', 'fal', 'runway', 'luma'] as const;
const names: readonly BookName[] = [...videoNames, 'chat'];
const folder = join(root, 'test/providers/exchanges');
const books = Object.fromEntries(
  names.map((name) => [name, JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'))]),
) as Record<BookName, Book>;

const key = 'key_secret_of_ours';
const now = Date.UTC(2026, 10, 21);
const signal = new AbortController().signal;
const bytes = await photo({ width: 160, height: 120 });
const image = {
  contentType: 'image/jpeg',
  read: async () => bytes,
  publish: async () => 'https://media.example/frame.jpg',
};
const outbound = createOutbound({ allow: ['127.0.0.1'], denyPorts: [] });
t.teardown(() => outbound.close());
const logged: string[] = [];
const warnings: string[] = [];
const log = {
  info: (fields: object) => void logged.push(JSON.stringify(fields)),
  warn: (fields: object) => void warnings.push(JSON.stringify(fields)),
};

/** One server for all; its answers are those of the exchange under way, with its own address for the provider's. */
let due: Answer[] = [];
let asked: Asked[] = [];
let rewrite = (text: string) => text;
const server = createServer(async (request, response) => {
  const text = Buffer.concat(await request.toArray()).toString();
  const { method = '', headers } = request;
  asked.push({ method, url: new URL(request.url ?? '/', origin), headers, body: text && JSON.parse(text) });
  const { status, headers: more = {}, body } = due.shift() ?? { status: 500 };
  response.writeHead(status, body === undefined ? more : { 'content-type': 'application/json', ...more });
  response.end(body === undefined ? '' : rewrite(JSON.stringify(body)));
}).listen(0, '127.0.0.1');
await once(server, 'listening');
t.teardown(() => {
  server.close();
  server.closeAllConnections();
});
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const baseOf = ({ base }: Book) => origin + new URL(base).pathname.replace(/\/$/, '');

const signing = generateKeyPairSync('ed25519');
const falKeys = { keys: [signing.publicKey.export({ format: 'jwk' })] };
const replicateSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

function createVideo(name: RemoteName, models: ChosenModels): VideoProvider {
  const options = {
    key,
    baseUrl: baseOf(books[name]),
    models,
    canFetch: true,
    outbound,
    log,
    now: () => now,
  };
  const made = {
    replicate: () => createReplicate(options),
    fal: () => createFal({ ...options, keysUrl: `${origin}/.well-known/jwks.json` }),
    runway: () => createRunway(options),
    luma: () => createLuma(options),
  };
  return made[name]();
}

/** Any model of the provider, under the id that an exchange has for it. */
function modelsCalled(name: RemoteName, id?: string): ChosenModels {
  const models = readModels(name, defaultModels[name]);
  return id === undefined ? models : { ...models, standard: { ...models.standard, id } };
}

const vision = () =>
  createChatVision({
    key,
    baseUrl: baseOf(books.chat),
    model: 'gpt-5.4',
    local: createLocalVision(),
    outbound,
    log,
    now: () => now,
  });

function jobOf(more: Partial<VideoJob> = {}): VideoJob {
  return {
    token: 'ast_1-1-stage1-1',
    source: image,
    firstFrame: image,
    prompt: 'slow parallax, steam rises',
    negativePrompt: 'text',
    plan: motionPlan,
    motion: 'subtle',
    mode: 'loop',
    segment: 'whole',
    loopMode: 'native',
    seconds: 5,
    aspect: 'source',
    model: 'standard',
    seed: 2 ** 31 + 7,
    deadline: now + 60_000,
    ...more,
  };
}

/** Plays an exchange. Answers how it was read, in the form of `reads`, and the error where it failed. */
async function play(name: BookName, exchange: Exchange): Promise<{ reading: unknown; error?: EffectError }> {
  const book = books[name];
  rewrite = (text) => text.replaceAll(book.base, baseOf(book)).replaceAll(book.key, key);
  due = [...exchange.answers];
  asked = [];
  try {
    return { reading: plain(await act(name, exchange), book) };
  } catch (error) {
    if (!(error instanceof EffectError)) throw error;
    const { code, retry } = error;
    const told = error instanceof ProviderError ? { error: worded(error.failure) } : {};
    if (name === 'chat') return { error, reading: { code, retry, ...told } };
    return { error, reading: { ...told, ambiguous: error instanceof ProviderError && error.isAmbiguous } };
  }
}

async function act(name: BookName, exchange: Exchange): Promise<unknown> {
  const { does, job, model, callbackUrl, callback = {} } = exchange;
  if (name === 'chat') {
    const request = { image, motion: 'subtle', mode: 'loop', seed: 7 } as const;
    const { prompt } = await vision().describe(request, signal);
    return { prompt };
  }
  const video = createVideo(name, modelsCalled(name, model));
  const submitted: Submitted = JSON.parse(rewrite(JSON.stringify(job ?? { id: '' })));
  switch (does) {
    case 'submit':
      return video.submit(jobOf(callbackUrl === undefined ? {} : { callbackUrl }), signal);
    case 'status':
      return video.status(submitted, signal);
    case 'cancel':
      return video.cancel(submitted, signal);
    default:
      if (name === 'fal') due = [{ status: 200, body: falKeys }];
      return video.readCallback?.(signed(name, JSON.stringify(callback)));
  }
}

/** Without what the provider has no say in: the words of a failure, when to read again, the address of our server. */
function plain(reading: unknown, book: Book): unknown {
  const text = JSON.stringify(reading, (field, value) => (field === 'pollAfterMs' ? undefined : value));
  const value = JSON.parse(text.replaceAll(baseOf(book), book.base));
  return value?.failure ? { ...value, failure: worded(value.failure) } : value;
}

/** A failure without its words, which must be there and short. */
function worded({ message, ...failure }: { message: string }): object {
  if (message === '' || message.length > limits.messageMaxChars) throw new Error(`a message of ${message}`);
  return failure;
}

/** A callback with the headers that its provider signs it with. */
function signed(name: RemoteName, body: string) {
  const seconds = String(now / 1000);
  const headers: Record<string, string> = {};
  if (name === 'replicate') {
    headers['webhook-id'] = 'msg_1';
    headers['webhook-timestamp'] = seconds;
    headers['webhook-signature'] = new Webhook(replicateSecret).sign('msg_1', new Date(now), body);
  }
  if (name === 'fal') {
    const digest = createHash('sha256').update(body).digest('hex');
    const message = Buffer.from(['r1', 'user_1', seconds, digest].join('\n'));
    headers['x-fal-webhook-request-id'] = 'r1';
    headers['x-fal-webhook-user-id'] = 'user_1';
    headers['x-fal-webhook-timestamp'] = seconds;
    headers['x-fal-webhook-signature'] = sign(null, message, signing.privateKey).toString('hex');
  }
  return { header: (one: string) => headers[one] ?? '', body: Buffer.from(body) };
}

const Ajv = ajvModule.default ?? ajvModule;
const ajv = new Ajv({ strict: false, allErrors: true });

/** What of a body the published schemas do not allow. */
function flawsOf({ schemas }: Book, model: string, body: unknown): unknown[] {
  const inputs = schemas['submit'] && model in schemas ? (body as { input: unknown }).input : body;
  const parts: [{ schema: object } | undefined, unknown][] = [
    [schemas['submit'], body],
    [schemas[model], inputs],
  ];
  return parts.flatMap(([one, value]) => {
    if (!one || ajv.validate(one.schema, value)) return [];
    return (ajv.errors ?? []).map(({ instancePath, message, params }) => ({ instancePath, message, params }));
  });
}

/** Whether the last request is the published one, as far as that goes. */
function checkRequest(t: Test, name: BookName, { request, model = '', does }: Exchange): void {
  const book = books[name];
  const last = asked.at(-1);
  if (!request || !last) return void t.equal(asked.length, request ? 1 : 0, 'as many requests as published');
  const wanted = new URL(request.path, origin);
  t.equal(last.method, request.method);
  t.equal(last.url.pathname, wanted.pathname);
  t.strictSame([...last.url.searchParams], [...wanted.searchParams]);
  for (const [header, value] of Object.entries(request.headers ?? {}))
    t.equal(last.headers[header.toLowerCase()], value.replace(book.key, key), header);
  for (const [header, { example, pattern }] of Object.entries(request.formats ?? {})) {
    t.match(example, new RegExp(pattern), `${header} as published`);
    t.match(last.headers[header.toLowerCase()], new RegExp(pattern), header);
  }
  if (does !== 'submit' && does !== 'describe') return void t.equal(last.body, '', 'no body');
  t.strictSame(flawsOf(book, model, last.body), [], 'the body fits the schema');
  if (request.body !== undefined)
    t.strictSame(flawsOf(book, model, request.body), [], 'the published body fits the schema');
}

for (const name of names) {
  t.test(name, async (t) => {
    for (const exchange of books[name].exchanges) {
      await t.test(`${exchange.does}: ${exchange.name}`, async (t) => {
        const { reading } = await play(name, exchange);
        t.strictSame(reading, exchange.reads);
        checkRequest(t, name, exchange);
        t.equal(due.length, 0, 'every answer was read');
        t.strictSame(warnings.splice(0), [], 'nothing in it is unheard of');
      });
    }
  });
}

t.test('every exchange tells where it is published', async (t) => {
  const isPublic = /^(https:\/\/[\w.-]+\.\w+\/|[\w-]+\/[\w-]+:[\w./[\]-]+$)/;
  const sources = Object.values(books).flatMap(({ schemas, exchanges }) => [
    ...Object.values(schemas),
    ...exchanges,
  ]);
  t.strictSame(
    sources.map(({ source }) => source).filter((source) => !isPublic.test(source)),
    [],
  );
  for (const { exchanges } of Object.values(books))
    t.equal(new Set(exchanges.map((one) => one.does + one.name)).size, exchanges.length, 'each has a name');
});

/** What every provider may say to a submit. */
const accepted = { id: 'a', request_id: 'a', status: 'starting', state: 'queued' };

t.test('every model takes what is sent to it, whatever is wished for', async (t) => {
  const lengths = [2, 5, 8] as const;
  const aspects = ['source', '1:1', '16:9', '9:16', '4:3', '3:4'] as const;
  for (const name of videoNames) {
    const book = books[name];
    const ids = Object.keys(book.schemas).filter((id) => id !== 'submit');
    const offered = / of (.+), each /.exec(acceptedModels(name))?.[1]?.split(', ') ?? [];
    t.strictSame(ids.sort(), offered.sort(), `${name}: a schema for each model`);
    for (const id of ids) {
      const video = createVideo(name, readModels(name, `fast=${id},standard=${id},cinema=${id}`));
      const wishes: Partial<VideoJob>[] = [
        ...lengths.map((seconds) => ({ seconds, segment: 'out' as const })),
        ...lengths.map((seconds) => ({ seconds, lastFrame: image, segment: 'back' as const })),
        ...aspects.map((aspect) => ({ aspect })),
        { model: 'cinema', callbackUrl: 'https://here.example/hook' },
      ];
      for (const wish of wishes) {
        due = [{ status: 200, body: accepted }];
        asked = [];
        await video.submit(jobOf(wish), signal);
        const { seconds, segment, aspect, model } = jobOf(wish);
        t.strictSame(flawsOf(book, id, asked[0]?.body), [], `${id}: ${[seconds, segment, aspect, model]}`);
      }
    }
  }
});

t.test('a state that nobody has heard of is one of a prediction that runs', async (t) => {
  const words = { replicate: 'processing', fal: 'IN_PROGRESS', runway: 'RUNNING', luma: 'dreaming' };
  for (const name of videoNames) {
    const running = books[name].exchanges.find(({ answers: [answer] }) =>
      JSON.stringify(answer?.body ?? '').includes(`"${words[name]}"`),
    );
    t.ok(running, `${name} has ${words[name]}`);
    if (!running) continue;
    const changed = JSON.stringify(running).replaceAll(`"${words[name]}"`, '"WARMING"');
    const { reading } = await play(name, JSON.parse(changed));
    t.match(reading, { state: 'running' }, name);
    t.match(warnings.splice(0), [/WARMING/], 'it is noted');
  }
});

t.test('a failure that nobody has heard of passes, unless it is ours', async (t) => {
  const strange = { detail: 'strange', error: { message: 'strange', code: 'strange' } };
  for (const name of names) {
    const [first] = books[name].exchanges;
    if (!first) throw new Error(name);
    for (const [status, retry] of [
      [418, 'permanent'],
      [451, 'permanent'],
      [507, 'transient'],
      [599, 'transient'],
    ] as const) {
      const { error } = await play(name, { ...first, answers: [{ status, body: strange }] });
      t.equal(error?.retry, retry, `${name}: ${status}`);
    }
  }
  const failures: [RemoteName, unknown[]][] = [
    ['replicate', [{ id: 'a', status: 'failed', error: 'strange' }]],
    ['runway', [{ id: 'a', status: 'FAILED', failure: 'strange', failureCode: 'STRANGE.CODE' }]],
    ['luma', [{ id: 'a', state: 'failed', failure_reason: 'strange' }]],
  ];
  for (const [name, bodies] of failures) {
    const answers = bodies.map((body) => ({ status: 200, body }));
    const { reading } = await play(name, { ...statusOf(name), answers });
    t.match(reading, { state: 'failed', failure: { kind: 'transient' } }, name);
  }
  for (const [status, kind] of [
    [422, 'permanent'],
    [500, 'transient'],
  ] as const) {
    const detail = [{ loc: ['body'], msg: 'strange', type: 'strange' }];
    const answers = [
      { status: 200, body: { status: 'COMPLETED' } },
      { status, body: { detail } },
    ];
    const { reading } = await play('fal', { ...statusOf('fal'), answers });
    t.match(reading, { state: 'failed', failure: { kind, providerCode: 'strange' } }, `fal: ${status}`);
  }
});

function statusOf(name: RemoteName): Exchange {
  const found = books[name].exchanges.find(({ does }) => does === 'status');
  if (!found) throw new Error(`${name} has no status`);
  return found;
}

t.test('no key is told, even where the provider repeats it', async (t) => {
  logged.length = 0;
  const told: string[] = [];
  for (const name of names) {
    for (const exchange of books[name].exchanges) {
      const answers = exchange.answers.map(({ body, ...answer }) => ({ ...answer, body: withKey(body) }));
      const { reading, error } = await play(name, { ...exchange, answers });
      told.push(JSON.stringify(reading), ...textsOf(error));
    }
  }
  t.ok(told.some((text) => text.includes('[hidden]')));
  t.strictSame(
    [...told, ...logged, ...warnings].filter((text) => text.includes(key)),
    [],
  );
});

/** An answer whose words of what went wrong have our key in them. */
function withKey(body: unknown): unknown {
  const told = ['message', 'msg', 'detail', 'error', 'failure', 'failure_reason', 'title'];
  return JSON.parse(
    JSON.stringify(body ?? null, (field, value) =>
      told.includes(field) && typeof value === 'string' ? `${key} ${value}` : value,
    ),
  );
}

function textsOf(error: unknown): string[] {
  if (!(error instanceof Error)) return [];
  return [error.message, error.stack ?? '', JSON.stringify(error), ...textsOf(error.cause)];
}
