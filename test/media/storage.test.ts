/** What every store must do, and what a folder must do besides. What S3 must do besides: s3-storage.test.ts. */
import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { createFileStorage } from '../../src/media/file-storage.ts';
import { parseS3Url } from '../../src/media/s3-place.ts';
import { openS3Storage } from '../../src/media/s3-storage.ts';
import { contentTypeOf, type Storage } from '../../src/media/storage.ts';
import { s3Credentials, startS3Like } from '../fixtures/s3-like.ts';
import { findVersitygw, noVersitygw, startVersitygw } from '../fixtures/versitygw.ts';

const never = new AbortController().signal;
const mp4 = { contentType: 'video/mp4', signal: never };
const bin = { contentType: 'application/octet-stream', signal: never };
const bytesOf = (text: string) => new TextEncoder().encode(text);
const textOf = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString();
const writeFailed = { name: 'EffectError', code: 'store_write_failed', retry: 'transient' };

async function drain(stream: Readable): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

async function keysOf(storage: Storage, prefix = ''): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of storage.list(prefix)) keys.push(key);
  return keys.sort();
}

async function* piecesOf(...pieces: string[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield bytesOf(piece);
}

/** A body that gives one piece and is then silent until `release`. */
function heldBody(piece: string) {
  const gate = new EventEmitter();
  const begun = once(gate, 'begun');
  const released = once(gate, 'released');
  async function* body() {
    yield bytesOf(piece);
    gate.emit('begun');
    await released;
  }
  return { body: body(), begun, release: () => gate.emit('released') };
}

async function openBucket(t: Test, storageUrl: string): Promise<Storage> {
  const storage = await openS3Storage({
    place: parseS3Url(storageUrl),
    credentials: s3Credentials,
    tempDir: tmpdir(),
  });
  t.teardown(() => storage.close());
  return storage;
}

const versitygw = findVersitygw();
const stores: Record<string, (t: Test) => Promise<Storage>> = {
  'a folder': async (t) => createFileStorage(t.testdir()),
  'an object store': async (t) => openBucket(t, (await startS3Like(t)).storageUrl),
  ...(versitygw && { versitygw: async (t) => openBucket(t, await startVersitygw(t, versitygw)) }),
};
if (!versitygw) t.test('versitygw keeps the contract of storage', { skip: noVersitygw }, () => undefined);

for (const [name, open] of Object.entries(stores)) {
  t.test(`${name} keeps the contract of storage`, async (t) => {
    const storage = await open(t);

    t.test('what was put is read back, whole and in parts', async (t) => {
      t.strictSame(await storage.put('a/one.mp4', bytesOf('0123456789'), mp4), { bytes: 10, created: true });
      t.equal(textOf(await storage.read('a/one.mp4', never, 10)), '0123456789');

      const whole = await storage.get('a/one.mp4', undefined, never);
      t.match(whole, { bytes: 10, total: 10, contentType: 'video/mp4', etag: /^"[^"]+"$/ });
      t.ok(whole && Math.abs(whole.lastModified.getTime() - Date.now()) < 60_000);
      t.equal(whole && (await drain(whole.stream)), '0123456789');

      const ranges: [number, number, string][] = [
        [0, 0, '0'],
        [2, 4, '234'],
        [9, 9, '9'],
        [5, 1e9, '56789'],
        [10, 20, ''],
        [1e9, 1e9, ''],
      ];
      for (const [start, end, expected] of ranges) {
        const part = await storage.get('a/one.mp4', { start, end }, never);
        t.strictSame([part?.bytes, part?.total], [expected.length, 10], `${start}-${end}`);
        t.equal(part && (await drain(part.stream)), expected, `${start}-${end}`);
      }
      for (const range of [
        { start: -1, end: 2 },
        { start: 3, end: 2 },
        { start: 0.5, end: 2 },
        { start: 0, end: NaN },
      ]) {
        await t.rejects(storage.get('a/one.mp4', range, never), TypeError, JSON.stringify(range));
      }
    });

    t.test('bodies come as bytes, as pieces, and as a file', async (t) => {
      t.strictSame(await storage.put('b/pieces', piecesOf('ab', '', 'cd'), bin), { bytes: 4, created: true });
      t.equal(textOf(await storage.read('b/pieces', never, 100)), 'abcd');

      const file = join(t.testdir({ clip: 'x'.repeat(200_000) }), 'clip');
      t.strictSame(await storage.put('b/file.bin', { file }, bin), { bytes: 200_000, created: true });
      t.equal((await storage.head('b/file.bin'))?.total, 200_000);
      await t.rejects(storage.put('b/gone.bin', { file: `${file}-gone` }, bin), writeFailed);

      t.strictSame(await storage.put('b/empty.bin', new Uint8Array(), bin), { bytes: 0, created: true });
      const empty = await storage.get('b/empty.bin', undefined, never);
      t.equal(empty && (await drain(empty.stream)), '');
      t.equal((await storage.read('b/empty.bin', never, 0))?.byteLength, 0);
      t.strictSame(await keysOf(storage, 'b/'), ['b/empty.bin', 'b/file.bin', 'b/pieces']);
    });

    t.test('content types are kept', async (t) => {
      const types = { mp4: 'video/mp4', jpg: 'image/jpeg', png: 'image/png', webp: 'image/webp' };
      for (const [extension, contentType] of Object.entries(types)) {
        await storage.put(`c/x.${extension}`, bytesOf('x'), { contentType, signal: never });
        t.equal((await storage.head(`c/x.${extension}`))?.contentType, contentType);
      }
      t.equal(contentTypeOf('c/x'), 'application/octet-stream');
      await t.rejects(
        storage.put('c/y.png', bytesOf('x'), mp4),
        TypeError,
        'an extension that says otherwise',
      );
      t.equal(await storage.head('c/y.png'), undefined);
    });

    t.test('what is not there is undefined, and deleting it is fine', async (t) => {
      await storage.put('d/x', bytesOf('x'), bin);
      for (const key of ['none', 'd/none', 'd', 'd/x/below']) {
        t.equal(await storage.get(key, undefined, never), undefined, key);
        t.equal(await storage.read(key, never, 100), undefined, key);
        t.equal(await storage.head(key), undefined, key);
        await storage.delete(key);
      }
      await storage.deletePrefix('none/below/');
      t.equal(textOf(await storage.read('d/x', never, 100)), 'x');
    });

    t.test('an object is replaced whole, and its etag changes', async (t) => {
      await storage.put('e/x', bytesOf('first'), bin);
      const before = await storage.get('e/x', undefined, never);
      const held = heldBody('sec');
      const put = storage.put('e/x', held.body, bin);
      await held.begun;
      t.equal(textOf(await storage.read('e/x', never, 100)), 'first', 'while the next is being written');
      held.release();
      t.strictSame(await put, { bytes: 3, created: true });

      t.equal(before && (await drain(before.stream)), 'first', 'a reader keeps what it opened');
      t.equal(textOf(await storage.read('e/x', never, 100)), 'sec');
      t.not((await storage.head('e/x'))?.etag, before?.etag);
    });

    t.test('of several creators at once exactly one creates', async (t) => {
      const texts = Array.from({ length: 20 }, (_, i) => `creator ${i}${'.'.repeat(i)}`);
      const outcomes = await Promise.all(
        texts.map((text) =>
          storage.put('f/deep/er/x', bytesOf(text), {
            ...bin,
            ifAbsent: true,
            signal: new AbortController().signal,
          }),
        ),
      );
      const winners = texts.filter((_, i) => outcomes[i]?.created);
      t.equal(winners.length, 1);
      t.equal(textOf(await storage.read('f/deep/er/x', never, 100)), winners[0]);
      for (const { bytes } of outcomes)
        t.equal(bytes, winners[0]?.length, 'all hear the length of what is stored');
    });

    t.test('a body that fails, or is given up, leaves nothing', async (t) => {
      const flaw = new Error('the sender has gone');
      async function* broken() {
        yield bytesOf('half');
        throw flaw;
      }
      await t.rejects(storage.put('g/x', broken(), bin), flaw, 'thrown as it is');

      const reason = new Error('given up');
      await t.rejects(
        storage.put('g/x', bytesOf('x'), { ...bin, signal: AbortSignal.abort(reason) }),
        reason,
      );
      const control = new AbortController();
      const held = heldBody('half');
      const put = storage.put('g/x', held.body, { ...bin, signal: control.signal });
      await held.begun;
      control.abort(reason);
      await t.rejects(put, reason, 'also while the body is silent');
      held.release();
      t.strictSame(await keysOf(storage, 'g/'), []);

      await storage.put('g/y', bytesOf('y'), bin);
      await t.rejects(storage.get('g/y', undefined, AbortSignal.abort(reason)), reason);
      await t.rejects(storage.read('g/y', AbortSignal.abort(reason), 100), reason);
      await t.rejects(storage.delete('g/y', AbortSignal.abort(reason)), reason);
      await t.rejects(storage.deletePrefix('g/', AbortSignal.abort(reason)), reason);
      t.strictSame(await keysOf(storage, 'g/'), ['g/y']);
    });

    t.test('a read has a cap', async (t) => {
      await storage.put('h/x', bytesOf('0123456789'), bin);
      await t.rejects(storage.read('h/x', never, 9), { name: 'StorageError' });
    });

    t.test('objects are listed and deleted by prefix', async (t) => {
      for (const key of ['i/a1/1.mp4', 'i/a1/2.mp4', 'i/a1/deep/er/3.mp4', 'i/a10/1.mp4', 'i/b/1.mp4']) {
        await storage.put(key, bytesOf(key), mp4);
      }
      t.strictSame(await keysOf(storage, 'i/a1/'), ['i/a1/1.mp4', 'i/a1/2.mp4', 'i/a1/deep/er/3.mp4']);
      t.equal((await keysOf(storage, 'i/a1')).length, 4);
      t.strictSame(await keysOf(storage, 'i/a1/deep/e'), ['i/a1/deep/er/3.mp4']);
      t.strictSame(await keysOf(storage, 'i/none'), []);
      t.ok((await keysOf(storage)).length >= 5);
      for await (const { bytes, lastModified } of storage.list('i/b/')) {
        t.equal(bytes, 'i/b/1.mp4'.length);
        t.ok(Math.abs(lastModified.getTime() - Date.now()) < 60_000);
      }
      await t.rejects(
        keysOf({ ...storage, list: (p) => storage.list(p, AbortSignal.abort(new Error('x'))) }, 'i/'),
        { message: 'x' },
      );

      await storage.deletePrefix('i/a1/');
      t.strictSame(await keysOf(storage, 'i/'), ['i/a10/1.mp4', 'i/b/1.mp4']);
      await storage.delete('i/b/1.mp4');
      await storage.delete('i/b/1.mp4');
      t.strictSame(await keysOf(storage, 'i/'), ['i/a10/1.mp4']);
    });

    t.test('keys of another form are refused by every function', async (t) => {
      const keys = [
        '',
        '/a',
        'a/',
        'a//b',
        '..',
        'a/../b',
        '../a',
        'a..b',
        '.',
        './a',
        'a/.',
        'a b',
        'ä',
        'a\\b',
        'a\0b',
      ];
      for (const key of [...keys, 'a?b', 'a%2e', 'a\n', 'x'.repeat(513), `a/${'x'.repeat(256)}`]) {
        await t.rejects(storage.put(key, bytesOf('x'), bin), TypeError, JSON.stringify(key));
        await t.rejects(storage.get(key, undefined, never), TypeError);
        await t.rejects(storage.read(key, never, 1), TypeError);
        await t.rejects(storage.head(key), TypeError);
        await t.rejects(storage.delete(key), TypeError);
        if (storage.localPath) t.throws(() => storage.localPath?.(key), TypeError);
      }
      for (const prefix of ['/', '../', 'a/../', 'a//', './']) {
        await t.rejects(keysOf(storage, prefix), TypeError, prefix);
        await t.rejects(storage.deletePrefix(prefix), TypeError, prefix);
      }
      for (const prefix of ['', 'a', 'a/b'])
        await t.rejects(storage.deletePrefix(prefix), TypeError, `no folder: ${prefix}`);

      const longest = `${'x'.repeat(255)}/${'y'.repeat(255)}z`.slice(0, 511);
      await storage.put(longest, bytesOf('x'), bin);
      t.equal(textOf(await storage.read(longest, never, 1)), 'x');
      await storage.delete(longest);
    });
  });
}

t.test('a folder gives paths, and keeps no traces', async (t) => {
  const root = t.testdir();
  const storage = await createFileStorage(root);
  await storage.put('a/b/c/x.mp4', bytesOf('x'), mp4);
  await storage.put('a/y.mp4', bytesOf('y'), mp4);
  await storage.put('a/y.mp4', bytesOf('z'), { ...mp4, ifAbsent: true });
  t.equal(await readFile(storage.localPath?.('a/b/c/x.mp4') ?? '', 'utf8'), 'x');
  t.strictSame(await readdir(join(root, 'temp')), []);

  await storage.delete('a/b/c/x.mp4');
  t.strictSame(await readdir(join(root, 'objects/a')), ['y.mp4'], 'empty folders go with their last object');
  await storage.deletePrefix('a/');
  t.strictSame(await readdir(join(root, 'objects')), []);
  t.strictSame(await keysOf(await createFileStorage(root)), []);
});

t.test('a folder may be pruned while it is being written to', async (t) => {
  const storage = await createFileStorage(t.testdir());
  const puts = Array.from({ length: 100 }, async (_, i) => {
    await storage.put(`a/b/${i}`, bytesOf(`${i}`), { ...bin, signal: new AbortController().signal });
    await storage.delete(`a/b/${i}`);
  });
  await Promise.all(puts);
  t.strictSame(await keysOf(storage), []);
});

t.test('opening a folder removes what a dead writer left more than an hour ago', async (t) => {
  const root = t.testdir({ temp: { old: 'x', young: 'x' } });
  const now = Date.now();
  await utimes(join(root, 'temp/old'), new Date(now), new Date(now - 61 * 60_000));
  await utimes(join(root, 'temp/young'), new Date(now), new Date(now - 59 * 60_000));
  await createFileStorage(root, { now: () => now });
  t.strictSame(await readdir(join(root, 'temp')), ['young']);
});

t.test('links that lead out of a folder count as missing', async (t) => {
  const dir = t.testdir({ outside: { 'secret.bin': 'secret' } });
  const root = join(dir, 'root');
  const storage = await createFileStorage(root);
  await storage.put('kept/x.bin', bytesOf('x'), bin);
  await symlink(join(dir, 'outside'), join(root, 'objects/away'));
  await symlink(join(dir, 'outside/secret.bin'), join(root, 'objects/kept/secret.bin'));
  await symlink(join(root, 'objects/kept/x.bin'), join(root, 'objects/kept/y.bin'));
  await symlink('circle.bin', join(root, 'objects/kept/circle.bin'));

  for (const key of ['away/secret.bin', 'kept/secret.bin', 'kept/circle.bin']) {
    t.equal(await storage.read(key, never, 100), undefined, key);
    await storage.delete(key);
  }
  await storage.deletePrefix('away/');
  await t.rejects(storage.put('away/new.bin', bytesOf('x'), bin), writeFailed);
  t.strictSame(await keysOf(storage, 'away/'), []);
  t.strictSame(await keysOf(storage), ['kept/x.bin']);
  t.equal(textOf(await storage.read('kept/y.bin', never, 100)), 'x', 'one that stays inside is followed');
  t.strictSame(await readdir(join(dir, 'outside')), ['secret.bin']);

  // A link in the place of an object is replaced, not written through.
  await symlink(join(dir, 'outside/secret.bin'), join(root, 'objects/kept/z.bin'));
  await storage.put('kept/z.bin', bytesOf('z'), bin);
  t.equal(await readFile(join(dir, 'outside/secret.bin'), 'utf8'), 'secret');
});

t.test('a name that is taken by a folder, or a folder by a name, is a failed write', async (t) => {
  const storage = await createFileStorage(t.testdir());
  await storage.put('a/b', bytesOf('x'), bin);
  await t.rejects(storage.put('a', bytesOf('x'), bin), writeFailed);
  await t.rejects(storage.put('a/b/c', bytesOf('x'), bin), writeFailed);
  t.strictSame(await keysOf(storage), ['a/b']);
});

t.test('a folder that cannot be used says so', async (t) => {
  const root = t.testdir({ file: 'x' });
  await t.rejects(createFileStorage(join(root, 'file')), { name: 'StorageError' });

  const storage = await createFileStorage(join(root, 'gone'));
  await rm(join(root, 'gone'), { recursive: true });
  await writeFile(join(root, 'gone'), '');
  await t.rejects(storage.put('x', bytesOf('x'), bin), writeFailed);
});

t.test('readers that stop early leave no descriptor open', async (t) => {
  if (!existsSync('/proc/self/fd')) {
    t.comment('skipped: descriptors cannot be counted here');
    return;
  }
  const count = async () => (await readdir('/proc/self/fd')).length;
  const closed = (stream: Readable) => new Promise<void>((resolve) => stream.once('close', resolve));
  const storage = await createFileStorage(t.testdir());
  await storage.put('x.bin', new Uint8Array(5_000_000), bin);
  const before = await count();

  for (let i = 0; i < 5; i += 1) {
    const control = new AbortController();
    const aborted = await storage.get('x.bin', undefined, control.signal);
    const destroyed = await storage.get('x.bin', { start: 5, end: 4_000_000 }, never);
    if (!aborted || !destroyed) throw new Error('nothing to read');
    for await (const _ of destroyed.stream) break;
    const ended = closed(aborted.stream);
    const failed = t.rejects(drain(aborted.stream), { name: 'AbortError' });
    control.abort();
    await Promise.all([ended, failed]);

    await storage.head('x.bin');
    await t.rejects(storage.read('x.bin', never, 1));
    await t.rejects(storage.get('x.bin', { start: 2, end: 1 }, never), TypeError);
    await storage.get('x.bin', { start: 6_000_000, end: 7_000_000 }, never);
  }
  t.equal(await count(), before);
});

t.test('a full disk is a failed write that leaves nothing', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'disk-'));
  const run = promisify(execFile);
  const mounted = await run('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', root]).catch(
    (error: Error) => error,
  );
  if (mounted instanceof Error) {
    t.comment(`skipped: a small disk cannot be mounted here: ${mounted.message}`);
    return rm(root, { recursive: true });
  }
  t.teardown(async () => {
    await run('umount', [root]);
    await rm(root, { recursive: true });
  });

  const storage = await createFileStorage(root);
  await storage.put('kept.bin', new Uint8Array(1000), bin);
  const full = { ...writeFailed, cause: { code: 'ENOSPC' } };
  await t.rejects(storage.put('x.bin', new Uint8Array(1_000_000), bin), full);
  await t.rejects(storage.put('kept.bin', piecesOf('x'.repeat(200_000), 'x'.repeat(200_000)), bin), full);
  t.strictSame(await readdir(join(root, 'temp')), []);
  t.strictSame(await keysOf(storage), ['kept.bin']);
  t.equal((await storage.head('kept.bin'))?.total, 1000);
  await storage.put('y.bin', new Uint8Array(100_000), bin);
  t.equal((await stat(storage.localPath?.('y.bin') ?? '')).size, 100_000, 'the space is free again');
});
