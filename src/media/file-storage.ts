/**
 * Storage in a folder of this machine.
 *
 *   root/objects/<key>   whole, durable objects
 *   root/temp/<random>   objects being written
 *
 * An object is written aside, synced, and then given its name in one step, so that neither a reader nor a
 * crash ever meets half of one. Content types follow from the extension. Links that lead out of the folder
 * count as missing.
 */
import { randomUUID } from 'node:crypto';
import { createReadStream, type Dirent } from 'node:fs';
import {
  access,
  constants,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  unlink,
} from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { Readable } from 'node:stream';
import { EffectError } from '../../schemas/errors.ts';
import {
  checkFolder,
  checkKey,
  checkPrefix,
  checkPut,
  contentTypeOf,
  type ListedObject,
  type ObjectInfo,
  resolveRange,
  type Storage,
  type StorageBody,
  StorageError,
} from './storage.ts';
import { untilAborted } from './until-aborted.ts';

/** How much of an object is read at once: each read is a round trip to another thread. */
const readBytes = 256 * 1024;

/**
 * Opens, or makes, a store below `root`, and removes what writers that died left there more than an hour ago.
 * Several processes may share a root. `now` is unix ms.
 *
 * @throws {StorageError} when the folder cannot be used.
 */
export async function createFileStorage(root: string, { now = Date.now } = {}): Promise<Storage> {
  const { objects, temps } = await reading(root, () => prepareFolders(root, now()));
  const pathOf = (key: string) => join(objects, key);
  const headOf: Storage['head'] = async (key, signal) => {
    const object = await openObject(objects, key, signal);
    await object?.handle.close();
    return object?.info;
  };

  return {
    async put(key, body, options) {
      checkPut(key, options);
      const { ifAbsent = false, signal } = options;
      signal.throwIfAborted();

      const temp = join(temps, randomUUID());
      try {
        const bytes = await writeAside(key, temp, body, signal);
        const created = await writing(key, () => publish(temp, objects, pathOf(key), ifAbsent));
        const kept = created ? undefined : await headOf(key, signal);
        return { bytes: kept?.total ?? bytes, created };
      } finally {
        await writing(key, () => rm(temp, { force: true }));
      }
    },

    async get(key, range, signal) {
      const object = await openObject(objects, key, signal);
      if (!object) return undefined;

      const { handle, info } = object;
      try {
        const { start, end, bytes } = resolveRange(range, info.total);
        if (bytes > 0) {
          const highWaterMark = Math.min(bytes, readBytes);
          return { ...info, bytes, stream: handle.createReadStream({ start, end, signal, highWaterMark }) };
        }
        await handle.close();
        return { ...info, bytes, stream: Readable.from([]) };
      } catch (error) {
        await handle.close();
        throw error;
      }
    },

    async read(key, signal, maxBytes) {
      const object = await openObject(objects, key, signal);
      if (!object) return undefined;

      const { handle, info } = object;
      try {
        if (info.total > maxBytes) throw new StorageError(`${key} is longer than ${maxBytes} bytes`);
        return await reading(key, () => handle.readFile({ signal }), signal);
      } finally {
        await handle.close();
      }
    },

    head: headOf,

    async delete(key, signal) {
      checkKey(key);
      signal?.throwIfAborted();
      await reading(key, async () => {
        if (await leadsOut(objects, dirname(pathOf(key)))) return;
        await unless(notThere, unlink(pathOf(key)));
        await prune(objects, dirname(pathOf(key)));
      });
    },

    async deletePrefix(prefix, signal) {
      checkFolder(prefix);
      signal?.throwIfAborted();
      const folder = dirname(pathOf(`${prefix}x`));
      await reading(prefix, async () => {
        if (await leadsOut(objects, folder)) return;
        await rm(folder, { recursive: true, force: true, maxRetries: 3 });
        await prune(objects, dirname(folder));
      });
    },

    async *list(prefix, signal) {
      checkPrefix(prefix);
      const folder = dirname(pathOf(`${prefix}x`));
      if (await reading(prefix, () => leadsOut(objects, folder))) return;
      yield* walk(folder, prefix.slice(0, prefix.lastIndexOf('/') + 1), prefix, signal);
    },

    localPath(key) {
      checkKey(key);
      return pathOf(key);
    },
  };
}

const leftoverMs = 60 * 60_000;
/** A folder may be pruned between its making and its use; more often than this, something else is wrong. */
const publishAttempts = 5;

/** The object is not there: no such name, a name above it is a file, or it is a folder or a circle of links. */
const notThere = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP'];

async function prepareFolders(root: string, now: number): Promise<{ objects: string; temps: string }> {
  const temps = join(root, 'temp');
  await mkdir(join(root, 'objects'), { recursive: true });
  await mkdir(temps, { recursive: true });
  // Told at the start rather than by every asset that cannot be stored.
  for (const folder of [join(root, 'objects'), temps]) await access(folder, constants.W_OK | constants.X_OK);

  for (const name of await readdir(temps)) {
    const stats = await unless(notThere, lstat(join(temps, name)));
    if (stats && stats.mtimeMs < now - leftoverMs) await rm(join(temps, name), { force: true });
  }
  return { objects: await realpath(join(root, 'objects')), temps };
}

/** Writes and syncs a body, and answers its length. */
async function writeAside(
  key: string,
  temp: string,
  body: StorageBody,
  signal: AbortSignal,
): Promise<number> {
  const handle = await writing(key, () => open(temp, 'wx'));
  try {
    let bytes = 0;
    for await (const chunk of untilAborted(chunksOf(key, body), signal)) {
      await writing(key, () => handle.writeFile(chunk));
      bytes += chunk.byteLength;
    }
    await writing(key, () => handle.sync());
    return bytes;
  } finally {
    await writing(key, () => handle.close());
  }
}

async function* chunksOf(key: string, body: StorageBody): AsyncGenerator<Uint8Array> {
  if (body instanceof Uint8Array) yield body;
  else if ('file' in body) yield* readFileOf(key, body.file);
  else yield* body;
}

/** A file of ours as a body: that it cannot be read is a failed write, not a flaw of somebody's body. */
async function* readFileOf(key: string, file: string): AsyncGenerator<Uint8Array> {
  try {
    yield* createReadStream(file);
  } catch (cause) {
    throw writeFailed(key, cause);
  }
}

/** Gives a written file its name. False when `ifAbsent` and the name was taken. */
async function publish(temp: string, objects: string, path: string, ifAbsent: boolean): Promise<boolean> {
  const created = await giveName(temp, objects, path, ifAbsent);
  // Whoever finds the name taken answers that the object is there: it must be as durable for them.
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    await unless(notThere, syncFolder(folder));
    if (folder === objects) return created;
  }
}

async function giveName(temp: string, objects: string, path: string, ifAbsent: boolean): Promise<boolean> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await mkdir(dirname(path), { recursive: true });
      if (await leadsOut(objects, dirname(path))) throw new Error('the folder leads out of the store');
      if (!ifAbsent) await rename(temp, path);
      return ifAbsent ? await isNew(link(temp, path)) : true;
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || attempt === publishAttempts) throw error;
    }
  }
}

async function isNew(linked: Promise<void>): Promise<boolean> {
  try {
    await linked;
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

type OpenObject = { handle: FileHandle; info: ObjectInfo };

async function openObject(
  objects: string,
  key: string,
  signal: AbortSignal | undefined,
): Promise<OpenObject | undefined> {
  checkKey(key);
  signal?.throwIfAborted();
  return reading(key, async () => {
    const path = join(objects, key);
    const handle = (await leadsOut(objects, path)) ? undefined : await unless(notThere, open(path, 'r'));
    if (!handle) return undefined;

    const stats = await handle.stat({ bigint: true });
    if (!stats.isFile()) {
      await handle.close();
      return undefined;
    }
    const total = Number(stats.size);
    const etag = `"${total.toString(16)}-${stats.mtimeNs.toString(16)}"`;
    return { handle, info: { total, etag, contentType: contentTypeOf(key), lastModified: stats.mtime } };
  });
}

/** Whether links on the way to an existing path lead out of the store. */
async function leadsOut(objects: string, path: string): Promise<boolean> {
  const real = await unless(notThere, realpath(path));
  return real !== undefined && real !== objects && !real.startsWith(objects + sep);
}

/** Removes empty folders from `folder` upwards; stops at the first that is in use. */
async function prune(objects: string, folder: string): Promise<void> {
  for (let empty = folder; empty !== objects; empty = dirname(empty)) {
    // One that is gone already may have been the last thing in the folder above it.
    const outcome = await rmdir(empty).catch(codeOf);
    if (outcome === 'ENOTEMPTY' || outcome === 'EEXIST') return;
    if (outcome !== undefined && !notThere.includes(outcome)) throw new Error(outcome);
  }
}

/** Objects below `folder` whose key begins with `prefix`; `path` is the folder's own part of the key. */
async function* walk(
  folder: string,
  path: string,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  const entries = await reading(path, () => unless(notThere, opendir(folder)));
  if (!entries) return;

  for await (const entry of entries) {
    signal?.throwIfAborted();
    const key = path + entry.name;
    if (!key.startsWith(prefix)) continue;

    if (entry.isDirectory()) yield* walk(join(folder, entry.name), `${key}/`, prefix, signal);
    else yield* listed(folder, key, entry);
  }
}

async function* listed(folder: string, key: string, entry: Dirent): AsyncGenerator<ListedObject> {
  const stats =
    entry.isFile() && (await reading(key, () => unless(notThere, lstat(join(folder, entry.name)))));
  if (stats) yield { key, bytes: stats.size, lastModified: stats.mtime };
}

async function writing<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    throw writeFailed(key, cause);
  }
}

async function reading<Result>(
  key: string,
  work: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    signal?.throwIfAborted();
    throw new StorageError(`cannot read or delete ${key}: ${codeOf(cause)}`, { cause });
  }
}

/** The result, or undefined when it fails with one of these codes. */
async function unless<Result>(codes: string[], work: Promise<Result>): Promise<Result | undefined> {
  try {
    return await work;
  } catch (error) {
    if (codes.includes(codeOf(error))) return undefined;
    throw error;
  }
}

function writeFailed(key: string, cause: unknown): EffectError {
  return new EffectError('store_write_failed', `cannot store ${key}: ${codeOf(cause)}`, { cause });
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? String(error);
}
