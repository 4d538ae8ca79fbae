/**
 * Spoilt HTTP requests, made from valid ones: see fuzz.ts. The same random numbers make the same bytes.
 */
import type { Random } from '../random.ts';
import type { Example } from './examples.ts';

/** A request that a server should understand, in its parts. */
export type Valid = {
  method: string;
  target: string;
  version: string;
  headers: [name: string, value: string][];
  body: Buffer;
};

/** How the bytes reach the server. */
export type Delivery = 'whole' | 'pieces' | 'slowly' | 'half closed' | 'reset';

/** The pieces to be sent, and how. */
export type Spoilt = { pieces: Buffer[]; delivery: Delivery };

export function toValid(
  { method, path, search, contentType, body }: Example,
  cookie: string,
  image: Buffer,
): Valid {
  const isForm = contentType === 'multipart/form-data';
  const bytes = isForm ? toForm(image) : Buffer.from(body === undefined ? '' : JSON.stringify(body));
  const headers: Valid['headers'] = [
    ['Host', 'localhost'],
    ['Cookie', cookie],
    ['Accept', '*/*'],
  ];
  if (contentType !== undefined) {
    headers.push(['Content-Type', isForm ? `${contentType}; boundary=${boundary}` : contentType]);
    headers.push(['Content-Length', String(bytes.length)]);
  }
  return { method, target: `${path}${search}`, version: 'HTTP/1.1', headers, body: bytes };
}

/**
 * Spoils a request in one to three ways, most often in ways that only its handler can tell.
 *
 * @param others valid ones that may come before or after it.
 */
export function spoil(valid: Valid, others: readonly Valid[], random: Random): Spoilt {
  const request = structuredClone(valid);
  request.body = Buffer.from(request.body);
  const depth = random();
  const changes = 1 + Math.floor(random() * 2);
  for (let n = 0; n < changes; n += 1) {
    pick(depth < 0.6 ? handlerChanges : [...handlerChanges, ...parserChanges], random)(request, random);
  }
  let bytes = toBytes(request);
  if (depth > 0.8) bytes = pick(byteChanges, random)(bytes, others, random);
  return { pieces: cut(bytes, random), delivery: pick(deliveries, random) };
}

export function toBytes({ method, target, version, headers, body }: Valid): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.concat([Buffer.from(`${method} ${target} ${version}\r\n${lines}\r\n`, 'latin1'), body]);
}

const boundary = 'fuzz';

function toForm(image: Buffer): Buffer {
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), image, Buffer.from(`\r\n--${boundary}--\r\n`)]);
}

const deliveries: Delivery[] = [
  ...Array.from({ length: 9 }, () => 'whole' as const),
  ...Array.from({ length: 3 }, () => 'pieces' as const),
  'slowly',
  'half closed',
  'reset',
];

type PartChange = (request: Valid, random: Random) => void;

/** Most of these end in the parser. */
const parserChanges: PartChange[] = [
  (request, random) => {
    request.method = pick(
      ['FOO', 'get', '', 'PATCH', 'TRACE', 'CONNECT', 'HEAD', 'OPTIONS', 'G\0T', 'X'.repeat(5_000)],
      random,
    );
  },
  (request, random) => {
    request.version = pick(['HTTP/1.0', 'HTTP/2.0', 'HTTP/9.9', '', 'http/1.1', 'HTTP/1.1 x'], random);
  },
  (request, random) => {
    request.target = pick(oddTargets, random)(request.target);
  },
  ({ headers }, random) => {
    headers.splice(Math.floor(random() * headers.length), 1);
  },
  ({ headers }, random) => {
    const header = pick(headers, random);
    if (header)
      header[0] = pick(
        ['', ' ', 'X\0', 'X Y', 'X:', '\xff', header[0].toUpperCase(), `${header[0]} `],
        random,
      );
  },
  ({ headers }, random) => {
    headers.push(['X-Huge', 'x'.repeat(pick([3_000, 4_096, 5_000, 40_000, 200_000], random))]);
  },
  ({ headers }, random) => {
    headers.push(
      ...Array.from({ length: pick([40, 49, 50, 51, 100, 2_000], random) }, (_, n): [string, string] => [
        `X-${n}`,
        'v',
      ]),
    );
  },
  ({ headers }, random) => {
    headers.push(
      pick(
        [
          ['Transfer-Encoding', 'chunked'],
          ['Content-Length', '5'],
          ['Transfer-Encoding', 'gzip, chunked'],
          ['Content-Length', '-1'],
          ['Content-Length', '99999999999'],
        ] as [string, string][],
        random,
      ),
    );
  },
];

/** These reach routes and handlers. */
const handlerChanges: PartChange[] = [
  (request, random) => {
    // One segment of the path, or one value of the query.
    const parts = request.target.split(/(?<=[/=&?])/);
    parts[Math.floor(random() * parts.length)] = encodeURIComponent(pick(oddTexts, random));
    request.target = parts.join('');
  },
  ({ headers }, random) => {
    const at = Math.floor(random() * headers.length);
    headers.splice(
      at,
      0,
      ...Array.from(
        { length: 1 + Math.floor(random() * 3) },
        () => headers[at] ?? (['A', 'b'] as [string, string]),
      ),
    );
  },
  ({ headers }, random) => {
    const header = pick(headers, random);
    if (header) header[1] = pick(oddTexts, random);
  },
  ({ headers }, random) => {
    headers.push([pick(meaningful, random), pick(oddTexts, random)]);
  },
  (request, random) => {
    const { headers } = request;
    request.headers = headers.filter(([name]) => name !== 'Content-Length');
    request.headers.push(['Transfer-Encoding', 'chunked']);
    request.body = toChunks(request.body, random);
  },
  (request, random) => {
    const text = request.body.toString('latin1');
    const value = pick(oddValues, random);
    const fields = [...text.matchAll(/:("[^"]*"|[\w.+-]+|\[\]|\{\})/g)];
    const field = pick(fields, random);
    if (!field) return;
    const spoilt = `${text.slice(0, field.index + 1)}${value}${text.slice(field.index + field[0].length)}`;
    request.body = Buffer.from(spoilt, 'latin1');
    const length = request.headers.find(([name]) => name === 'Content-Length');
    if (length) length[1] = String(request.body.length);
  },
];

const oddTargets: ((target: string) => string)[] = [
  (target) => `http://evil.example${target}`,
  (target) => `/${target}`,
  (target) => `${target}/`,
  (target) => `${target}/../..`,
  (target) => `/.${target}`,
  (target) => `${target}%00`,
  (target) => `${target}%ff%zz`,
  (target) => `${target}\xc3\xa9`,
  (target) => `${target}\x7f#x`,
  (target) => `${target}?${'a=b&'.repeat(900)}`,
  (target) => `${target}?__proto__=1&constructor[prototype]=2&limit[$gt]=`,
  (target) => `${target}${'/x'.repeat(500)}`,
  (target) => target.toUpperCase(),
  () => '*',
  () => '',
  () => '/v1/',
  () => `/v1/pk_x/${'A'.repeat(3_000)}.mp4`,
  () => '/uploads/..%2f..%2fetc%2fpasswd',
  () => '/media/%2e%2e/x.mp4',
];

/** Headers that some code of ours reads. */
const meaningful = [
  'Accept-Encoding',
  'Authorization',
  'Content-Encoding',
  'Content-Type',
  'Cookie',
  'Expect',
  'Host',
  'Idempotency-Key',
  'If-Modified-Since',
  'If-None-Match',
  'If-Range',
  'Last-Event-ID',
  'Origin',
  'Range',
  'Referer',
  'Sec-Fetch-Site',
  'Upgrade',
  'X-Forwarded-For',
  'X-Request-Id',
];

const oddTexts = [
  '',
  ' ',
  '\t',
  '\x01',
  '\0',
  '\x7f',
  '\xff\xfe',
  'a\rb',
  'a\nb',
  '100-continue',
  'websocket',
  'gzip',
  'null',
  '-1',
  '18446744073709551616',
  '1e999',
  'bytes=0-',
  'bytes=-1',
  'bytes=9-1,2-3,-',
  `bytes=${'0-1,'.repeat(500)}`,
  'Thu, 99 Foo 2099',
  '"',
  'W/"x", *',
  'application/json; charset=utf-16',
  'multipart/form-data; boundary=',
  'multipart/form-data; boundary="; x=',
  'text/plain',
  'service.session_token=',
  `service.session_token=${'x'.repeat(43)}; service.session_token=y`,
  'Bearer sat_x',
  'Basic \xff',
  '{"$gt":""}',
  '[$ne]=1',
  '__proto__',
  '../../etc/passwd',
  '1.2.3.4, ::1, unknown, "[::]:80"',
  'x'.repeat(3_000),
];

const oddValues = [
  'null',
  'true',
  '-0',
  '1e999',
  '0.1',
  '12345678901234567890',
  '""',
  '"\\u0000"',
  '"\\ud800"',
  '"\xff"',
  '"\\u202e"',
  '{"$gt":""}',
  '{"__proto__":{}}',
  '[]',
  '[null]',
  `"${'x'.repeat(70_000)}"`,
  '['.repeat(50_000),
  `${'['.repeat(20_000)}${']'.repeat(20_000)}`,
];

/** A body in chunks, most often wrong ones. */
function toChunks(body: Buffer, random: Random): Buffer {
  const size = body.length.toString(16);
  const line = pick(
    [
      size,
      `${size};a="b"`,
      `0${size}`,
      size.toUpperCase(),
      'ffffffffffffffff',
      '-1',
      'zz',
      '',
      `${size} `,
      '7fffffff',
    ],
    random,
  );
  const end = pick(
    ['0\r\n\r\n', '0\r\n\r\n', '0\r\nX: y\r\n\r\n', '0\r\n', '', '00000\r\n\r\n', '0\n\n', 'x'],
    random,
  );
  return Buffer.concat([Buffer.from(`${line}\r\n`), body, Buffer.from(`\r\n${end}`)]);
}

type ByteChange = (bytes: Buffer, others: readonly Valid[], random: Random) => Buffer;

const byteChanges: ByteChange[] = [
  (bytes, _, random) => {
    for (let n = 0; n < 1 + random() * 8; n += 1)
      bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    return bytes;
  },
  (bytes, _, random) => {
    const at = Math.floor(random() * bytes.length);
    const more = Buffer.from(
      Array.from({ length: 1 + Math.floor(random() * 40) }, () => Math.floor(random() * 256)),
    );
    return Buffer.concat([bytes.subarray(0, at), more, bytes.subarray(at)]);
  },
  (bytes, _, random) => {
    const at = Math.floor(random() * bytes.length);
    return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + Math.floor(random() * 40))]);
  },
  (bytes, _, random) => bytes.subarray(0, Math.floor(random() * bytes.length)),
  (bytes) => Buffer.from(bytes.toString('latin1').replaceAll('\r\n', '\n'), 'latin1'),
  (bytes) => Buffer.from(bytes.toString('latin1').replaceAll('\r\n', '\r'), 'latin1'),
  (bytes, _, random) => {
    const lines = bytes.toString('latin1').split('\r\n');
    const at = Math.floor(random() * lines.length);
    lines.splice(at, 0, lines[Math.floor(random() * lines.length)] ?? '');
    return Buffer.from(lines.join('\r\n'), 'latin1');
  },
  // Pipelined: what is spoilt comes last, or first.
  (bytes, others, random) =>
    Buffer.concat([
      ...Array.from({ length: 1 + Math.floor(random() * 12) }, () => toBytes(pick(others, random))),
      bytes,
    ]),
  (bytes, others, random) =>
    Buffer.concat([
      bytes,
      ...Array.from({ length: 1 + Math.floor(random() * 12) }, () => toBytes(pick(others, random))),
    ]),
  (bytes) => Buffer.concat([Buffer.from('\r\n\r\n'), bytes]),
  () => Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0d', 'latin1'),
  (bytes) => Buffer.concat([Buffer.from('\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03', 'latin1'), bytes]),
  (_, __, random) =>
    Buffer.from(Array.from({ length: 1 + Math.floor(random() * 3_000) }, () => Math.floor(random() * 256))),
  (bytes) => Buffer.from(bytes.toString('latin1'), 'utf16le'),
];

function cut(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = [];
  const count = 2 + Math.floor(random() * 8);
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + Math.floor((random() * 2 * bytes.length) / count);
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}

export function pick<One>(from: readonly One[], random: Random): One {
  return from[Math.floor(random() * from.length)] as One;
}
