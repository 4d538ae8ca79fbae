/** Sealing secrets, and where the keys come from. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import t from 'tap';
import { loadKeys } from '../../src/auth/key-file.ts';
import { createSecretBox, newKey, parseKeys } from '../../src/auth/secret-box.ts';
import { keyIdOf, Secret, SecretError } from '../../src/store/sealed.ts';

const owner = { purpose: 'signing secret', id: 'prj_1' } as const;
const boxOf = (...keys: string[]) => createSecretBox(parseKeys(keys.join(',')));
const [old, present] = [newKey(), newKey()];

t.test('what is sealed opens again, and reads differently each time', async (t) => {
  const box = boxOf(old);
  for (const text of ['', 'sk_x', 'é🔑\0', 'x'.repeat(10_000)]) {
    const sealed = box.seal(text, owner);
    t.match(sealed, /^v1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]{22,}$/);
    t.equal(box.open(sealed, owner), text);
    t.not(box.seal(text, owner), sealed);
    if (text !== '') t.notOk(sealed.includes(text));
  }
});

t.test('a plain text from before there were keys is read as it is', async (t) => {
  const box = boxOf(old);
  for (const plain of ['sk_plain', '', 'v1.x', 'v1.00000000.short.short']) {
    t.equal(box.open(plain, owner), plain);
    t.equal(keyIdOf(plain), undefined);
  }
});

t.test('a value that was changed, moved to another record or to another purpose does not open', async (t) => {
  const box = boxOf(old);
  const sealed = box.seal('sk_secret', owner);
  const refused = { name: 'SecretError', message: /it was changed, or sealed for another record$/ };
  t.throws(() => box.open(sealed, { ...owner, id: 'prj_2' }), refused);
  t.throws(() => box.open(sealed, { ...owner, purpose: 'webhook secret' }), refused);
  const parts = sealed.split('.');
  for (const index of [2, 3]) {
    for (const at of [0, 5, 15]) {
      const changed = parts.map((part, n) => (n === index ? flip(part, at) : part)).join('.');
      t.throws(() => box.open(changed, owner), refused);
    }
  }
  t.throws(() => box.open(sealed.slice(0, -4), owner), refused, 'cut');
});

t.test(
  'the first key seals, all of them open; without its key a value says which one it needs',
  async (t) => {
    const before = boxOf(old);
    const sealed = before.seal('sk_secret', owner);
    const both = boxOf(present, old, present);
    t.equal(both.open(sealed, owner), 'sk_secret');
    t.strictSame(both.keyIds, [...boxOf(present).keyIds, ...before.keyIds]);
    t.equal(keyIdOf(both.seal('sk_secret', owner)), both.keyIds[0]);
    t.throws(() => boxOf(present).open(sealed, owner), {
      name: 'SecretError',
      message: `cannot open the signing secret of prj_1: its key ${before.keyIds[0]} is not configured`,
    });
  },
);

t.test('a secret in a record is deciphered once, and shows itself to nobody who prints it', async (t) => {
  const box = boxOf(old);
  let opened = 0;
  const counting = {
    ...box,
    open(stored: string, whose: typeof owner) {
      opened += 1;
      return box.open(stored, whose);
    },
  };
  const secret = new Secret(counting as typeof box, box.seal('sk_secret', owner), owner);
  t.equal(opened, 0);
  t.strictSame([secret.open(), secret.open()], ['sk_secret', 'sk_secret']);
  t.equal(opened, 1);
  const record = { id: 'prj_1', signingSecret: secret };
  const shown = [JSON.stringify(record), inspect(record, { depth: 9, showHidden: true }), `${secret}`];
  for (const text of shown) t.notMatch(text, /sk_secret|v1\./);
});

t.test('keys', async (t) => {
  t.test('come from the settings before any file, and leave none', async (t) => {
    const dataDir = t.testdir({ key: `${old}\n` });
    const source = { secretsKey: `${present},${old}`, secretsKeyFile: undefined, dataDir };
    t.equal((await loadKeys(source, true)).length, 2);
    const file = join(dataDir, 'key');
    t.equal((await loadKeys({ ...source, secretsKey: undefined, secretsKeyFile: file }, true)).length, 1);
    t.strictSame(readdirSync(dataDir), ['key']);
  });

  t.test('are made once when several processes start at once, for their owner alone', async (t) => {
    const dataDir = join(t.testdir({}), 'new', 'folder');
    const source = { secretsKey: undefined, secretsKeyFile: undefined, dataDir };
    const loaded = await Promise.all(Array.from({ length: 20 }, () => loadKeys(source, true)));
    t.equal(new Set(loaded.map(([key]) => key.toString('hex'))).size, 1, 'all have the same');
    t.strictSame(readdirSync(dataDir), ['secrets.key'], 'the drafts of those that lost are gone');
    const file = join(dataDir, 'secrets.key');
    t.equal(statSync(file).mode & 0o777, 0o600);
    const text = readFileSync(file, 'utf8');
    await loadKeys(source, true);
    t.equal(readFileSync(file, 'utf8'), text, 'a later start changes nothing');
    writeFileSync(file, `${present}\n${text}`);
    t.equal((await loadKeys(source, true)).length, 2, 'an operator may put a new one in front');
  });

  t.test('that are missing or not accepted stop with one line that does not show them', async (t) => {
    const dataDir = t.testdir({ empty: '', bad: 'hunter2', 'secrets.key': `${old}\nhunter2` });
    const file = (name: string) => ({
      secretsKey: undefined,
      secretsKeyFile: name === '' ? undefined : join(dataDir, name),
      dataDir,
    });
    for (const [name, says] of [
      ['missing', /^SECRETS_KEY_FILE .*missing cannot be read \(ENOENT\)$/],
      ['empty', /^SECRETS_KEY_FILE .*empty: no key is there; accepted: base64 of 32 random bytes/],
      ['bad', /^SECRETS_KEY_FILE .*bad: a key is not accepted/],
      ['', /^SECRETS_KEY is not set, and the key file .*secrets\.key: a key is not accepted/],
    ] as const) {
      const cause = await loadKeys(file(name), true).catch((one: unknown) => one);
      if (!(cause instanceof SecretError)) return t.fail(name);
      t.match(cause.message, says);
      t.notMatch(cause.message, /\n|hunter2/);
    }
    t.notOk(existsSync(join(dataDir, 'missing')), 'a file that the operator keeps is not made');
    const none = { ...file(''), dataDir: join(dataDir, 'none') };
    await t.rejects(loadKeys(none, false), /^SECRETS_KEY is not set, and the key file/);
    t.notOk(existsSync(join(dataDir, 'none')));
  });
});

/** Another character of the alphabet in one place. */
function flip(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
}
