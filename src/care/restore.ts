/**
 * Fills an empty system from a backup (backup.ts). The service may be started on it afterwards, and not before.
 *
 * Everything is looked at before anything is written: the files, the keys, and that nothing is there that it would mix
 * with. A restore that was cut off may be run again: it begins anew. The streams of the bus are made by the service at
 * its start, above all positions, and what was on its way in the old ones is found in the documents
 * (actors/reconcile.ts): runs go on where they were, and deliveries that were told of and not begun are begun.
 */
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { contentTypeOf, isKey, type Storage } from '../media/storage.ts';
import type { Store } from '../store/client.ts';
import {
  ArchiveError,
  checkFile,
  collectionFile,
  type Manifest,
  type MediaLine,
  markOf,
  mediaFile,
  mediaListFile,
  readDocuments,
  readManifest,
  readMediaList,
} from './archive.ts';
import { inGroups, withTime } from './work.ts';

export type RestorePorts = {
  store: Pick<Store, 'dump' | 'migrations'>;
  storage: Pick<Storage, 'put' | 'head' | 'list'>;
  /** Ids of the keys of secrets that are configured. */
  keyIds: readonly string[];
  /** Streams of this installation that there are, and how they go. */
  listStreams(): Promise<{ name: string }[]>;
  deleteStreams(): Promise<void>;
};

export type RestoreOptions = {
  folder: string;
  /** The bus has outlived the database: what it holds is of a time that is gone. */
  discardStreams: boolean;
  say(line: string): void;
};

export type Restored = { manifest: Manifest; missing: string[] };

const atOnce = 8;
const objectMs = 120_000;
const maxNamed = 20;

/** @throws {ArchiveError} with what is in the way; nothing is written then. */
export async function restoreBackup(ports: RestorePorts, options: RestoreOptions): Promise<Restored> {
  const { store, storage } = ports;
  const { folder, say } = options;
  const manifest = await readManifest(folder);
  await checkArchive(folder, manifest);
  say(`backup ${manifest.id} of ${new Date(manifest.ts).toISOString()} is whole`);
  await checkTarget(ports, options, manifest);

  await store.dump.beginRestore(manifest.id);
  if (options.discardStreams) await ports.deleteStreams();
  for (const { name, documents } of manifest.collections) {
    const count = await store.dump.insert(name, readDocuments(join(folder, collectionFile(name))));
    if (count !== documents)
      throw new ArchiveError(`${name} has ${count} documents, the manifest says ${documents}`);
  }
  say(`${manifest.collections.length} collections are back`);
  const missing = await restoreMedia(storage, folder, manifest);
  say(`${manifest.media.objects - missing.length} of ${manifest.media.objects} media objects are there`);
  await store.dump.finishRestore();
  return { manifest, missing: missing.slice(0, maxNamed) };
}

async function checkArchive(folder: string, { collections, media }: Manifest): Promise<void> {
  for (const { name, file } of collections) await checkFile(join(folder, collectionFile(name)), file);
  await checkFile(join(folder, mediaListFile), media.file);
  for await (const some of inGroups(readMediaList(folder), atOnce)) {
    const foreign = some.find(({ key }) => !isKey(key));
    if (foreign) throw new ArchiveError(`${JSON.stringify(foreign.key)} is no name of a media object`);
    if (media.kind === 'copy') await Promise.all(some.map((line) => checkCopy(folder, line)));
  }
}

async function checkCopy(folder: string, { key, bytes, sha256 }: MediaLine): Promise<void> {
  await checkFile(join(folder, mediaFile(key)), { bytes, sha256: sha256 ?? '' });
}

async function checkTarget(
  { store, storage, keyIds, listStreams }: RestorePorts,
  { discardStreams }: RestoreOptions,
  { dataVersion, keys, media }: Manifest,
): Promise<void> {
  const { latest } = await store.migrations.state();
  if (dataVersion > latest) {
    throw new ArchiveError(
      `the backup has data of version ${dataVersion} and this build knows ${latest}: run a later build`,
    );
  }
  const unknown = keys.ids.filter((id) => !keyIds.includes(id));
  if (unknown.length > 0) {
    const place = keys.isIncluded ? 'secrets.key in the backup holds it' : 'it is not in the backup';
    throw new ArchiveError(
      `its secrets are sealed with key ${unknown.join(', ')}, which SECRETS_KEY does not name: ${place}`,
    );
  }
  const isAgain = (await store.dump.unfinishedRestore()) !== undefined;
  const [filled] = isAgain ? [] : await store.dump.filled();
  if (filled !== undefined)
    throw new ArchiveError(
      `the database is not empty (${filled}): name another by MONGODB_DATABASE, or drop it`,
    );
  const streams = discardStreams ? [] : await listStreams();
  if (streams.length > 0) {
    const names = streams.map(({ name }) => name).join(', ');
    throw new ArchiveError(
      `the bus has streams of this installation (${names}): stop every process and add --discard-streams`,
    );
  }
  if (media.kind === 'list' || isAgain) return;
  for await (const { key } of storage.list(''))
    throw new ArchiveError(`the storage of media is not empty (${key}): name another by STORAGE_URL`);
}

/** Brings the objects back, or looks for them where only their list was kept. Answers the keys of those that are missing. */
async function restoreMedia(
  storage: RestorePorts['storage'],
  folder: string,
  { media }: Manifest,
): Promise<string[]> {
  const missing: string[] = [];
  for await (const some of inGroups(readMediaList(folder), atOnce)) {
    const outcomes = await Promise.all(
      some.map((line) => (media.kind === 'copy' ? putObject(storage, folder, line) : isThere(storage, line))),
    );
    for (const [at, isKept] of outcomes.entries()) if (!isKept) missing.push(some[at]?.key ?? '');
  }
  return missing;
}

async function putObject(
  storage: RestorePorts['storage'],
  folder: string,
  { key, sha256 }: MediaLine,
): Promise<true> {
  const file = join(folder, mediaFile(key));
  await withTime(objectMs, (signal) =>
    storage.put(key, createReadStream(file), { contentType: contentTypeOf(key), ifAbsent: true, signal }),
  );
  // It was whole a while ago; between then and now others may write there too.
  if ((await markOf(file)).sha256 !== sha256) throw new ArchiveError(`${file} has changed meanwhile`);
  return true;
}

async function isThere(storage: RestorePorts['storage'], { key, bytes }: MediaLine): Promise<boolean> {
  const found = await withTime(objectMs, (signal) => storage.head(key, signal));
  return found?.total === bytes;
}
