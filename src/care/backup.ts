/**
 * Makes a backup of a running system: the database as it was at one moment, then the stored objects.
 *
 * In that order every object that a document refers to is in the backup: objects are written before the document says
 * so, and never changed. What is erased while the objects are copied is left out, as its owner wished. Streams are not
 * kept: after a restore they are made again of the documents.
 */
import { createWriteStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { ListedObject, Storage } from '../media/storage.ts';
import type { Store } from '../store/client.ts';
import {
  collectionFile,
  createMarker,
  keyFile,
  type Manifest,
  type MediaLine,
  manifestFile,
  mediaFile,
  mediaListFile,
  newBackupId,
  openFolder,
  writeChunks,
  writeWhole,
} from './archive.ts';
import { inGroups, withTime } from './work.ts';

export type BackupOptions = {
  /** Absent or empty. */
  folder: string;
  media: Manifest['media']['kind'];
  /** Keys of secrets as their file has them, to be put into the backup; otherwise they are somebody else's to keep. */
  keys?: string;
  now(): number;
  say(line: string): void;
};

export type BackupPorts = {
  store: Pick<Store, 'dump' | 'migrations' | 'secrets'>;
  storage: Pick<Storage, 'get' | 'list'>;
};

/** Objects that are copied at once. */
const atOnce = 8;
/** Longest silence of the store of media. */
const objectMs = 120_000;
const ownerOnly = 0o600;
const ownerFolder = 0o700;

/** @throws {ArchiveError} when the folder is not empty, {DataError} when the database cannot be read at one moment. */
export async function makeBackup(
  { store, storage }: BackupPorts,
  { folder, media: kind, keys, now, say }: BackupOptions,
): Promise<Manifest> {
  await openFolder(folder);
  const names = await store.dump.collections();
  const keyIds = await store.secrets.keyIds();
  const { version: dataVersion } = await store.migrations.state();
  const read = await store.dump.atOneMoment(async (read) => {
    // What a try of before has left.
    await rm(join(folder, 'mongodb'), { recursive: true, force: true });
    const ts = now();
    const collections: Manifest['collections'] = [];
    for (const name of names) collections.push(await dumpCollection(folder, name, read(name)));
    return { ts, collections };
  });
  const documents = read.collections.reduce((sum, one) => sum + one.documents, 0);
  say(`${documents} documents of ${names.length} collections as of ${new Date(read.ts).toISOString()}`);

  const media = await keepMedia(storage, folder, kind);
  say(`${media.objects} media objects, ${media.bytes} bytes, ${kind === 'copy' ? 'copied' : 'listed only'}`);
  if (keys !== undefined) await writeWhole(join(folder, keyFile), keys);
  const manifest: Manifest = {
    format: 1,
    id: newBackupId(),
    ts: read.ts,
    finishedTs: now(),
    dataVersion,
    collections: read.collections,
    media: { kind, ...media },
    keys: { ids: keyIds, isIncluded: keys !== undefined },
  };
  await writeWhole(join(folder, manifestFile), `${JSON.stringify(manifest, null, 2)}\n`);
  return manifest;
}

async function dumpCollection(
  folder: string,
  name: string,
  documents: AsyncIterable<Uint8Array>,
): Promise<Manifest['collections'][number]> {
  let count = 0;
  const counted = async function* () {
    for await (const one of documents) {
      count += 1;
      yield one;
    }
  };
  const file = await writeChunks(join(folder, collectionFile(name)), counted());
  return { name, documents: count, file };
}

async function keepMedia(
  storage: BackupPorts['storage'],
  folder: string,
  kind: Manifest['media']['kind'],
): Promise<Omit<Manifest['media'], 'kind'>> {
  let objects = 0;
  let bytes = 0;
  const lines = async function* () {
    for await (const some of inGroups(storage.list(''), atOnce)) {
      const kept = await Promise.all(
        some.map((one) => (kind === 'copy' ? copyObject(storage, folder, one.key) : toLine(one))),
      );
      for (const line of kept) {
        if (line === undefined) continue;
        objects += 1;
        bytes += line.bytes;
        yield Buffer.from(`${JSON.stringify(line)}\n`);
      }
    }
  };
  const file = await writeChunks(join(folder, mediaListFile), lines());
  return { objects, bytes, file };
}

const toLine = ({ key, bytes }: ListedObject): MediaLine => ({ key, bytes, sha256: null });

/** Undefined when it has been erased since it was listed. */
async function copyObject(
  storage: BackupPorts['storage'],
  folder: string,
  key: string,
): Promise<MediaLine | undefined> {
  const file = join(folder, mediaFile(key));
  await mkdir(dirname(file), { recursive: true, mode: ownerFolder });
  return withTime(objectMs, async (signal) => {
    const object = await storage.get(key, undefined, signal);
    if (!object) return undefined;
    const marker = createMarker();
    const out = createWriteStream(file, { flags: 'wx', mode: ownerOnly, flush: true });
    await pipeline(object.stream, marker.pass, out, { signal });
    return { key, ...marker.mark() };
  });
}
