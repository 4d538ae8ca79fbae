/** The cookie of a sign-in at another provider: who can make one, who can use it, and when. */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { oauth as limits } from '../../schemas/limits.ts';
import { createOAuthFlows } from '../../src/auth/oauth-flow.ts';

const key = randomBytes(32);

function world({ secure = false } = {}) {
  const clock = { now: 1_800_000_000_000 };
  return { clock, flows: createOAuthFlows({ key, now: () => clock.now, secure }) };
}

/** What a browser would send after these values of Set-Cookie. */
function jar(...cookies: string[]): string {
  return cookies.map((one) => one.split(';')[0]).join('; ');
}

t.test('a flow ends in the browser that began it', async (t) => {
  const { flows } = world();
  const { flow, cookies } = flows.begin('google', '');
  const ended = flows.end('google', flow.state, `other=1; ${jar(...cookies)}; more=2`);
  t.strictSame(ended.flow, flow);
  t.match(
    ended.cookie,
    /^service\.oauth\.[0-9a-f]{8}=; Path=\/api\/user\/oauth; HttpOnly; SameSite=Lax; Max-Age=0$/,
  );
});

t.test(
  'the cookie is out of reach of scripts and of other paths, and over https of plain http',
  async (t) => {
    const [cookie = ''] = world({ secure: true }).flows.begin('github', '').cookies;
    t.match(cookie, /; Path=\/api\/user\/oauth; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/);
    t.ok(cookie.length < 400, `${cookie.length} characters`);
  },
);

t.test('another state, provider, browser or time ends nothing', async (t) => {
  const { flows, clock } = world();
  const { flow, cookies } = flows.begin('google', '');
  const other = flows.begin('google', '');
  const mine = jar(...cookies);
  t.equal(flows.end('google', other.flow.state, mine).flow, undefined, 'the state of another flow');
  t.equal(flows.end('github', flow.state, mine).flow, undefined, 'another provider (mix-up)');
  t.equal(flows.end('google', flow.state, jar(...other.cookies)).flow, undefined, 'another browser');
  t.equal(flows.end('google', flow.state, '').flow, undefined, 'no cookie');
  t.equal(flows.end('google', '', mine).flow, undefined, 'no state');
  clock.now += limits.stateMs - 1;
  t.ok(flows.end('google', flow.state, mine).flow);
  clock.now += 1;
  t.equal(flows.end('google', flow.state, mine).flow, undefined, 'ten minutes later');
});

t.test('a cookie that was changed in any place, or signed by another key, is none', async (t) => {
  const { flows } = world();
  const { flow, cookies } = flows.begin('google', '');
  const [name = '', value = ''] = jar(...cookies).split('=');
  for (let at = 0; at < value.length; at += 1) {
    const changed = value.slice(0, at) + (value[at] === 'A' ? 'B' : 'A') + value.slice(at + 1);
    // The last letter of a base64url text has bits that say nothing: they may change.
    if (
      Buffer.from(changed.slice(-43), 'base64url').equals(Buffer.from(value.slice(-43), 'base64url')) &&
      at >= value.length - 1
    )
      continue;
    t.equal(flows.end('google', flow.state, `${name}=${changed}`).flow, undefined);
  }
  const forger = createOAuthFlows({ key: randomBytes(32), now: () => 0, secure: false });
  const forged = forger.begin('google', '');
  t.equal(flows.end('google', forged.flow.state, jar(...forged.cookies)).flow, undefined);
});

t.test('several tabs sign in at once; beyond a few the oldest is dropped', async (t) => {
  const { flows, clock } = world();
  const begun: ReturnType<typeof flows.begin>[] = [];
  const cookies = new Map<string, string>();
  for (let n = 0; n < limits.maxFlows + 1; n += 1) {
    clock.now += 1_000;
    const one = flows.begin('google', jar(...[...cookies].map(([name, value]) => `${name}=${value}`)));
    begun.push(one);
    for (const cookie of one.cookies) {
      const [name = '', value = ''] = jar(cookie).split('=');
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
  }
  t.equal(cookies.size, limits.maxFlows);
  const sent = jar(...[...cookies].map(([name, value]) => `${name}=${value}`));
  const alive = begun.map(({ flow }) => flows.end('google', flow.state, sent).flow !== undefined);
  t.strictSame(alive, [false, true, true, true]);
});

t.test('names of cookies are made of letters, whatever the state that came back', async (t) => {
  const { cookie } = world().flows.end('google', 'x;\r\nSet-Cookie: evil=1', '');
  t.match(cookie, /^service\.oauth\.[0-9a-f]{8}=;/);
});
