/**
 * The time of a refused sign-in says nothing about whether there is such an account. The short form of what
 * `npm run bench auth` measures: few tries, and a bound that a busy machine keeps.
 */
import t from 'tap';
import { quantile } from '../../src/bench/cpu.ts';
import { startFront } from '../fixtures/http.ts';

const pairs = 40;
const bound = 0.25;

t.test('401 after the same time for an unknown e-mail and a wrong password', async (t) => {
  const front = await startFront();
  t.teardown(() => front.close());
  const users = await Promise.all(Array.from({ length: 8 }, () => front.signUp()));
  const timeOf = async (email: string, n: number): Promise<number> => {
    const startedAt = performance.now();
    const { status, body } = await front.call('POST', '/api/user/signin', {
      body: { email, password: 'wrong' },
      headers: { 'x-forwarded-for': `198.51.100.${n}` },
    });
    const ms = performance.now() - startedAt;
    if (status !== 401 || body['error'] !== 'invalid credentials') throw new Error(`answered ${status}`);
    return ms;
  };
  const [unknown, wrong]: [number[], number[]] = [[], []];
  for (let n = 0; n < pairs; n += 1) {
    const tries = [
      async () => unknown.push(await timeOf(`nobody${n}@example.com`, n)),
      async () => wrong.push(await timeOf(users[n % users.length]?.email ?? '', n)),
    ];
    // Whatever else runs at that moment slows now the one, now the other.
    for (const one of n % 2 === 0 ? tries : tries.reverse()) await one();
  }
  // Of the quickest: what else runs only adds to them.
  const [least, leastWrong] = [quantile(unknown, 0.1), quantile(wrong, 0.1)];
  t.ok(Math.abs(least / leastWrong - 1) <= bound, `${least} ms and ${leastWrong} ms`);
});
