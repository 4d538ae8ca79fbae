import fc from 'fast-check';
import t from 'tap';
import { isOriginAllowed, normaliseHost, normaliseOrigin } from '../../src/auth/origins.ts';

t.test('the normal form of an origin', async (t) => {
  const cases: [string, string | undefined][] = [
    ['https://example.com', 'https://example.com'],
    ['HTTPS://EXAMPLE.com:443', 'https://example.com'],
    ['http://example.com:80', 'http://example.com'],
    ['http://example.com:443', 'http://example.com:443'],
    ['http://localhost:3000', 'http://localhost:3000'],
    ['example.com', 'example.com'],
    ['Example.com:443', 'example.com:443'],
    ['example.com:08080', 'example.com:8080'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['https://BÜCHER.example:8443', 'https://xn--bcher-kva.example:8443'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['[::1]:3000', '[::1]:3000'],
    ['https://[2001:DB8:0::1]', 'https://[2001:db8::1]'],
    ['127.0.0.1', '127.0.0.1'],
    ['a_b.example.com', 'a_b.example.com'],
    ['', undefined],
    ['*', undefined],
    ['*.example.com', undefined],
    ['https://*.example.com', undefined],
    ['https://example.com/', undefined],
    ['https://example.com/path', undefined],
    ['https://example.com?x', undefined],
    ['https://example.com#x', undefined],
    ['https://user@example.com', undefined],
    ['https://user:pw@example.com', undefined],
    ['https://', undefined],
    ['https:example.com', undefined],
    ['https:\\\\example.com', undefined],
    ['ftp://example.com', undefined],
    ['javascript:alert(1)', undefined],
    ['null', 'null'],
    ['example.com:', undefined],
    ['example.com:0', undefined],
    ['example.com:65536', undefined],
    ['example.com:99999999', undefined],
    ['example.com:8a', undefined],
    ['example.com.', undefined],
    ['.example.com', undefined],
    ['example..com', undefined],
    [' example.com', undefined],
    ['exa mple.com', undefined],
    ['exa\tmple.com', undefined],
    ['example.com\0', undefined],
    ['%65xample.com', undefined],
    [`${'a'.repeat(64)}.example`, undefined],
    [`${'a.'.repeat(127)}com`, undefined],
    ['1.2.3.256', undefined],
    ['::1', undefined],
    ['https://a.example,https://b.example', undefined],
  ];
  for (const [text, want] of cases) t.equal(normaliseOrigin(text), want, JSON.stringify(text).slice(0, 40));
  t.equal(normaliseHost('Example.com:80'), undefined);
  t.equal(normaliseHost('x'.repeat(100_000)), undefined);
});

t.test('who is allowed', async (t) => {
  const cases: [string, string, boolean][] = [
    ['https://example.com', 'https://example.com', true],
    ['https://example.com', 'https://www.example.com', true],
    ['https://example.com', 'https://a.b.example.com', true],
    ['https://example.com', 'https://badexample.com', false],
    ['https://example.com', 'https://example.com.evil.example', false],
    ['https://example.com', 'http://example.com', false],
    ['https://example.com', 'https://example.com:443', true],
    ['https://example.com', 'https://example.com:8443', false],
    ['https://example.com:8443', 'https://example.com:8443', true],
    ['https://example.com:8443', 'https://example.com', false],
    ['http://example.com', 'http://example.com', true],
    ['example.com', 'https://example.com', true],
    ['example.com', 'http://www.example.com:3000', true],
    ['example.com', 'capacitor://example.com', true],
    ['example.com', 'https://badexample.com', false],
    ['example.com:443', 'https://example.com', true],
    ['example.com:443', 'http://example.com', false],
    ['example.com:3000', 'https://example.com:3000', true],
    ['localhost:3000', 'http://localhost:3000', true],
    ['xn--bcher-kva.example', 'https://xn--bcher-kva.example', true],
    ['xn--bcher-kva.example', 'https://www.BÜCHER.example', true],
    ['https://example.com', 'HTTPS://EXAMPLE.COM', true],
    ['[::1]:3000', 'http://[::1]:3000', true],
    ['example.com', 'null', false],
    ['example.com', '', false],
    ['example.com', 'example.com', false],
    ['example.com', 'https://example.com/path', false],
    ['example.com', 'https://example.com@evil.example', false],
    ['example.com', 'https://evil.example#.example.com', false],
    ['example.com', 'https://evil.example\\.example.com', false],
    ['null', 'null', false],
  ];
  for (const [entry, origin, want] of cases)
    t.equal(isOriginAllowed([entry], origin), want, `${entry} ← ${origin}`);
  t.equal(isOriginAllowed([], 'https://example.com'), false);
  t.equal(isOriginAllowed(['a.example', 'b.example'], 'https://b.example'), true);
});

const label = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/);
const host = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => labels.join('.'));
const scheme = fc.constantFrom('http', 'https');
const port = fc.option(fc.integer({ min: 1, max: 65_535 }), { nil: undefined });
const written = (one: string, at: number | undefined) => (at === undefined ? one : `${one}:${at}`);

t.test('properties', async (t) => {
  t.test('any text has a normal form that is its own, or none, and nothing throws', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.webUrl(),
      fc.domain(),
      fc.ipV6(),
      fc.stringMatching(/^https?:\/\/.*$/),
    );
    fc.assert(
      fc.property(text, (origin) => {
        const normal = normaliseOrigin(origin);
        isOriginAllowed(['example.com'], origin);
        return normal === undefined || (normaliseOrigin(normal) === normal && /^[\x21-\x7e]+$/.test(normal));
      }),
      { numRuns: 500 },
    );
  });

  t.test(
    'an origin is allowed by itself and its host, and so are its subdomains, whatever their case',
    async () => {
      fc.assert(
        fc.property(scheme, host, port, label, (one, name, at, sub) => {
          const entry = normaliseOrigin(written(`${one}://${name}`, at)) ?? '';
          const origin = written(`${one}://${name}`, at);
          const below = written(`${one}://${sub}.${name}`, at);
          return (
            isOriginAllowed([entry], origin) &&
            isOriginAllowed([entry], below.toUpperCase()) &&
            isOriginAllowed([name], origin) &&
            isOriginAllowed([name], below)
          );
        }),
      );
    },
  );

  t.test('a name that only ends alike, another scheme or another port is refused', async () => {
    fc.assert(
      fc.property(scheme, host, port, label, (one, name, at, prefix) => {
        const entry = normaliseOrigin(written(`${one}://${name}`, at)) ?? '';
        const other = one === 'http' ? 'https' : 'http';
        const otherPort = ((at ?? 1000) % 65_535) + 1;
        const isOther = otherPort !== (one === 'http' ? 80 : 443);
        return (
          !isOriginAllowed([entry], written(`${one}://${prefix}${name}`, at)) &&
          !isOriginAllowed([name], `${one}://${prefix}${name}`) &&
          !isOriginAllowed([entry], written(`${other}://${name}`, at)) &&
          !(isOther && isOriginAllowed([entry], `${one}://${name}:${otherPort}`)) &&
          !isOriginAllowed([entry], `${one}://${name}.evil.example`)
        );
      }),
    );
  });
});
