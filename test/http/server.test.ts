import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { z } from 'zod';
import { perMinute } from '../../schemas/limits.ts';
import { BusyError } from '../../src/auth/passwords.ts';
import { writeHead } from '../../src/http/exchange.ts';
import { newRequestId } from '../../src/http/head.ts';
import { type AnyRoute, rawRoute, reply, route } from '../../src/http/route.ts';
import { checkBinary, startServer } from '../../src/http/server.ts';
import { coded, type LogLine, startFront } from '../fixtures/http.ts';

const gate: { open(): void; entered(): void; aborted: boolean } = {
  open: () => undefined,
  entered: () => undefined,
  aborted: false,
};

const testRoutes: AnyRoute[] = [
  route({
    method: 'post',
    path: '/api/test/echo/:first/of/:second',
    auth: 'none',
    query: z.object({ n: z.coerce.number().optional() }),
    body: z.object({ text: z.string().optional(), list: z.array(z.number()).optional() }),
    responses: { 200: z.record(z.string(), z.unknown()) },
    handle: ({ first, second, query, body, address }) => reply(200, { first, second, query, body, address }),
  }),
  route({
    method: 'post',
    path: '/api/test/no-body',
    auth: 'none',
    responses: { 204: z.undefined() },
    handle: () => reply(204, undefined),
  }),
  route({
    method: 'get',
    path: '/api/test/throw/:what',
    auth: 'none',
    responses: { 200: z.object({}) },
    handle({ what }) {
      if (what === 'busy') throw new BusyError('busy', 1500);
      if (what === 'header') return reply(200, {}, { 'x-a': 'a\r\nSet-Cookie: b=c' });
      throw new Error('secret detail');
    },
  }),
  route({
    method: 'get',
    path: '/api/test/limited',
    perMinute: 3,
    responses: { 200: z.object({ id: z.string() }) },
    handle: ({ userId }) => reply(200, { id: userId }),
  }),
  route({
    method: 'get',
    path: '/api/test/slow',
    auth: 'none',
    responses: { 200: z.object({ ok: z.boolean() }) },
    async handle({ signal }) {
      signal.addEventListener('abort', () => {
        gate.aborted = true;
        gate.open();
      });
      await new Promise<void>((resolve) => {
        gate.open = resolve;
        gate.entered();
      });
      return reply(200, { ok: true });
    },
  }),
  rawRoute({
    method: 'get',
    path: '/raw/:name',
    handle(res, req, _services, exchange) {
      if (req.getParameter(0) === 'throw') throw new Error('early');
      writeHead(exchange, 200, { 'Content-Type': 'text/plain' });
      if (req.getParameter(0) === 'half') {
        res.write('half');
        throw new Error('in the middle');
      }
      res.end('raw');
      exchange.done(200);
    },
  }),
  rawRoute({
    method: 'get',
    path: '/late',
    async handle() {
      await delay(1);
      throw new Error('late');
    },
  }),
];

const front = await startFront({ routes: testRoutes });
t.teardown(() => front.close());
const { call, logged, sendRaw, url } = front;
// It takes the server's ten seconds: begun here, looked at below.
const slowHead = {
  started: performance.now(),
  answer: sendRaw('GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ', 30_000),
};
const entered = () =>
  new Promise<void>((resolve) => {
    gate.entered = resolve;
  });
const echo = '/api/test/echo/a/of/b';
const echoRaw = (raw: string | Uint8Array, contentType = 'application/json') =>
  call('POST', echo, { raw, headers: { 'content-type': contentType } });

t.test('parameters are decoded, the query coerced, unknown fields ignored', async (t) => {
  const { body } = await call('POST', '/api/test/echo/a%20b/of/%C3%A9?n=7&other=1', {
    body: { text: 'x', other: 1 },
  });
  t.match(body, { first: 'a b', second: 'é', query: { n: 7 }, body: { text: 'x' }, address: '127.0.0.1' });
  t.equal('other' in (body['body'] as object), false);
  t.match((await call('POST', `${echo}?n=x`)).body, { issues: [{ path: 'n' }] });
  t.match((await call('POST', echo)).body, { body: {} }, 'no body counts as {}');
});

t.test('X-Request-Id is echoed when it is of the right form and made otherwise', async (t) => {
  for (const id of ['abcd', 'a-b_C-9', 'x'.repeat(64)]) {
    const { headers } = await call('GET', '/healthz', { headers: { 'x-request-id': id } });
    t.equal(headers.get('x-request-id'), id);
  }
  for (const id of ['abc', 'x'.repeat(65), 'a b cd', 'abcdé', 'a;b;c;d', '']) {
    const { headers } = await call('GET', '/nowhere', { headers: { 'x-request-id': encodeURI(id) } });
    t.match(headers.get('x-request-id'), /^req_[0-9a-f]{8}$/);
  }
  const ids = new Set(Array.from({ length: 5_000 }, () => newRequestId()));
  t.ok(ids.size > 4_990, 'they differ');
});

t.test('404 for an unknown path, 405 with Allow for another method, OPTIONS and HEAD', async (t) => {
  for (const path of [
    '/',
    '/api',
    '/api/user/nothing',
    '/api/projects/',
    '/api//projects',
    '/healthz/',
    '/%00',
  ]) {
    t.match(await call('GET', path), { status: 404, body: { error: 'not found' } }, path);
  }
  const wrong = await call('DELETE', '/api/user/signin');
  t.match(wrong, { status: 405, body: { error: 'method not allowed' } });
  t.equal(wrong.headers.get('allow'), 'OPTIONS, POST');
  t.equal((await call('PUT', '/api/projects')).headers.get('allow'), 'GET, HEAD, OPTIONS, POST');
  const options = await call('OPTIONS', '/api/projects/x');
  t.equal(options.status, 204);
  t.equal(options.headers.get('allow'), 'DELETE, GET, HEAD, OPTIONS, PUT');
  t.equal(options.headers.get('access-control-allow-origin'), null);
  t.equal((await call('OPTIONS', '/nowhere')).status, 404);
  t.equal((await call('PATCH', '/raw/x')).status, 405);
  const head = await fetch(`${url}/healthz`, { method: 'HEAD' });
  t.equal(head.status, 200);
  t.equal(head.headers.get('content-length'), String(JSON.stringify({ ok: true }).length));
  t.equal(await head.text(), '');
});

t.test('204 has no body and no length', async (t) => {
  const answer = await sendRaw(
    'POST /api/test/no-body HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
  );
  t.match(answer, /^HTTP\/1\.1 204 No Content\r\n/);
  t.notMatch(answer, /content-length/i);
});

t.test('bodies', async (t) => {
  t.test('400 for what is no JSON object of the right form', async (t) => {
    const bytes = (text: string) => Buffer.from(text, 'latin1');
    const bad: (string | Uint8Array)[] = [
      '{',
      '',
      'nonsense',
      '{"text":"x"',
      '{"text":1}',
      '[]',
      'null',
      '1',
      '"x"',
      '{"list":["1"]}',
      '\0',
      '{"text":"\0"}',
      bytes('{"text":"\xff\xfe"}'),
      bytes('{"text":"\xed\xa0\x80"}'),
      '{"text":"\\ud800"}',
      '{"text":"\\uDC00\\ud800"}',
      `{"text":${'['.repeat(100_000)}`,
      `{"list":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      `{"text":"\\ud83d\\ude00","x":${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`,
    ].filter((raw) => raw !== '');
    for (const raw of bad) {
      const { status, body } = await echoRaw(raw);
      t.equal(status, 400, Buffer.from(raw).subarray(0, 30).toString());
      t.type(body['error'], 'string');
    }
    t.match((await echoRaw('{')).body, { error: 'invalid JSON' });
  });

  t.test('odd but valid JSON is harmless', async (t) => {
    t.match((await echoRaw('{"text":"\\ud83d\\ude00 \\u0000"}')).body, { body: { text: '😀 \0' } });
    t.match((await echoRaw('{"text":"a","text":"b"}')).body, { body: { text: 'b' } });
    const proto = await echoRaw('{"__proto__":{"text":"p"},"constructor":{"prototype":{"q":1}},"text":"t"}');
    t.strictSame(proto.body['body'], { text: 't' });
    t.equal(({} as Record<string, unknown>)['q'], undefined);
    t.strictSame((await echoRaw(`${' '.repeat(1000)}{}`)).body['body'], {});
    const deep = `{"ignored":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    t.equal((await echoRaw(deep)).status, 200);
  });

  t.test('415 for another type than JSON in UTF-8', async (t) => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonx',
      'application/json; charset=latin1',
    ]) {
      t.match(await echoRaw('{}', type), {
        status: 415,
        body: { error: 'the body must be application/json' },
      });
    }
    t.equal((await call('POST', '/api/test/no-body', { raw: 'x' })).status, 415);
    for (const type of ['application/json; charset=utf-8', 'Application/JSON;charset="UTF-8"']) {
      t.equal((await echoRaw('{}', type)).status, 200);
    }
  });

  t.test('413 for more than 1 MB, announced or not, and the connection lives on', async (t) => {
    const big = JSON.stringify({ text: 'x'.repeat(2 * 1024 * 1024) });
    for (let n = 0; n < 3; n += 1) t.equal((await echoRaw(big)).status, 413);
    const chunks = new ReadableStream({
      start(controller) {
        for (let n = 0; n < 32; n += 1) controller.enqueue(Buffer.alloc(64 * 1024, 0x20));
        controller.close();
      },
    });
    const headers = { 'content-type': 'application/json' };
    t.equal((await call('POST', echo, { raw: chunks, headers })).status, 413);
    const fits = JSON.stringify({ text: 'x'.repeat(1024 * 1024 - 11) });
    t.equal(fits.length, 1024 * 1024);
    t.equal((await echoRaw(fits)).status, 200);
    t.equal((await echoRaw(`${fits} `)).status, 413);
  });

  t.test('413 at once, with close, for what would take too long to read', async (t) => {
    const head = `POST ${echo} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;
    const started = performance.now();
    const announced = await sendRaw(`${head}Content-Length: 500000000\r\n\r\n{`, 3_000);
    t.match(announced, /^HTTP\/1\.1 413 /);
    t.ok(performance.now() - started < 2_000, 'and the connection is closed');
    const piece = `100000\r\n${'x'.repeat(0x100000)}\r\n`;
    t.match(
      await sendRaw(`${head}Transfer-Encoding: chunked\r\n\r\n${piece.repeat(40)}`, 5_000),
      /^(HTTP\/1\.1 413 .*)?/,
    );
  });

  t.test('a body in small pieces is one body; one that is cut short is nothing', async (t) => {
    const text = JSON.stringify({ text: 'é'.repeat(50) });
    const pieces = [...Buffer.from(text)].map((byte) => Buffer.from([byte]));
    const socket = connect(front.port, '127.0.0.1');
    let answer = '';
    socket.on('data', (data) => {
      answer += data.toString();
    });
    socket.write(
      `POST ${echo} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n`,
    );
    for (const piece of pieces) {
      socket.write(piece);
      await delay(0);
    }
    while (!answer.includes('"address"')) await delay(5);
    t.match(answer, /^HTTP\/1\.1 200 /);
    t.match(answer, text.slice(9, 20));
    socket.destroy();

    const before = logged.length;
    const cut = connect(front.port, '127.0.0.1');
    cut.write(
      `POST ${echo} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"te`,
    );
    await delay(50);
    cut.destroy();
    while (logged.length === before) await delay(5);
    t.match(logged.at(-1), { status: 499, route: '/api/test/echo/:first/of/:second' });
  });
});

t.test('what comes over the wire and is no clear request is refused', async (t) => {
  const send = (lines: string[], body = '') => sendRaw(`${lines.join('\r\n')}\r\n\r\n${body}`, 300);
  const refused: [string, string[], string?][] = [
    ['two Hosts', ['GET /healthz HTTP/1.1', 'Host: a', 'Host: b']],
    ['an empty Host', ['GET /healthz HTTP/1.1', 'Host:']],
    ['two Hosts on a raw route', ['GET /raw/x HTTP/1.1', 'Host: a', 'Host: a']],
    ['two Hosts on an unknown path', ['GET /nowhere HTTP/1.1', 'Host: a', 'Host: a']],
    ['two lengths', [`POST ${echo} HTTP/1.1`, 'Host: a', 'Content-Length: 2', 'Content-Length: 3'], '{} '],
    ['two encodings', [`POST ${echo} HTTP/1.1`, 'Host: a', 'Transfer-Encoding: gzip, chunked'], '0\r\n\r\n'],
  ];
  for (const [name, lines, body] of refused) {
    const answer = await send(lines, body);
    t.match(answer, /^HTTP\/1\.1 400 Bad Request\r\n/, name);
    t.match(answer, /x-request-id: req_[0-9a-f]{8}\r\n/i);
    t.equal(answer.split('HTTP/1.1').length, 2, 'one answer');
  }
  // Closed or left without an answer by the parser itself: never served.
  const dropped = [
    ['BREW /healthz HTTP/1.1', 'Host: a'],
    ['get /healthz HTTP/1.1', 'Host: a'],
    ['GET /healthz HTTP/1.1'],
    ['GET /healthz HTTP/3.9', 'Host: a'],
    ['GET /healthz HTTP/1.1', 'Host: a', 'X: a\x01b'],
    [`POST ${echo} HTTP/1.1`, 'Host: a', 'Content-Length: 2', 'Transfer-Encoding: chunked'],
    [`POST ${echo} HTTP/1.1`, 'Host: a', 'Content-Length: -1'],
    [`POST ${echo} HTTP/1.1`, 'Host: a', 'Content-Length: 2x'],
  ];
  for (const lines of dropped) t.notMatch(await send(lines), /HTTP\/1\.1 2/, lines.join(' | '));
  t.match(await send(['GET /healthz HTTP/1.1', 'Host: a', 'Connection: close']), /^HTTP\/1\.1 200 /);
});

t.test('cross-site requests', async (t) => {
  const { cookie } = await front.signUp();
  const post = (headers: Record<string, string>, withCookie = true) =>
    call('PUT', '/api/projects/none', { body: {}, headers, ...(withCookie ? { cookie } : {}) });
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost:8081' },
    { origin: 'https://localhost:8080' },
    { origin: 'http://localhost:8080.evil.example' },
  ]) {
    t.match(await post(headers), { status: 403, body: { error: 'cross-site request refused' } });
    t.equal((await post(headers, false)).status, 401, 'without the cookie there is nothing to borrow');
  }
  for (const headers of [
    {},
    { 'sec-fetch-site': 'same-origin', origin: 'http://localhost:8080' },
    { origin: 'http://127.0.0.1:8080' },
    { origin: 'http://[::1]:8080' },
    { 'sec-fetch-site': 'none' },
  ] as Record<string, string>[]) {
    t.equal((await post(headers)).status, 404, JSON.stringify(headers));
  }
  t.equal(
    (await call('GET', '/api/projects', { cookie, headers: { 'sec-fetch-site': 'cross-site' } })).status,
    200,
  );
});

t.test('rate limits', async (t) => {
  const { cookie, userId } = await front.signUp();
  const other = await front.signUp();
  t.test('a route with a limit of its own: what is refused does not count', async (t) => {
    const get = (as = cookie) => call('GET', '/api/test/limited', { cookie: as });
    for (let n = 0; n < 3; n += 1) t.match(await get(), { status: 200, body: { id: userId } });
    const { status, headers, body } = await get();
    t.equal(status, 429);
    t.strictSame(body, coded('rate_limited', { error: 'rate limited', retry_after_ms: 60_000 }));
    t.equal(headers.get('retry-after'), '60');
    t.equal(headers.get('ratelimit-policy'), '"limited";q=3;w=60');
    t.equal(headers.get('ratelimit'), '"limited";r=0;t=60');
    t.equal((await get(other.cookie)).status, 200, 'per user');
    front.clock.now += 59_999;
    t.match(await get(), { status: 429, body: { retry_after_ms: 1 } });
    front.clock.now += 1;
    const next = await get();
    t.equal(next.status, 200);
    t.equal(next.headers.get('ratelimit'), '"limited";r=2;t=60');
    t.equal((await call('GET', '/healthz', { cookie })).headers.get('ratelimit'), null);
  });

  t.test('all others share one', async (t) => {
    front.clock.now += 60_000;
    const paths = ['/api/projects', '/api/user/me', '/api/projects/x', '/api/user/session'];
    for (let n = 0; n < perMinute.other; n += 1) {
      const { status } = await call('GET', paths[n % paths.length] ?? '', { cookie });
      if (status === 429) t.fail(`refused after ${n}`);
    }
    for (const path of paths) t.equal((await call('GET', path, { cookie })).status, 429);
    t.equal((await call('GET', '/api/test/limited', { cookie })).status, 200);
    t.equal((await call('GET', '/healthz', { cookie })).status, 200, 'none where nobody is asked for');
  });
});

t.test('failures', async (t) => {
  t.test('500 tells nothing, the log tells all', async (t) => {
    const { status, body, headers } = await call('GET', '/api/test/throw/it');
    t.equal(status, 500);
    t.strictSame(body, coded('internal_error', { error: 'internal error' }));
    t.match(logged.at(-1), {
      level: 'error',
      requestId: headers.get('x-request-id'),
      err: { message: 'secret detail' },
      status: 500,
    });
    t.equal((await call('GET', '/api/test/throw/header')).status, 500, 'a header cannot be split');
  });

  t.test('503 with Retry-After when busy', async (t) => {
    const { status, body, headers } = await call('GET', '/api/test/throw/busy');
    t.equal(status, 503);
    t.strictSame(body, coded('busy', { error: 'busy', retry_after_ms: 1500 }));
    t.equal(headers.get('retry-after'), '2');
  });

  t.test('a raw route that throws is answered 500, or cut off when it has begun', async (t) => {
    t.equal((await call('GET', '/raw/throw')).status, 500);
    t.equal((await call('GET', '/late')).status, 500);
    await t.rejects(call('GET', '/raw/half'));
    t.match(logged.at(-1), { status: 500, route: '/raw/:name', err: { message: 'in the middle' } });
    t.equal(await (await fetch(`${url}/raw/x`)).text(), 'raw');
  });

  t.test('503 within seconds when the store is gone, and readyz says so', async (t) => {
    const ready = { ok: false, failing: ['mongodb'] };
    const cut = await startFront({ services: { ready: async () => ready } });
    const { cookie } = await cut.signUp();
    await cut.store.close();
    cut.clock.now += 1_001;
    const { status, body, headers } = await cut.call('GET', '/api/projects', { cookie });
    t.equal(status, 503);
    t.strictSame(body, coded('unavailable', { error: 'unavailable' }));
    t.equal(headers.get('retry-after'), '2');
    t.match(await cut.call('GET', '/readyz'), { status: 503, body: ready });
    t.match(await cut.call('GET', '/healthz'), { status: 200 });
    await cut.close();
  });
});

t.test('one line in the log for each request', async (t) => {
  const { cookie, userId } = await front.signUp();
  const before = logged.length;
  await call('GET', '/api/projects/none', { cookie, headers: { 'x-request-id': 'trace-1' } });
  t.equal(logged.length, before + 1);
  const { ms, ...line } = logged.at(-1) as LogLine;
  t.type(ms, 'number');
  t.strictSame(line, {
    level: 'info',
    message: 'request',
    requestId: 'trace-1',
    method: 'get',
    route: '/api/projects/:projectId',
    status: 404,
    userId,
    err: undefined,
  });
});

t.test('X-Forwarded-For without a trusted proxy is ignored with one warning', async (t) => {
  const plain = await startFront({ config: { trustedProxies: [] }, routes: testRoutes });
  t.teardown(() => plain.close());
  const headers = { 'x-forwarded-for': '203.0.113.1' };
  for (let n = 0; n < 3; n += 1) {
    t.match((await plain.call('POST', echo, { headers })).body, { address: '127.0.0.1' });
  }
  t.equal(plain.logged.filter(({ level }) => level === 'warn').length, 1);
  t.match((await call('POST', echo, { headers })).body, { address: '203.0.113.1' });
});

t.test('a client that goes away aborts its request', async (t) => {
  const inside = entered();
  const socket = connect(front.port, '127.0.0.1');
  socket.write('GET /api/test/slow HTTP/1.1\r\nHost: a\r\n\r\n');
  await inside;
  socket.destroy();
  while (!gate.aborted) await delay(5);
  t.match(logged.at(-1), { status: 499, route: '/api/test/slow' });
});

t.test('stopping', async (t) => {
  t.test('finishes what runs and takes nothing new', async (t) => {
    const stopping = await startFront({ routes: testRoutes });
    const inside = entered();
    const running = stopping.call('GET', '/api/test/slow');
    await inside;
    const closed = stopping.close();
    await t.rejects(fetch(`${stopping.url}/healthz`));
    gate.open();
    const { status } = await running;
    t.equal(status, 200);
    await closed;
  });

  t.test('a port in use is refused with a clear error', async (t) => {
    const { services } = front;
    await t.rejects(
      startServer({ host: '127.0.0.1', port: front.port, routes: [], services }),
      /cannot listen on 127\.0\.0\.1:\d+: is another process using the port\?/,
    );
  });

  t.test('the JavaScript fallback of uWebSockets.js is refused', async (t) => {
    t.throws(() => checkBinary({ App: () => undefined }, '127'), /no binary for this Node \(ABI 127/);
  });
});

t.test('a head that never ends is closed in time, without an answer', async (t) => {
  t.equal(await slowHead.answer, '');
  t.ok(performance.now() - slowHead.started < 60_000);
});
