/** Exchanges with servers that are slow, endless, lying or broken, on 127.0.0.1. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createRawServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { createOutbound, type OutboundRequest } from '../../src/outbound/outbound.ts';
import type { SourceLimits } from '../../src/outbound/source.ts';

const kib = 1024;
const png = Buffer.concat([
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
  Buffer.alloc(1000, 7),
]);
const never = new AbortController().signal;
const now = Date.parse('2030-01-01T00:00:00Z');

const accepts = (bytes: Uint8Array) => bytes[0] === 0x89 && bytes.length <= 16 && 'png';

function open(t: Test, limits: Partial<SourceLimits> = {}) {
  const outbound = createOutbound({
    allow: ['127.0.0.0/8', 'localhost'],
    denyPorts: [],
    limits: { maxBytes: 100 * kib, firstByteMs: 2000, totalMs: 4000, ...limits },
    now: () => now,
    resolver: async (name) => [name === 'private.example.com' ? '10.0.0.1' : '127.0.0.1'],
  });
  t.teardown(() => outbound.close());
  return {
    ...outbound,
    fetch: (url: string, signal = never) => outbound.fetchSource(url, { accepts, signal }),
    ask: (url: string, wish: Partial<OutboundRequest> = {}) =>
      outbound.request(url, { timeoutMs: 2000, maxBytes: 10 * kib, signal: never, ...wish }),
  };
}

async function listen(t: Test, server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  for (const event of ['connection', 'secureConnection']) {
    server.on(event, (socket: Socket) => {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
    });
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const serve = (t: Test, handle: RequestListener) => listen(t, createServer(handle));

/** A server that reads one request and then does as it likes with the socket. */
const serveRaw = (t: Test, speak: (socket: Socket) => void) =>
  listen(
    t,
    createRawServer((socket) => socket.once('data', () => speak(socket))),
  );

const size = ({ body, isCut }: { body: Uint8Array; isCut: boolean }) => [body.byteLength, isCut];

/** What an EffectError of a source says. */
const failure = (code: string, retry: string, more: object = {}) => ({
  name: 'EffectError',
  code,
  retry,
  ...more,
});
const transient = (more?: object) => failure('source_unfetchable', 'transient', more);
const permanent = (more?: object) => failure('source_unfetchable', 'permanent', more);
const outboundFailure = (failure: string) => ({ name: 'OutboundError', failure });

t.test('a source is fetched whole, with a fixed set of headers', async (t) => {
  const seen: IncomingMessage[] = [];
  const url = await serve(t, (request, response) => {
    seen.push(request);
    response.setHeader('set-cookie', 'a=b').end(png);
  });
  const { fetch } = open(t);
  const port = new URL(url).port;

  const source = await fetch(`http://name.example.com:${port}/a%20b.png?q=1#fragment`);
  t.equal(Buffer.compare(source.bytes, png), 0);
  t.equal(source.type, 'png');
  await fetch(`${url}/`);

  t.equal(seen[0]?.url, '/a%20b.png?q=1');
  t.match(seen[0]?.headers, { host: `name.example.com:${port}`, accept: 'image/png,image/jpeg,image/webp' });
  t.match(seen[0]?.headers, { 'user-agent': 'AnimatedAssetService/1.0', 'accept-encoding': 'identity' });
  t.notOk(seen[1]?.headers.cookie, 'cookies are not kept');
});

t.test('statuses: 4xx is permanent, 5xx transient, Retry-After is handed on', async (t) => {
  const url = await serve(t, ({ url = '' }, response) => {
    const [status, retryAfter] = url.slice(1).split('-');
    if (retryAfter) response.setHeader('retry-after', retryAfter.replaceAll('_', ' '));
    response.writeHead(Number(status)).end('no');
  });
  const { fetch } = open(t);

  await t.rejects(fetch(`${url}/404`), permanent({ hint: 'The source URL answered with status 404.' }));
  for (const status of [400, 401, 403, 410, 304, 300])
    await t.rejects(fetch(`${url}/${status}`), permanent());
  await t.rejects(fetch(`${url}/429-5`), permanent({ retryAfterMs: 5000 }));
  await t.rejects(fetch(`${url}/500`), transient({ retryAfterMs: undefined }));
  await t.rejects(fetch(`${url}/503-7`), transient({ retryAfterMs: 7000 }));
  await t.rejects(fetch(`${url}/503-3600`), transient({ retryAfterMs: 60_000 }));
  await t.rejects(fetch(`${url}/503-Tue,_01_Jan_2030_00:00:30_GMT`), transient({ retryAfterMs: 30_000 }));
  await t.rejects(fetch(`${url}/302`), permanent(), 'a redirect to nowhere');
  await t.rejects(fetch(`${url}/204`), failure('source_unsupported', 'permanent'), 'an empty answer');
});

t.test('redirects: three are followed, each is checked, the fourth is refused', async (t) => {
  let requests = 0;
  const targets: Record<string, string> = {
    '/private': 'http://10.0.0.1/',
    '/metadata': 'http://169.254.169.254/latest/meta-data',
    '/six': 'http://[::ffff:10.0.0.1]/',
    '/name': 'http://private.example.com/',
    '/internal': 'http://vault.internal/',
    '/port': 'http://127.0.0.1:22/',
    '/scheme': 'file:///etc/passwd',
    '/login': 'http://user:secret@127.0.0.1/',
    '/broken': 'http://[::',
  };
  const url = await serve(t, ({ url = '' }, response) => {
    requests += 1;
    const left = /^\/hops\/(\d)$/.exec(url)?.[1];
    if (left === '0') return response.end(png);
    response
      .writeHead(302, { location: left ? `/hops/${Number(left) - 1}` : targets[url] })
      .end('moved'.repeat(1000));
  });
  const { fetch, ask } = open(t);

  const source = await fetch(`${url}/hops/3`);
  t.equal(source.url.href, `${url}/hops/0`);
  t.equal(requests, 4);
  await t.rejects(fetch(`${url}/hops/4`), permanent({ hint: /too often/ }));
  t.equal(requests, 8);

  for (const path of Object.keys(targets)) {
    const before = requests;
    await t.rejects(fetch(url + path), permanent(), path);
    t.equal(requests, before + 1, path);
  }
  t.match(await ask(`${url}/private`), { statusCode: 302, headers: { location: 'http://10.0.0.1/' } });
  t.match(
    await ask(`${url}/hops/1`, { method: 'POST', redirects: 3 }),
    { statusCode: 302 },
    'a POST is not repeated',
  );
  await t.rejects(ask(`${url}/private`, { redirects: 1 }), outboundFailure('blocked_address'));
  await t.rejects(ask(`${url}/broken`, { redirects: 1 }), outboundFailure('redirect'));
});

t.test('credentials do not follow a redirect to another origin', async (t) => {
  const seen: IncomingMessage[] = [];
  const keep = (request: IncomingMessage) => seen.push(request);
  const other = await serve(t, (request, response) => {
    keep(request);
    response.end();
  });
  const url = await serve(t, (request, response) => {
    keep(request);
    response.writeHead(307, { location: request.url === '/same' ? '/other' : other }).end();
  });
  const headers = { Authorization: 'Bearer x', cookie: 'a=b', 'x-kept': 'yes' };
  await open(t).ask(`${url}/same`, { headers, redirects: 2 });

  t.strictSame(
    seen.map(({ headers }) => [headers.authorization, headers.cookie, headers['x-kept']]),
    [
      ['Bearer x', 'a=b', 'yes'],
      ['Bearer x', 'a=b', 'yes'],
      [undefined, undefined, 'yes'],
    ],
  );
});

t.test('limits of time: first byte, whole source, and the caller', async (t) => {
  const silent = await serveRaw(t, () => undefined);
  const headersOnly = await serveRaw(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n'),
  );
  const halfway = await serveRaw(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n');
    socket.write(png);
  });
  const impatient = open(t, { firstByteMs: 60, totalMs: 3000 });
  await t.rejects(impatient.fetch(silent), transient({ hint: /in time/, message: /first byte/ }));
  await t.rejects(impatient.fetch(headersOnly), transient({ message: /first byte/ }));
  await t.rejects(open(t, { totalMs: 100 }).fetch(halfway), transient({ message: /the source took/ }));

  const reason = new Error('given up');
  await t.rejects(impatient.fetch(silent, AbortSignal.abort(reason)), reason);
  const control = new AbortController();
  const fetched = open(t).fetch(halfway, control.signal);
  setTimeout(() => control.abort(reason), 50);
  await t.rejects(fetched, reason);
});

t.test('limits of size: endless bodies and long ones are cut at the cap', async (t) => {
  let written = 0;
  const endless = await serve(t, (_, response) => {
    const piece = Buffer.concat([png, Buffer.alloc(63 * kib)]);
    const more = () => {
      written += piece.byteLength;
      if (!response.destroyed && written < 1024 ** 3) response.write(piece, more);
    };
    more();
  });
  const claims = await serveRaw(t, (socket) =>
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${200 * kib}\r\n\r\n`),
  );
  const exact = await serve(t, (_, response) => response.end(Buffer.concat([png], 100 * kib)));
  const crumbs = await serve(t, (_, response) => {
    const crumb = '1\r\n\u0089\r\n'.repeat(20_000);
    response.writeHead(200, { 'transfer-encoding': 'chunked' }).flushHeaders();
    for (let i = 0; i < 10; i += 1) response.socket?.write(crumb, 'latin1');
  });

  const { fetch, ask } = open(t);
  await t.rejects(fetch(endless), failure('source_too_large', 'permanent'));
  t.ok(written < 10 * kib * kib, `the server got rid of ${written} bytes only`);
  await t.rejects(fetch(claims), failure('source_too_large', 'permanent'));
  t.equal((await fetch(exact)).bytes.byteLength, 100 * kib);
  await t.rejects(fetch(crumbs), failure('source_too_large', 'permanent'), 'however small its pieces');

  written = 0;
  t.strictSame(size(await ask(endless)), [10 * kib, true]);
  t.strictSame(size(await ask(exact, { maxBytes: 100 * kib })), [100 * kib, false]);
});

t.test('the type is judged by the first bytes, before the rest has come', async (t) => {
  const text = await serveRaw(t, (socket) => {
    socket.write(
      'HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 50000\r\n\r\n<svg xmlns="http://www.w3.org/2000/svg">',
    );
  });
  const short = await serve(t, (_, response) => response.end('x'));
  const tiny = await serve(t, (_, response) => response.end(png.subarray(0, 9)));
  const { fetch } = open(t);
  await t.rejects(fetch(text), failure('source_unsupported', 'permanent'));
  await t.rejects(fetch(short), failure('source_unsupported', 'permanent'));
  t.equal((await fetch(tiny)).bytes.byteLength, 9, 'a body shorter than the first bytes is judged whole');
});

t.test('bodies that break off, or never were HTTP, are transient', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\n';
  const speakers: [string, (socket: Socket) => void][] = [
    ['closed at once', (socket) => socket.end()],
    ['reset', (socket) => socket.resetAndDestroy()],
    [
      'cut short of its content-length',
      (socket) => socket.write(`${head}content-length: 5000\r\n\r\n`) && socket.end(png),
    ],
    [
      'cut in a chunk',
      (socket) => socket.write(`${head}transfer-encoding: chunked\r\n\r\n1000\r\n`) && socket.end(png),
    ],
    ['no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n')],
    ['a flood of headers', (socket) => socket.write(head + 'x-a: 1\r\n'.repeat(50_000))],
    ['one long header', (socket) => socket.write(`${head}x-a: ${'1'.repeat(100_000)}`)],
  ];
  const { fetch, ask } = open(t);
  for (const [name, speak] of speakers) {
    const url = await serveRaw(t, speak);
    await t.rejects(fetch(url), transient({ retryAfterMs: undefined }), name);
    await t.rejects(ask(url), outboundFailure('reset'), name);
  }
});

t.test('an HTTP/1.0 body without a length ends with its connection', async (t) => {
  const url = await serveRaw(t, (socket) => {
    socket.write('HTTP/1.0 200 OK\r\n\r\n');
    socket.end(png);
  });
  t.equal((await open(t).fetch(url)).bytes.byteLength, png.byteLength);
});

t.test('a body compressed unasked is decoded within the cap', async (t) => {
  const bomb = gzipSync(Buffer.concat([png], 50 * kib * kib));
  const bodies: Record<string, [string, Buffer]> = {
    '/gzip': ['gzip', gzipSync(png)],
    '/x-gzip': ['X-GZIP', gzipSync(png)],
    '/deflate': ['deflate', deflateSync(png)],
    '/br': ['br', brotliCompressSync(png)],
    '/bomb': ['gzip', bomb],
    '/not': ['gzip', png],
    '/not-br': ['br', png],
    '/short': ['gzip', gzipSync(png).subarray(0, 30)],
    '/zstd': ['zstd', png],
    '/twice': ['gzip, gzip', png],
    '/identity': ['identity', png],
  };
  const url = await serve(t, ({ url = '' }, response) => {
    const [encoding, body] = bodies[url] ?? [];
    response.setHeader('content-encoding', encoding ?? '').end(body);
  });
  const { fetch, ask } = open(t);

  for (const path of ['/gzip', '/x-gzip', '/deflate', '/br', '/identity']) {
    t.equal(Buffer.compare((await fetch(url + path)).bytes, png), 0, path);
  }
  t.ok(bomb.byteLength < 100 * kib);
  await t.rejects(fetch(`${url}/bomb`), failure('source_too_large', 'permanent'));
  for (const path of ['/not', '/not-br', '/short', '/zstd', '/twice'])
    await t.rejects(fetch(url + path), permanent(), path);

  t.strictSame(size(await ask(`${url}/bomb`, { decode: true })), [10 * kib, true]);
  t.equal(Buffer.compare((await ask(`${url}/gzip`)).body, gzipSync(png)), 0, 'not decoded unless wanted');
  const lost = await serveRaw(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 9000\r\n\r\n');
    socket.end(gzipSync(png));
  });
  await t.rejects(fetch(lost), transient(), 'a lost connection is no broken encoding');
});

t.test('failures to connect name their class', async (t) => {
  const closed = createRawServer();
  await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
  const { port } = closed.address() as AddressInfo;
  await new Promise((resolve) => closed.close(resolve));
  const plain = await serve(t, (_, response) => response.end());
  const hangUp = await serveRaw(t, (socket) => socket.destroy());
  const { ask, fetch } = open(t);

  await t.rejects(ask(`http://127.0.0.1:${port}/`), outboundFailure('connect'));
  await t.rejects(ask(`https://127.0.0.1:${port}/`), outboundFailure('connect'));
  await t.rejects(ask(plain.replace('http:', 'https:')), outboundFailure('tls'));
  await t.rejects(ask(hangUp.replace('http:', 'https:')), outboundFailure('tls'));
  await t.rejects(fetch(`http://127.0.0.1:${port}/`), transient({ cause: { failure: 'connect' } }));
  await t.rejects(ask('http://10.0.0.1/'), outboundFailure('blocked_address'));
  await t.rejects(fetch('http://10.0.0.1/'), permanent({ cause: { failure: 'blocked_address' } }));
});

t.test('a handshake that never ends is a time-out', async (t) => {
  const url = await serveRaw(t, () => undefined);
  const outbound = createOutbound({ allow: ['127.0.0.1'], denyPorts: [], limits: { connectMs: 50 } });
  t.teardown(() => outbound.close());
  const asked = outbound.request(url.replace('http:', 'https:'), {
    timeoutMs: 5000,
    maxBytes: 1,
    signal: never,
  });
  await t.rejects(asked, outboundFailure('timeout'));
});

t.test('a certificate that nobody trusts is refused, under the name that was asked for', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'outbound-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const made = await promisify(execFile)('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'],
    ...[
      '-subj',
      '/CN=secure.example.com',
      '-addext',
      'subjectAltName=DNS:secure.example.com',
      '-keyout',
      key,
      '-out',
      cert,
    ],
  ]).catch((error: Error) => error);
  if (made instanceof Error) {
    t.comment(`skipped: no certificate without openssl: ${made.message}`);
    return;
  }

  const names: string[] = [];
  let requests = 0;
  const server = createTlsServer(
    {
      key: await readFile(key),
      cert: await readFile(cert),
      SNICallback: (name, done) => {
        names.push(name);
        done(null);
      },
    },
    (_, response) => {
      requests += 1;
      response.end();
    },
  );
  const { port } = new URL(await listen(t, server));
  const { ask, fetch } = open(t);
  await t.rejects(ask(`https://secure.example.com:${port}/`), outboundFailure('tls'));
  await t.rejects(fetch(`https://secure.example.com:${port}/`), transient());
  t.strictSame(names, ['secure.example.com', 'secure.example.com']);
  t.equal(requests, 0);
});

t.test('a request carries method, headers and body once, and any status is an answer', async (t) => {
  const seen: unknown[] = [];
  const url = await serve(t, async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    seen.push([request.method, request.headers['x-a'], body]);
    response.writeHead(500, { 'x-b': ['1', '2'], 'x-c': 'y' }).end('oops');
  });
  const { ask } = open(t);

  const answer = await ask(url, { method: 'POST', headers: { 'x-a': 'z' }, body: 'hello' });
  t.match(answer.headers, { 'x-b': ['1', '2'], 'x-c': 'y' });
  t.strictSame([answer.statusCode, answer.isCut], [500, false]);
  t.equal(Buffer.from(answer.body).toString(), 'oops');
  await ask(url, { method: 'PUT', body: Buffer.from('bytes') });
  await ask(url, { method: 'HEAD' });
  t.strictSame(seen, [
    ['POST', 'z', 'hello'],
    ['PUT', undefined, 'bytes'],
    ['HEAD', undefined, ''],
  ]);
  await t.rejects(
    ask(url, { headers: { 'x-a': 'a\r\nb: c' } }),
    { code: 'UND_ERR_INVALID_ARG' },
    'our own mistake',
  );
});

t.test('connections are reused when that is wanted, and never otherwise', async (t) => {
  const server = createServer((_, response) => response.end());
  let connections = 0;
  server.on('connection', () => {
    connections += 1;
  });
  const url = await listen(t, server);
  const { ask } = open(t);

  // The end of a body is seen a moment before its connection is free, so that the next one may open another.
  for (let i = 0; i < 6; i += 1) await ask(url, { keepAlive: true });
  t.ok(connections <= 2, `${connections} connections`);
  connections = 0;
  const other = open(t);
  for (let i = 0; i < 3; i += 1) await other.ask(url);
  t.equal(connections, 3);
});

t.test('a slow or broken body does not undo an answer whose status decides', async (t) => {
  const drip = await serveRaw(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello'),
  );
  const cut = await serveRaw(t, (socket) =>
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello'),
  );
  const silent = await serveRaw(t, () => undefined);
  const { ask } = open(t);

  const started = performance.now();
  const answer = await ask(drip, { bodyTimeoutMs: 50, acceptPartial: true });
  t.ok(performance.now() - started < 1000, 'the body is read for its own time only');
  t.strictSame([answer.statusCode, answer.isCut], [200, true]);
  t.equal(Buffer.from(answer.body).toString(), 'hello');
  t.strictSame(size(await ask(cut, { acceptPartial: true })), [5, true]);
  await t.rejects(ask(drip, { bodyTimeoutMs: 50 }), outboundFailure('timeout'));
  await t.rejects(ask(silent, { timeoutMs: 50, acceptPartial: true }), outboundFailure('timeout'));

  const reason = new Error('given up');
  const control = new AbortController();
  const asked = ask(drip, { acceptPartial: true, signal: control.signal });
  setTimeout(() => control.abort(reason), 50);
  await t.rejects(asked, reason, 'the caller who gives up gets no partial answer');
});

t.test('closing fails what is under way and what comes later', async (t) => {
  const silent = await serveRaw(t, () => undefined);
  const { ask, close } = open(t);
  const asked = t.rejects(ask(silent), outboundFailure('reset'));
  await close();
  await asked;
  await t.rejects(ask(silent), outboundFailure('reset'));
});
