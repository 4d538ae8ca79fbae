/** Uploads: what is accepted, what is refused with which status, and that nothing stays behind. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { upload } from '../../schemas/limits.ts';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { receiveUpload } from '../../src/media/upload.ts';

const png = Buffer.concat([
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
  Buffer.alloc(3000, 7),
]);
const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(100, 7)]);
const webp = Buffer.concat([Buffer.from('RIFF....WEBPVP8 ', 'latin1'), Buffer.alloc(100, 7)]);
const header = 'multipart/form-data; boundary=frontier';
const end = '\r\n--frontier--\r\n';

/** The head of a part, as browsers write it. */
const part = (name: string, filename?: string, type = 'image/png') =>
  `--frontier\r\ncontent-disposition: form-data; name="${name}"` +
  (filename === undefined ? '\r\n\r\n' : `; filename="${filename}"\r\ncontent-type: ${type}\r\n\r\n`);

/** The pieces one after another, each cut to at most `size` bytes. */
async function* cut(pieces: (string | Uint8Array)[], size = 64 * 1024): AsyncGenerator<Uint8Array> {
  const whole = Buffer.concat(pieces.map((piece) => Buffer.from(piece as Uint8Array)));
  for (let at = 0; at < whole.byteLength; at += size) yield whole.subarray(at, at + size);
}

async function open(t: Test) {
  const root = t.testdir();
  const storage = await createFileStorage(root);
  let made = 0;
  const newKey = (extension: string) => `uploads/${++made}.${extension}`;
  return {
    storage,
    receive: (
      body: AsyncIterable<Uint8Array>,
      wish: { type?: string | undefined; signal?: AbortSignal } = {},
    ) =>
      receiveUpload('type' in wish ? wish.type : header, body, {
        storage,
        newKey,
        signal: wish.signal ?? new AbortController().signal,
      }),
    async left() {
      const keys: string[] = await readdir(join(root, 'temp'));
      for await (const { key } of storage.list('')) keys.push(key);
      return keys;
    },
  };
}

const refused = (status: number, message: RegExp | string) => ({ name: 'UploadError', status, message });

t.test('images are stored under their own type, whatever they are called', async (t) => {
  const { receive, storage } = await open(t);
  const sent: [Buffer, string, string, string][] = [
    [png, 'image/png', 'png', 'image/png'],
    [jpeg, 'text/plain', 'jpeg', 'image/jpeg'],
    [webp, 'application/octet-stream', 'webp', 'image/webp'],
  ];
  for (const [image, declared, type, stored] of sent) {
    const received = await receive(cut([part('file', 'a.svg', declared), image, end]));
    t.match(received, { type, bytes: image.byteLength, key: /^uploads\/\d\.(png|jpg|webp)$/ });
    const bytes = await storage.read(received.key, new AbortController().signal, upload.maxBytes);
    t.equal(bytes && Buffer.compare(bytes, image), 0);
    t.equal((await storage.head(received.key))?.contentType, stored);
  }
});

t.test('a form may come byte by byte, with other fields around the file', async (t) => {
  const { receive, left } = await open(t);
  const pieces = [
    part('title'),
    'x',
    '\r\n',
    part('other', 'o.png'),
    png,
    '\r\n',
    part('file', 'a.png'),
    png,
  ];
  const rest = [
    '\r\n',
    part('file', 'second.jpg'),
    jpeg,
    '\r\n',
    part('tail'),
    'y'.repeat(5000),
    end,
    'epilogue',
  ];
  for (const size of [1, 7, 100_000]) {
    const received = await receive(cut(['preamble\r\n', ...pieces, ...rest], size));
    t.match(received, { type: 'png', bytes: png.byteLength }, 'the first file counts');
  }
  t.equal((await left()).length, 3);
  t.match(await receive(cut([part('file'), jpeg, end])), { type: 'jpeg' }, 'a file without a name');
});

t.test('a file of exactly the limit passes, one byte more is 413', async (t) => {
  const { receive, left } = await open(t);
  const full = Buffer.concat([png], upload.maxBytes);
  t.match(await receive(cut([part('file', 'a.png'), full, end])), { bytes: upload.maxBytes });
  t.equal((await left()).length, 1);
  await t.rejects(receive(cut([part('file', 'a.png'), full, 'x', end])), refused(413, /10 MB/));

  let given = 0;
  async function* endless() {
    yield* cut([part('file', 'a.png'), png]);
    for (; given < 1000; given += 1) yield Buffer.alloc(64 * 1024);
  }
  await t.rejects(receive(endless()), refused(413, /10 MB/));
  t.ok(given < 200, `${given} pieces were read`);
  await t.rejects(
    receive(cut([part('title'), Buffer.alloc(12 * 2 ** 20), end])),
    refused(413, /10 MB/),
    'without a file',
  );
  t.equal((await left()).length, 1);
});

t.test('400 without a file, 415 for another type, and nothing stays', async (t) => {
  const { receive, left } = await open(t);
  const cases: [number, RegExp, (string | Uint8Array)[]][] = [
    [400, /missing file/, ['--frontier--\r\n']],
    [400, /missing file/, [part('title'), 'x', end]],
    [400, /missing file/, [part('image', 'a.png'), png, end]],
    [400, /missing file/, [part('file', ''), end]],
    [400, /missing file/, [part('file', 'empty.png'), end]],
    [415, /png, jpeg and webp/, [part('file', 'a.png'), '<svg xmlns="http://www.w3.org/2000/svg"/>', end]],
    [415, /png, jpeg and webp/, [part('file', 'a.png'), 'x', end]],
    [415, /png, jpeg and webp/, [part('file', 'a.png'), Buffer.alloc(2_000_000), end]],
    [415, /png, jpeg and webp/, [part('file', 'a.mp4'), 'xxxxftypisom', Buffer.alloc(100), end]],
  ];
  for (const [status, message, pieces] of cases) {
    for (const size of [1000, 64 * 1024])
      await t.rejects(receive(cut(pieces, size)), refused(status, message), `${status} in ${size}`);
  }
  t.strictSame(await left(), []);
});

t.test('400 for what is no whole form, wherever it breaks off', async (t) => {
  const { receive, left } = await open(t);
  const form = Buffer.concat([Buffer.from(part('file', 'a.png')), png, Buffer.from(end)]);
  const types = [
    undefined,
    '',
    'image/png',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'multipart/mixed; boundary=frontier',
  ];
  for (const type of types)
    await t.rejects(receive(cut([form]), { type }), refused(400, /multipart/), String(type));
  await t.rejects(
    receive(cut([form]), { type: 'multipart/form-data; boundary=other' }),
    refused(400, /malformed/),
  );

  const inTail = form.byteLength - 6;
  for (const length of [
    0,
    5,
    40,
    120,
    130,
    1000,
    form.byteLength - end.length,
    form.byteLength - end.length + 2,
    inTail,
  ]) {
    await t.rejects(receive(cut([form.subarray(0, length)])), refused(400, /malformed/), `${length} bytes`);
  }
  const afterFile = [form.subarray(0, -4), '\r\n', part('title'), 'cut'];
  await t.rejects(receive(cut(afterFile)), refused(400, /malformed/), 'the file is whole, the form is not');
  await t.rejects(receive(cut([`--frontier\r\n${'x'.repeat(2_000_000)}`])), refused(400, /malformed/));
  t.strictSame(await left(), []);
});

t.test('a sender that fails, or a caller that gives up, leaves nothing', async (t) => {
  const { receive, left } = await open(t);
  const flaw = new Error('the client has gone');
  const starts: (string | Uint8Array)[][] = [
    [],
    [part('title'), 'x'],
    [part('file', 'a.png')],
    [part('file', 'a.png'), png],
  ];
  starts.push([part('file', 'a.png'), png, '\r\n', part('title')]);

  for (const [i, start] of starts.entries()) {
    async function* broken() {
      yield* cut(start);
      throw flaw;
    }
    await t.rejects(receive(broken()), flaw, `broken ${i}`);

    const reason = new Error('given up');
    const control = new AbortController();
    const silence = new EventTarget();
    async function* silent() {
      yield* cut(start);
      setImmediate(() => control.abort(reason));
      await once(silence, 'never');
    }
    await t.rejects(receive(silent(), { signal: control.signal }), reason, `silent ${i}`);
  }
  await t.rejects(receive(cut([]), { signal: AbortSignal.abort(flaw) }), flaw);
  t.strictSame(await left(), []);
});

t.test('a store that fails is no fault of the form', async (t) => {
  const { storage } = await open(t);
  const deps = { storage, newKey: () => 'not a key', signal: new AbortController().signal };
  await t.rejects(receiveUpload(header, cut([part('file', 'a.png'), png, end]), deps), TypeError);

  await storage.put('taken/x.png', png, { contentType: 'image/png', signal: deps.signal });
  const newKey = () => 'taken/x.png/y.png';
  await t.rejects(receiveUpload(header, cut([part('file', 'a.png'), png, end]), { ...deps, newKey }), {
    name: 'EffectError',
    code: 'store_write_failed',
  });
});
