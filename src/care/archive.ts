/**
 * A backup as files, all readable by their owner alone:
 *
 *   manifest.json               what there is; written last, so that a backup without it was not brought to its end
 *   mongodb/<collection>.bson.gz  documents one after the other, as mongodump --gzip has them
 *   media.jsonl.gz              key, length and SHA-256 of every stored object
 *   media/<key>                 the objects, unless only the list was wanted
 *   secrets.key                 the keys of secrets, when they were asked for
 *
 * The manifest holds the SHA-256 of each of the other files as they lie there.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline as connect, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { z } from 'zod';

const FileMark = z.object({ sha256: z.string(), bytes: z.int() });
type FileMark = z.infer<typeof FileMark>;

export const Manifest = z.object({
  format: z.literal(1),
  id: z.string(),
  /** When the database was read: everything before is in the backup, and nothing after of the documents. */
  ts: z.int(),
  finishedTs: z.int(),
  /** Version of the data: see store/migrations.ts. */
  dataVersion: z.int(),
  collections: z.array(z.object({ name: z.string(), documents: z.int(), file: FileMark })),
  media: z.object({
    /** `list`: the objects themselves are kept by somebody else. */
    kind: z.enum(['copy', 'list']),
    objects: z.int(),
    bytes: z.int(),
    file: FileMark,
  }),
  /** Ids of the keys that secrets are sealed with. */
  keys: z.object({ ids: z.array(z.string()), isIncluded: z.boolean() }),
});
export type Manifest = z.infer<typeof Manifest>;

export const MediaLine = z.object({ key: z.string(), bytes: z.int(), sha256: z.string().nullable() });
export type MediaLine = z.infer<typeof MediaLine>;

/** A backup that cannot be made here, or that is not what it was. The message is for the operator. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
}

export const manifestFile = 'manifest.json';
export const mediaListFile = 'media.jsonl.gz';
export const keyFile = 'secrets.key';
export const collectionFile = (name: string) => join('mongodb', `${encodeURIComponent(name)}.bson.gz`);
export const mediaFile = (key: string) => join('media', ...key.split('/'));

const ownerOnly = 0o600;
const ownerFolder = 0o700;
/** Of a document: MongoDB's own limit is 16 MiB. */
const maxDocumentBytes = 17 * 1024 * 1024;
const lengthBytes = 4;

/** An empty folder for a backup, made when absent. @throws {ArchiveError} when there is anything in it. */
export async function openFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: ownerFolder });
  const [found] = await readdir(folder);
  if (found !== undefined) throw new ArchiveError(`${folder} is not empty (${found}): name a new folder`);
}

export const newBackupId = () => `bak_${randomBytes(10).toString('hex')}`;

/** Writes chunks, compressed, to a new file that is on disk when this answers. */
export async function writeChunks(file: string, chunks: AsyncIterable<Uint8Array>): Promise<FileMark> {
  await mkdir(dirname(file), { recursive: true, mode: ownerFolder });
  const marker = createMarker();
  const out = createWriteStream(file, { flags: 'wx', mode: ownerOnly, flush: true });
  await pipeline(Readable.from(chunks, { objectMode: true }), createGzip({ level: 3 }), marker.pass, out);
  return marker.mark();
}

/** Writes a file whole or not at all. */
export async function writeWhole(file: string, text: string): Promise<void> {
  const handle = await open(`${file}.new`, 'wx', ownerOnly);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.new`, file);
  const folder = await open(dirname(file), 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** @throws {ArchiveError} when it is missing or of another form. */
export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, manifestFile), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new ArchiveError(
      `${folder} is no backup, or one that was not brought to its end: ${manifestFile} (${cause.code})`,
    );
  });
  const { data, error } = Manifest.safeParse(safeJson(text));
  if (data) return data;
  throw new ArchiveError(
    `${join(folder, manifestFile)} is not of a form that this build knows: ${error?.message}`,
  );
}

/** @throws {ArchiveError} when a file is not the one that the manifest tells of. */
export async function checkFile(file: string, mark: FileMark): Promise<void> {
  const { sha256, bytes } = await markOf(file).catch((cause: NodeJS.ErrnoException) => {
    throw new ArchiveError(`${file} cannot be read (${cause.code})`);
  });
  if (sha256 !== mark.sha256 || bytes !== mark.bytes)
    throw new ArchiveError(`${file} is damaged: its SHA-256 is not what the manifest says`);
}

export async function markOf(file: string): Promise<FileMark> {
  const marker = createMarker();
  for await (const _ of marker.pass(createReadStream(file)));
  return marker.mark();
}

/** Lets bytes pass, and knows their length and hash in the end. */
export function createMarker() {
  const hash = createHash('sha256');
  let bytes = 0;
  return {
    async *pass(from: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
      for await (const piece of from) {
        hash.update(piece);
        bytes += piece.byteLength;
        yield piece;
      }
    },
    mark: (): FileMark => ({ sha256: hash.digest('hex'), bytes }),
  };
}

/** Documents of a collection's file, one after the other. @throws {ArchiveError} when it ends within one. */
export async function* readDocuments(file: string): AsyncGenerator<Uint8Array> {
  let held: Buffer = Buffer.alloc(0);
  for await (const piece of unpack(file)) {
    held = held.byteLength === 0 ? piece : Buffer.concat([held, piece]);
    for (let length = lengthOf(held, file); length <= held.byteLength; length = lengthOf(held, file)) {
      yield held.subarray(0, length);
      held = held.subarray(length);
    }
  }
  if (held.byteLength > 0) throw new ArchiveError(`${file} ends within a document`);
}

/** Length of the document that some bytes begin with; infinite as long as they do not tell. */
function lengthOf(bytes: Buffer, file: string): number {
  if (bytes.byteLength < lengthBytes) return Number.POSITIVE_INFINITY;
  const length = bytes.readInt32LE(0);
  if (length > lengthBytes && length <= maxDocumentBytes) return length;
  throw new ArchiveError(`${file} holds something that is no document`);
}

/** Lines of the list of media. */
export async function* readMediaList(folder: string): AsyncGenerator<MediaLine> {
  const input = unpack(join(folder, mediaListFile));
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    const { data } = MediaLine.safeParse(safeJson(line));
    if (!data) throw new ArchiveError(`${mediaListFile} has a line that cannot be read`);
    yield data;
  }
}

/** Its reader learns of whatever is wrong with the file. */
function unpack(file: string) {
  return connect(createReadStream(file), createGunzip(), () => undefined);
}

function safeJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // What is no JSON is of no known form.
    return undefined;
  }
}
