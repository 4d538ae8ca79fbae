/**
 * What the front end does with HTTP/1.1 as it comes over the wire: the 33 cases of h1spec, and more.
 *
 * Each row says what a strict server may do and what we do. Where the two differ it is a gap of the parser inside
 * uWebSockets.js 20.30, which JavaScript never sees: it has a reason, and the row fails when the gap closes.
 */
import { connect } from 'node:net';
import t from 'tap';
import { z } from 'zod';
import { http as limits } from '../../schemas/limits.ts';
import { type AnyRoute, rawRoute, reply, route } from '../../src/http/route.ts';
import { startFront } from '../fixtures/http.ts';

/** What a connection does: a status, or nothing until the parser's ten seconds are over, or an end at once. */
type Outcome = number | 'waits' | 'closes';

type Row = {
  name: string;
  request: string;
  /** What a strict server may do: classes of statuses, or waiting for more. */
  strict: ('1xx' | '2xx' | '4xx' | '5xx' | 'waits')[];
  ours: Outcome;
  /** Why ours is not strict. */
  gap?: string;
  /** What the answer's body holds. */
  body?: string;
};

/** The parser gives every head ten seconds, in steps of four. */
const parserMs = 14_000;
const atOnceMs = 5_000;

const silent =
  'the parser takes it for the beginning of a longer request, and hangs up after 8 to 12 seconds';
const hangsUp = 'the parser hangs up without an answer';

const refused: Row['strict'] = ['4xx'];
const get = 'GET /healthz HTTP/1.1\r\nHost: example.com\r\n';
const post = 'POST /api/test/echo HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\n';
const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
const hello = '7\r\n"hello"\r\n0\r\n\r\n';

const beginnings = [
  'G',
  'GET ',
  'GET /healthz',
  'GET /healthz ',
  'GET /healthz HTTP',
  'GET /healthz HTTP/1.1',
  'GET /healthz HTTP/1.1\r',
  'GET /healthz HTTP/1.1\r\n',
  'GET /healthz HTTP/1.1\r\nHos',
  'GET /healthz HTTP/1.1\r\nHost:',
  'GET /healthz HTTP/1.1\r\nHost: ',
  'GET /healthz HTTP/1.1\r\nHost: localhost',
  'GET /healthz HTTP/1.1\r\nHost: localhost\r',
  'GET /healthz HTTP/1.1\r\nHost: localhost\r\n',
  'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r',
];

/** The cases of h1spec, in its order. */
const h1spec: Row[] = [
  ...beginnings.map(
    (request): Row => ({
      name: `cut after ${JSON.stringify(request)}`,
      request,
      strict: ['waits'],
      ours: 'waits',
    }),
  ),
  {
    name: 'no version',
    request: 'GET /healthz \r\n\r\n',
    strict: ['4xx', '5xx'],
    ours: 'waits',
    gap: silent,
  },
  { name: 'Expect', request: `${get}Expect: 100-continue\r\n\r\n`, strict: ['1xx', '2xx'], ours: 100 },
  { name: 'a plain GET', request: `${get}\r\n`, strict: ['2xx'], ours: 200 },
  {
    name: 'odd but allowed headers',
    request: 'GET /healthz HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n',
    strict: ['2xx'],
    ours: 200,
  },
  {
    name: 'a header name with brackets',
    request: `${get}X-Invalid[]: test\r\n\r\n`,
    strict: refused,
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'no Host',
    request: 'GET /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\n',
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  { name: 'two Hosts', request: `${get}Host: example.org\r\n\r\n`, strict: refused, ours: 400 },
  {
    name: 'a negative length past every integer',
    request: `${get}Content-Length: -123456789123456789123456789\r\n\r\n`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  {
    name: 'a negative length',
    request: `${get}Content-Length: -1234\r\n\r\n`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  {
    name: 'a length of letters',
    request: `${get}Content-Length: abc\r\n\r\n`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  { name: 'an empty value', request: `${get}X-Empty-Header: \r\n\r\n`, strict: ['2xx'], ours: 200 },
  {
    name: 'a control character in a value',
    request: `${get}X-Bad-Control-Char: test\x07\r\n\r\n`,
    strict: refused,
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'version 9.9',
    request: 'GET /healthz HTTP/9.9\r\nHost: example.com\r\n\r\n',
    strict: ['4xx', '5xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'words before the method',
    request: `Extra line${get}\r\n`,
    strict: ['4xx', '5xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'a line that ends in CR alone',
    request: `${get}\rSome-Header: Test\r\n\r\n`,
    strict: refused,
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'a POST with a body',
    request: `${post}Content-Length: 7\r\n\r\n"hello"`,
    strict: ['2xx'],
    ours: 200,
    body: '"hello"',
  },
  { name: 'a body in chunks', request: `${chunked}${hello}`, strict: ['2xx'], ours: 200, body: '"hello"' },
  {
    name: 'a length and chunks',
    request: `${post}content-LengtH: 5\r\nTransFer-Encoding: chunked\r\n\r\n${hello}`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
];

const more: Row[] = [
  ...['^', '~', '_', '.', '$', '|'].map(
    (character): Row => ({
      name: `a header name with ${character}, which RFC 9110 allows`,
      request: `${get}X${character}Y: test\r\n\r\n`,
      strict: ['2xx'],
      ours: 'waits',
      gap: silent,
    }),
  ),
  // Methods.
  ...['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'TRACE'].map(
    (method): Row => ({
      name: `${method} of an unknown path`,
      request: `${method} /nowhere HTTP/1.1\r\nHost: a\r\n\r\n`,
      strict: refused,
      ours: 404,
    }),
  ),
  ...['FOO', 'get', 'G(T', 'X'.repeat(300)].map(
    (method): Row => ({
      name: `the method ${method.slice(0, 9)}`,
      request: `${method} /healthz HTTP/1.1\r\nHost: a\r\n\r\n`,
      strict: ['4xx', '5xx'],
      ours: 'closes',
      gap: `${hangsUp}: routes can be had for its nine methods only`,
    }),
  ),
  // Versions and other protocols.
  ...['HTTP/1.0', 'HTTP/1.2', 'http/1.1', 'HTTQ/1.1', 'HTTP/1.1 '].map(
    (version): Row => ({
      name: `the version ${JSON.stringify(version)}`,
      request: `GET /healthz ${version}\r\nHost: a\r\n\r\n`,
      strict: version === 'HTTP/1.0' || version === 'HTTP/1.2' ? ['2xx', '4xx', '5xx'] : ['4xx', '5xx'],
      ours: 'waits',
      gap: silent,
    }),
  ),
  {
    name: 'the preface of HTTP/2',
    request: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
    strict: ['4xx', '5xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'the hello of TLS',
    request: `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${'a'.repeat(200)}`,
    strict: refused,
    ours: 'waits',
    gap: silent,
  },
  // Targets.
  ...['http://a/healthz', 'healthz', '/he\talthz', '/he\x01althz', '/he\0althz'].map(
    (target): Row => ({
      name: `the target ${JSON.stringify(target)}`,
      request: `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
      strict: target.startsWith('http') ? ['2xx', '4xx'] : refused,
      ours: 'waits',
      gap: silent,
    }),
  ),
  {
    name: 'OPTIONS *',
    request: 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
    strict: ['2xx', '4xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'CONNECT',
    request: 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n',
    strict: ['4xx', '5xx'],
    ours: 'waits',
    gap: silent,
  },
  ...[
    '//healthz',
    '//evil.example/healthz',
    '/healthz#x',
    '/he\x7falthz',
    '/h\xc3\xa9',
    '/h%ff',
    '/h%c3',
    '/h%c0%ae',
    '/h%ed%a0%80',
    '/h%zz',
    '/h%',
    '/.',
    '/../healthz',
    '/v1/../healthz',
    '/v1/%2E%2e/healthz',
    '/v1/./x.mp4',
    '/raw/%ff',
  ].map(
    (target): Row => ({
      name: `the target ${JSON.stringify(target)}`,
      request: `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
      strict: refused,
      ours: 400,
      body: 'the path is malformed',
    }),
  ),
  ...['/h%00', '/h%c3%a9', '/raw//x', '/...', '/h;a=b'].map(
    (target): Row => ({
      name: `the target ${target}`,
      request: `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`,
      strict: refused,
      ours: 404,
    }),
  ),
  // Hosts.
  ...['', 'a b', 'user@a', 'a/b', 'a:b', 'a:123456', '[::1', 'a,b', '\xff', 'a'.repeat(256)].map(
    (host): Row => ({
      name: `the Host ${JSON.stringify(host.slice(0, 9))}`,
      request: `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      strict: refused,
      ours: 400,
      body: 'exactly one Host is needed',
    }),
  ),
  ...[
    'example.com',
    'Example.com:8080',
    '127.0.0.1:1',
    '[::1]:8080',
    'my_service',
    'xn--e1afmkfd.example.',
    'a:',
  ].map(
    (host): Row => ({
      name: `the Host ${host}`,
      request: `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      strict: ['2xx'],
      ours: host === 'a:' ? 400 : 200,
      ...(host === 'a:' ? { gap: 'an empty port is allowed and of no use: nobody sends it' } : {}),
    }),
  ),
  // Headers.
  ...[
    'Content-Length: 0',
    'Content-Type: a/b',
    'Authorization: b',
    'Idempotency-Key: k',
    'Origin: http://a',
  ].flatMap((line): Row[] => [
    { name: `one ${line}`, request: `${get}${line}\r\n\r\n`, strict: ['2xx'], ours: 200 },
    { name: `two ${line}`, request: `${get}${line}\r\n${line}\r\n\r\n`, strict: refused, ours: 400 },
    {
      name: `two ${line} to a raw route`,
      request: `HEAD /raw/x HTTP/1.1\r\nHost: a\r\n${line}\r\n${line}\r\n\r\n`,
      strict: refused,
      ours: 400,
    },
  ]),
  ...['X: a\x7fb', 'Content-Length:'].map(
    (line): Row => ({
      name: JSON.stringify(line),
      request: `${get}${line}\r\n\r\n`,
      strict: refused,
      ours: 400,
    }),
  ),
  ...[
    'Content-Length: +5',
    'Content-Length: 5, 5',
    'Content-Length: 0x5',
    'Content-Length: 9999999999999999',
  ].map(
    (line): Row => ({
      name: line,
      request: `${get}${line}\r\n\r\n`,
      strict: refused,
      ours: 'closes',
      gap: hangsUp,
    }),
  ),
  ...['X : a', 'X: a\0b', 'X: a\rb', 'X: a\nY: b', 'X: a\r\n b', 'nocolon', 'X\x7f: a'].map(
    (line): Row => ({
      name: JSON.stringify(line),
      request: `${get}${line}\r\n\r\n`,
      strict: refused,
      ours: 'waits',
      gap: silent,
    }),
  ),
  {
    name: 'an empty header name',
    request: `${get}: x\r\nTransfer-Encoding: gzip\r\n\r\n`,
    strict: refused,
    ours: 200,
    gap: 'the parser shows no header from an empty name on, neither to us nor to itself',
  },
  {
    name: 'lines that end in LF alone',
    request: 'GET /healthz HTTP/1.1\nHost: a\n\n',
    strict: ['2xx', '4xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: 'an empty line before the request',
    request: `\r\n${get}\r\n`,
    strict: ['2xx', '4xx'],
    ours: 'waits',
    gap: silent,
  },
  {
    name: '30 KB of headers at once',
    request: `${get}X: ${'a'.repeat(30_000)}\r\n\r\n`,
    strict: ['2xx', '4xx'],
    ours: 200,
  },
  {
    name: 'more than 32 KB of headers at once',
    request: `${get}X: ${'a'.repeat(limits.maxHeadBytes)}\r\n\r\n`,
    strict: refused,
    ours: 431,
  },
  {
    name: 'more headers than the parser has room for',
    request: `${get}${'X: a\r\n'.repeat(60)}\r\n`,
    strict: ['2xx', '4xx'],
    ours: 'waits',
    gap: silent,
  },
  // Bodies.
  ...['gzip', 'gzip, chunked', 'chunked, chunked', 'xchunked', 'identity', ''].map(
    (coding): Row => ({
      name: `the coding ${JSON.stringify(coding)}`,
      request: `${post}Transfer-Encoding: ${coding}\r\n\r\n${hello}`,
      strict: ['4xx', '5xx'],
      ours: 400,
    }),
  ),
  {
    name: 'chunked twice',
    request: `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n${hello}`,
    strict: refused,
    ours: 400,
  },
  {
    name: 'a chunk of no size',
    request: `${chunked}zz\r\n"hello"\r\n0\r\n\r\n`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  {
    name: 'a chunk past every integer',
    request: `${chunked}ffffffffffffffff\r\n"hello"\r\n0\r\n\r\n`,
    strict: refused,
    ours: 'closes',
    gap: hangsUp,
  },
  {
    name: 'an extension of a chunk',
    request: `${chunked}7;a=b\r\n"hello"\r\n0\r\n\r\n`,
    strict: ['2xx', '4xx'],
    ours: 408,
  },
  {
    name: 'a chunk longer than it says',
    request: `${chunked}7\r\n"hello"xx0\r\n\r\n`,
    strict: refused,
    ours: 200,
    gap: 'the parser skips two bytes after a chunk, whatever they are',
  },
  {
    name: 'a trailer that is a request',
    request: `${chunked}7\r\n"hello"\r\n0\r\nabGET /healthz HTTP/1.1\r\nHost: smuggled\r\n\r\n`,
    strict: refused,
    ours: 200,
    body: '"ok":true',
    gap: 'the parser knows no trailers: what follows the two bytes after the last chunk is the next request',
  },
  {
    name: 'an encoded body',
    request: `${post}Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\n"hello"`,
    strict: refused,
    ours: 415,
  },
  {
    name: 'a body that never comes',
    request: `${post}Content-Length: 7\r\n\r\n"he`,
    strict: ['4xx', 'waits'],
    ours: 408,
  },
];

const testRoutes: AnyRoute[] = [
  route({
    method: 'post',
    path: '/api/test/echo',
    auth: 'none',
    body: z.string(),
    responses: { 200: z.string() },
    handle: ({ body }) => reply(200, body),
  }),
  rawRoute({
    method: 'head',
    path: '/raw/:name',
    handle: () => undefined,
  }),
];

const front = await startFront({ routes: testRoutes });
t.teardown(() => front.close());

const fits = (outcome: Outcome, strict: Row['strict']) =>
  strict.some((one) => one === outcome || one === `${Math.floor(Number(outcome) / 100)}xx`);

// All at once: many of them take the parser's ten seconds.
const tables = Object.entries({ 'the cases of h1spec': h1spec, 'more cases': more }).map(([name, rows]) => ({
  name,
  seen: Promise.all(rows.map(async (row) => ({ row, ...(await send(row.request)) }))),
}));
for (const { name, seen } of tables) {
  t.test(name, async (t) => {
    for (const { row, outcome, text } of await seen) {
      t.equal(outcome, row.ours, row.name);
      t.equal(fits(outcome, row.strict), row.gap === undefined, `${row.name}: ${row.gap ?? 'strict'}`);
      if (row.body !== undefined) t.ok(text.includes(row.body), `${row.name} is answered with ${row.body}`);
      if (outcome === 400 || outcome === 431)
        t.match(text, /\r\nconnection: close\r\n/i, `${row.name}: and the end`);
    }
  });
}

t.test('h1spec: 22 of its 33 cases are as a strict server has them', async (t) => {
  t.equal(h1spec.length, 33);
  t.equal(h1spec.filter(({ gap }) => gap === undefined).length, 22);
});

t.test('a refused HEAD has no body, and the log knows of it', async (t) => {
  const answer = await front.sendRaw('HEAD /healthz HTTP/1.1\r\nHost: a b\r\n\r\n', 2_000);
  t.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/);
  t.match(answer, /\r\n\r\n$/);
  t.match(front.logged.at(-1), { status: 400, route: '/healthz', method: 'head' });
});

/** What a connection of its own does with the bytes. All of them must be answered or closed in time. */
function send(request: string): Promise<{ outcome: Outcome; text: string }> {
  return new Promise((resolve, reject) => {
    const started = performance.now();
    let text = '';
    const socket = connect(front.port, '127.0.0.1', () => socket.write(Buffer.from(request, 'latin1')));
    const give = (outcome: Outcome) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ outcome, text });
    };
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`neither answered nor closed: ${JSON.stringify(request.slice(0, 200))}`));
    }, parserMs);
    socket.on('data', (data) => {
      text += data.toString('latin1');
      const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? [];
      // A second answer on the connection follows at once.
      if (status !== undefined) setTimeout(() => give(Number(status)), 100);
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      if (text === '') give(performance.now() - started < atOnceMs ? 'closes' : 'waits');
    });
  });
}
