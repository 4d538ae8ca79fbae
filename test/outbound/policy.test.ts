/** Which addresses are refused, by their text, by their look-up, and behind redirects: none is connected to. */
import { createServer, type Server } from 'node:net';
import t from 'tap';
import { Agent } from 'undici';
import { createConnector, createLookup, resolveByDns } from '../../src/outbound/connect.ts';
import { blockedText } from '../../src/outbound/error.ts';
import { createOutbound, type Outbound } from '../../src/outbound/outbound.ts';
import { createPolicy, type Policy } from '../../src/outbound/policy.ts';
import { readRetryAfter } from '../../src/outbound/retry-after.ts';
import { forbiddenHosts } from '../fixtures/forbidden-hosts.ts';
import { recordTypes, startNameServer } from '../fixtures/name-server.ts';

/** Counts the connections it gets, on two loopback addresses with one port. */
async function openTrap(): Promise<{ port: number; count(): number; close(): void }> {
  let connections = 0;
  const listen = (host: string, port: number) =>
    new Promise<Server>((resolve, reject) => {
      const server = createServer((socket) => {
        connections += 1;
        socket.on('error', () => socket.destroy());
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok');
      });
      server.once('error', reject).listen(port, host, () => resolve(server));
    });

  const first = await listen('127.0.0.1', 0);
  const { port } = first.address() as { port: number };
  const second = await listen('127.0.0.2', port);
  return {
    port,
    count: () => connections,
    close: () => {
      first.close();
      second.close();
    },
  };
}

const get = (outbound: Outbound, url: string) =>
  outbound.request(url, { timeoutMs: 3000, maxBytes: 100, signal: new AbortController().signal });

const blockedFailure = { name: 'OutboundError', failure: 'blocked_address', message: blockedText };

t.test('forbidden hosts are refused with one text, and nothing is connected to', async (t) => {
  const trap = await openTrap();
  t.teardown(trap.close);
  // The resolver would lead everything that gets past the text to the trap.
  const outbound = createOutbound({ allow: [], denyPorts: [], resolver: async () => ['127.0.0.1'] });
  t.teardown(() => outbound.close());

  for (const host of forbiddenHosts) {
    const url = `http://${host}:${trap.port}/`;
    t.strictSame(outbound.judgeUrl(url), { ok: false, reason: blockedText }, url);
    await t.rejects(get(outbound, url), blockedFailure, url);
  }
  t.ok(forbiddenHosts.length > 60);
  t.equal(trap.count(), 0);
});

t.test('the form of a URL is judged before its host', async (t) => {
  const { judgeUrl } = createPolicy({ allow: [], denyPorts: [4222] });
  const reasons: [RegExp, string[]][] = [
    [
      /http and https/,
      ['ftp://example.com/', 'file:///etc/passwd', 'javascript:alert(1)', 'unix:/run/x.sock', 'data:,x'],
    ],
    [/credentials/, ['http://u@example.com/', 'http://u:p@example.com/', 'https://:p@example.com']],
    [
      /not a URL/,
      ['', 'example.com', '//example.com', 'http://', 'http://[::1', 'http://1.2.3.256/', 'http://a:99999/'],
    ],
    [
      /control/,
      ['http://exa\nmple.com/', 'http://example.com/\t', 'http:\\\\example.com', 'http://a.com\\@b.com/'],
    ],
    [
      /control/,
      [
        ' http://example.com/',
        'http://example.com/\u0000',
        'http://example.com/\u0085',
        'http://a.com/\u007f',
      ],
    ],
    [
      /port/,
      [
        'http://example.com:22/',
        'http://example.com:0/',
        'http://example.com:1023/',
        'https://example.com:25/',
      ],
    ],
    [new RegExp(blockedText), ['http://example.com:4222/', 'http://example.com.:4222/']],
  ];
  for (const [reason, urls] of reasons) {
    for (const url of urls) {
      const judgement = judgeUrl(url);
      t.notOk(judgement.ok, JSON.stringify(url));
      t.match('reason' in judgement ? judgement.reason : '', reason, JSON.stringify(url));
    }
  }
});

t.test('public addresses pass', async (t) => {
  const { judgeUrl, allowsAddress } = createPolicy({ allow: [], denyPorts: [4222] });
  const urls = [
    'http://example.com/a.png',
    'https://example.com',
    'http://example.com:80/',
    'http://example.com:443/',
  ];
  urls.push(
    'https://example.com:8443/',
    'http://1.1.1.1/',
    'http://[2606:4700::1111]/',
    'https://bücher.example/ä?q=a b#f',
  );
  urls.push(
    'http://local.example.com/',
    'http://notlocalhost.com/',
    'http://example.com./',
    'https://a_b.example.com/',
  );
  for (const url of urls) t.ok(judgeUrl(url).ok, url);
  t.notOk(allowsAddress('example.com'), 'a name is no address');
  t.notOk(
    createPolicy({ allow: [], denyPorts: [443] }).judgeUrl('https://example.com/').ok,
    'a denied standard port',
  );
});

t.test('the operator allows ranges, addresses and names, and only those', async (t) => {
  const { judgeUrl, allowsAddress } = createPolicy({
    allow: ['127.0.0.0/8', '::1', 'fd00::/8', '10.1.2.3', 'localhost', 'receiver'],
    denyPorts: [4222],
  });
  for (const host of ['127.0.0.1', '2130706433', '[::1]', '[::ffff:127.0.0.1]', '[fd00::1]', '10.1.2.3']) {
    t.ok(judgeUrl(`http://${host}:8080/`).ok, host);
  }
  for (const host of ['localhost', 'a.localhost', 'receiver', 'RECEIVER'])
    t.ok(judgeUrl(`http://${host}/`).ok, host);
  for (const host of ['10.1.2.4', '[fe80::1]', 'other', '[64:ff9b::127.0.0.1]'])
    t.notOk(judgeUrl(`http://${host}/`).ok, host);
  t.notOk(judgeUrl('http://localhost:4222/').ok, 'denied ports stay denied');
  t.notOk(judgeUrl('http://localhost:22/').ok, 'privileged ports too');
  t.ok(allowsAddress('8.8.8.8'), 'the public internet stays open');
  for (const entry of ['127.0.0.0/33', '10.0.0.0/', '', 'a b', 'http://x']) {
    t.throws(() => createPolicy({ allow: [entry], denyPorts: [] }), TypeError, entry);
  }
});

t.test('one bad answer refuses a name, and nothing is connected to', async (t) => {
  const trap = await openTrap();
  t.teardown(trap.close);
  const answers: Record<string, string[]> = {
    'private.example.com': ['127.0.0.2'],
    'mixed.example.com': ['127.0.0.1', '127.0.0.2'],
    'mapped.example.com': ['::ffff:127.0.0.2'],
    'nat64.example.com': ['64:ff9b::7f00:2'],
    'text.example.com': ['not an address'],
    'metadata.example.com': ['169.254.169.254'],
  };
  // 127.0.0.1 stands for the public internet here, 127.0.0.2 for a private network.
  const outbound = createOutbound({
    allow: ['127.0.0.1'],
    denyPorts: [],
    resolver: async (name) => answers[name] ?? [],
  });
  t.teardown(() => outbound.close());

  for (const name of Object.keys(answers)) {
    for (const scheme of ['http', 'https']) {
      await t.rejects(get(outbound, `${scheme}://${name}:${trap.port}/`), blockedFailure, name);
    }
  }
  await t.rejects(get(outbound, `http://none.example.com:${trap.port}/`), {
    name: 'OutboundError',
    failure: 'dns',
  });
  t.equal(trap.count(), 0);
});

t.test('a name is resolved once for each connection, and a rebound one is refused', async (t) => {
  const trap = await openTrap();
  t.teardown(trap.close);
  const asked: string[] = [];
  const outbound = createOutbound({
    allow: ['127.0.0.1'],
    denyPorts: [],
    resolver: async (name) => [asked.push(name) === 1 ? '127.0.0.1' : '127.0.0.2'],
  });
  t.teardown(() => outbound.close());

  const url = `http://rebind.example.com:${trap.port}/`;
  t.equal((await get(outbound, url)).statusCode, 200);
  t.strictSame([asked.length, trap.count()], [1, 1]);
  await t.rejects(get(outbound, url), blockedFailure);
  t.strictSame([asked.length, trap.count()], [2, 1]);
});

t.test('localhost means the allowed loopback addresses and is asked of no name server', async (t) => {
  const trap = await openTrap();
  t.teardown(trap.close);
  const resolver = async () => {
    throw new Error('asked');
  };
  const open = createOutbound({ allow: ['127.0.0.0/8', '::1', 'localhost'], denyPorts: [], resolver });
  const v4Only = createOutbound({ allow: ['127.0.0.1', 'localhost'], denyPorts: [], resolver });
  const nameOnly = createOutbound({ allow: ['localhost'], denyPorts: [], resolver });
  t.teardown(() => Promise.all([open, v4Only, nameOnly].map((outbound) => outbound.close())));

  t.equal((await get(open, `http://localhost:${trap.port}/`)).statusCode, 200);
  t.equal((await get(v4Only, `http://a.localhost.:${trap.port}/`)).statusCode, 200);
  t.equal(trap.count(), 2);
  await t.rejects(get(nameOnly, `http://localhost:${trap.port}/`), blockedFailure);
  t.equal(trap.count(), 2);
});

t.test('a look-up that fails, or takes too long, is a failure of dns', async (t) => {
  const failing = createOutbound({
    allow: [],
    denyPorts: [],
    resolver: async () => Promise.reject(new Error('SERVFAIL')),
  });
  let aborted = false;
  const silent = createOutbound({
    allow: [],
    denyPorts: [],
    limits: { lookupMs: 20 },
    resolver: (_, signal) =>
      new Promise(() => {
        signal.addEventListener('abort', () => {
          aborted = true;
        });
      }),
  });
  t.teardown(() => Promise.all([failing.close(), silent.close()]));

  await t.rejects(get(failing, 'http://a.example.com/'), {
    name: 'OutboundError',
    failure: 'dns',
    cause: { message: 'SERVFAIL' },
  });
  await t.rejects(get(silent, 'http://a.example.com/'), {
    name: 'OutboundError',
    failure: 'dns',
    message: /too long/,
  });
  t.ok(aborted, 'the look-up is told to stop');
});

t.test('Retry-After is read as seconds or as a date, within its cap', async (t) => {
  const now = Date.parse('2030-01-01T00:00:00Z');
  const read = (value: string | undefined) => readRetryAfter(value, now, 60_000);
  t.equal(read('7'), 7000);
  t.equal(read(' 0 '), 0);
  t.equal(read('99999999999999999999999'), 60_000);
  t.equal(read('Tue, 01 Jan 2030 00:00:30 GMT'), 30_000);
  t.equal(read('Tue, 01 Jan 2030 09:00:00 GMT'), 60_000);
  t.equal(read('Mon, 31 Dec 2029 00:00:00 GMT'), 0);
  for (const value of [undefined, '', '-1', '1.5', 'soon', '2030-01-01'])
    t.equal(read(value), undefined, String(value));
});

t.test('a connector checks by itself, even if its caller judged nothing', async (t) => {
  const trap = await openTrap();
  t.teardown(trap.close);
  const refusing = createPolicy({ allow: [], denyPorts: [] });
  let checks = 0;
  const changing = { ...refusing, allowsAddress: () => ++checks < 2 };
  const open = (policy: Policy) =>
    new Agent({
      connect: createConnector({ policy, resolve: async () => [], lookupMs: 100, connectMs: 1000 }),
    });
  const ask = async (policy: Policy) => {
    const agent = open(policy);
    t.teardown(() => agent.destroy());
    return agent.request({ origin: `http://127.0.0.1:${trap.port}`, path: '/', method: 'GET' });
  };

  await t.rejects(ask(refusing), blockedFailure, 'a literal address');
  await t.rejects(ask(changing), blockedFailure, 'a connection that arrives where it should not');
  t.equal(trap.count(), 1);
});

t.test('a look-up answers one address to those who ask for one', async (t) => {
  const lookup = createLookup({
    policy: createPolicy({ allow: [], denyPorts: [] }),
    resolve: async () => ['8.8.8.8', '2606:4700::1111'],
    lookupMs: 100,
    connectMs: 100,
  });
  const ask = (all: boolean) =>
    new Promise((resolve) => lookup('a.example.com', { all }, (...answer) => resolve(answer)));
  t.strictSame(await ask(false), [null, '8.8.8.8', 4]);
  t.strictSame(await ask(true), [
    null,
    [
      { address: '8.8.8.8', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ],
  ]);
});

t.test('a name server is asked for both families, and no longer than wanted', async (t) => {
  const { a, aaaa } = recordTypes;
  const records: Record<string, Record<number, Buffer>> = {
    'both.example': {
      [a]: Buffer.from([8, 8, 8, 8]),
      [aaaa]: Buffer.from('26064700000000000000000000001111', 'hex'),
    },
    'four.example': { [a]: Buffer.from([1, 1, 1, 1]) },
    'none.example': {},
  };
  let queries = 0;
  const server = await startNameServer(t, (name, type) => {
    queries += 1;
    const known = records[name];
    return known && (known[type] ?? null);
  });
  const ask = (name: string, signal = new AbortController().signal) => resolveByDns(name, signal, [server]);

  t.strictSame(await ask('both.example'), ['8.8.8.8', '2606:4700::1111']);
  t.strictSame(await ask('four.example'), ['1.1.1.1']);
  await t.rejects(ask('none.example'), { name: 'Error', code: 'ENODATA' });
  t.equal(queries, 6);

  const control = new AbortController();
  const asked = ask('silent.example', control.signal);
  control.abort();
  await t.rejects(asked, { name: 'Error', code: 'ECANCELLED' });
});
