/** Endpoints of webhooks: where no connection is made, and what an egress proxy is asked for. */
import { once } from 'node:events';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { webhook as limits } from '../../schemas/limits.ts';
import { PostCancelled } from '../../src/outbound/endpoint.ts';
import { OutboundError } from '../../src/outbound/error.ts';
import { createOutbound, type OutboundOptions } from '../../src/outbound/outbound.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { selfSigned } from '../fixtures/self-signed.ts';

const wish = {
  connections: 10,
  timeoutMs: 2_000,
  bodyMs: limits.bodyMs,
  maxBodyBytes: limits.maxAnswerBytes,
  keptBytes: limits.previewBytes,
};
const post = { headers: ['content-type', 'application/json'], body: '{}', maySend: () => true };

function open(t: Test, url: string, options: Partial<OutboundOptions> = {}) {
  const outbound = createOutbound({ allow: [], denyPorts: [], ...options });
  const endpoint = outbound.openEndpoint(url, wish);
  t.teardown(async () => {
    endpoint.cancel();
    await outbound.close();
  });
  return endpoint;
}

const failureOf = (run: Promise<unknown>): Promise<string> =>
  run.then(
    () => 'none',
    (error) => (error instanceof OutboundError ? error.failure : String(error)),
  );

/** `PORT` is where somebody listens on loopback, on every address. */
const forms = `
127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 017700000001 0177.0.0.1 127.0.0.1. 127.255.255.254
0.0.0.0 0 0x0 00 %31%32%37.0.0.1 １２７.0.0.1 ①②⑦.0.0.1 127。0。0。1 127．0．0．1 10.0.0.1
10.255.255.255 100.64.0.1 100.127.255.254 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.254 192.0.0.1 192.0.2.1 192.88.99.1
192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 3232235521
[::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::ffff:10.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::]
[2001:0:7f00:1::] [fe80::1] [fec0::1] [fc00::1] [fd00:ec2::254] [ff02::1] [2001:db8::1] [100::1] [5f00::1] [::ffff:0:127.0.0.1]
localhost LOCALHOST localhost. sub.localhost printer.local metadata.google.internal metadata router LocalHost.localdomain.local
`
  .trim()
  .split(/\s+/);

t.test('no form of an address inside is connected to', async (t) => {
  const receiver = await startReceiver(t);
  const { port } = new URL(receiver.url);
  t.ok(forms.length >= 60, `${forms.length} forms`);
  let asked = 0;
  const resolver = async () => {
    asked += 1;
    return ['127.0.0.1'];
  };
  for (const form of forms) {
    const failure = await failureOf(open(t, `http://${form}:${port}/hook`, { resolver }).post(post));
    t.equal(failure, 'blocked_address', form);
  }
  t.equal(receiver.connections, 0);
  t.equal(asked, 0, 'none of these names is even looked up');
});

t.test('a name is judged by all of its addresses, at every connection', async (t) => {
  const receiver = await startReceiver(t);
  const { port } = new URL(receiver.url);
  const url = `http://hooks.example.com:${port}/`;
  const sets = [
    ['127.0.0.1'],
    ['93.184.216.34', '127.0.0.1'],
    ['::ffff:127.0.0.1'],
    ['169.254.169.254'],
    ['not one'],
  ];
  for (const addresses of sets) {
    const endpoint = open(t, url, { resolver: async () => addresses });
    t.equal(await failureOf(endpoint.post(post)), 'blocked_address', addresses.join());
  }
  t.equal(receiver.connections, 0);

  // The first look is good, the second leads inside.
  let looks = 0;
  const rebinding = async () => {
    looks += 1;
    return looks === 1 ? ['127.0.0.2'] : ['127.0.0.1'];
  };
  const endpoint = open(t, url, { resolver: rebinding, allow: ['127.0.0.2'] });
  receiver.answer = (_, response) => response.setHeader('connection', 'close').end();
  // 127.0.0.2 is nobody: the connection is refused there, and not made elsewhere.
  t.equal(await failureOf(endpoint.post(post)), 'connect');
  t.equal(await failureOf(endpoint.post(post)), 'blocked_address');
  t.equal(receiver.connections, 0);
  t.equal(looks, 2, 'looked up once for each connection');
});

t.test('an unknown name and a port that speaks no TLS have their classes', async (t) => {
  const unknown = async () => Promise.reject(new Error('ENOTFOUND'));
  const plain = await startReceiver(t);
  t.equal(await failureOf(open(t, 'http://none.example.com/', { resolver: unknown }).post(post)), 'dns');
  const secure = plain.url.replace('http:', 'https:');
  t.equal(await failureOf(open(t, secure, { allow: ['127.0.0.1'] }).post(post)), 'tls');
});

t.test('nothing is sent to an endpoint whose certificate nobody vouches for', async (t) => {
  const requests: string[] = [];
  const server = createSecureServer(selfSigned, (request, response) => {
    requests.push(request.url ?? '');
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  // The name is the certificate's, so it is not the name that fails.
  const resolver = async () => ['127.0.0.1'];
  const endpoint = open(t, `https://hooks.example.com:${port}/`, { allow: ['127.0.0.1'], resolver });
  t.equal(await failureOf(endpoint.post(post)), 'tls');
  t.strictSame(requests, []);
});

t.test('a redirect is an answer, wherever it leads', async (t) => {
  const receiver = await startReceiver(t);
  const inside = await startReceiver(t);
  const endpoint = open(t, receiver.url, { allow: ['127.0.0.1'] });
  for (const code of [301, 302, 303, 307, 308]) {
    receiver.answer = (_, response) => response.writeHead(code, { location: inside.url }).end();
    t.equal((await endpoint.post(post)).statusCode, code);
  }
  t.equal(inside.connections, 0);
  // One is still busy with its end when the next post begins.
  t.ok(receiver.connections <= 2, 'connections are kept alive');
});

t.test('what may not be sent any more is not sent on a connection that was made meanwhile', async (t) => {
  const receiver = await startReceiver(t);
  const endpoint = open(t, receiver.url, { allow: ['127.0.0.1'] });
  await t.rejects(endpoint.post({ ...post, maySend: () => false }), PostCancelled);
  t.equal(receiver.received.length, 0);
  receiver.answer = () => undefined;
  const hanging = endpoint.post(post);
  await receiver.until(1);
  endpoint.cancel();
  await t.rejects(hanging, PostCancelled);
  await t.rejects(endpoint.post(post), PostCancelled);
});

t.test('an egress proxy is asked for the checked address, and for none that is blocked', async (t) => {
  const receiver = await startReceiver(t);
  const { port } = new URL(receiver.url);
  const heads: string[] = [];
  const proxy = createServer((socket: Socket) => {
    socket.once('data', (head) => {
      heads.push(head.toString());
      const to = connect(Number(port), '127.0.0.1');
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.pipe(to).pipe(socket);
      socket.on('error', () => to.destroy());
      to.on('error', () => socket.destroy());
    });
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => proxy.close());
  const egressProxy = new URL(`http://user:pass%21@127.0.0.1:${(proxy.address() as AddressInfo).port}`);
  const resolver = async (name: string) => (name === 'bad.example.com' ? ['10.0.0.1'] : ['93.184.216.34']);

  const endpoint = open(t, 'http://hooks.example.com/hook', { egressProxy, resolver });
  t.equal((await endpoint.post(post)).statusCode, 200);
  t.match(heads[0], /^CONNECT 93\.184\.216\.34:80 HTTP\/1\.1\r\nHost: 93\.184\.216\.34:80\r\n/);
  t.match(heads[0], `Proxy-Authorization: Basic ${btoa('user:pass!')}`);
  t.equal(receiver.received[0]?.headers.host, 'hooks.example.com', 'the receiver sees the name');

  for (const url of ['http://bad.example.com/', 'http://10.0.0.1/', 'http://[::1]/']) {
    t.equal(await failureOf(open(t, url, { egressProxy, resolver }).post(post)), 'blocked_address', url);
  }
  t.equal(heads.length, 1);
});
