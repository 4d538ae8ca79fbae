/**
 * Where the programs are that run beside the service: mongod, nats-server and ffmpeg.
 *
 * A path in the environment counts first. Then what the set-up found in PATH or fetched, as its manifest in the
 * binary cache says (deploy/binaries.mjs). Without a manifest, as in an image that was built with the programs in
 * it, PATH. Nothing is fetched here.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';

export type BinaryName = 'mongod' | 'natsServer' | 'ffmpeg';

/** A program and what must be added to its environment, e.g. where mongod finds libcurl. */
export type Binary = { path: string; env: Record<string, string> };

type Environment = Record<string, string | undefined>;

const versionTimeoutMs = 10_000;
const maxFolders = 8;

const programs = {
  mongod: {
    command: 'mongod',
    variable: 'MONGOD_PATH',
    otherwise: ', or set MONGODB_URL',
    args: ['--version'],
    version: /db version v(\d+)\.(\d+)/,
    minimum: [6, 0],
  },
  natsServer: {
    command: 'nats-server',
    variable: 'NATS_SERVER_PATH',
    otherwise: ', or set NATS_URL',
    args: ['--version'],
    version: /v(\d+)\.(\d+)/,
    minimum: [2, 12],
  },
  ffmpeg: {
    command: 'ffmpeg',
    variable: 'FFMPEG_PATH',
    otherwise: '',
    args: ['-version'],
    version: /^ffmpeg version (?:n?(\d+)\.(\d+)|N-)/,
    minimum: [5, 0],
  },
} as const;

const Manifest = z.partialRecord(
  z.enum(['mongod', 'natsServer', 'ffmpeg']),
  z.object({ path: z.string(), env: z.record(z.string(), z.string()).default({}) }),
);

/** Finds a program. @throws {Error} when there is none, or none that is recent enough, with what to do about it. */
export async function findBinary(name: BinaryName, environment: Environment = process.env): Promise<Binary> {
  const { command, variable, otherwise } = programs[name];
  const named = environment[variable];
  if (named) {
    if (isExecutable(named)) return { path: resolve(named), env: {} };
    throw new Error(`${variable} names ${named}, which cannot be run`);
  }
  const known = readManifest(environment)[name];
  if (known !== undefined && isExecutable(known.path)) return known;
  const path = findInPath(command, environment);
  if (path !== undefined && (await isRecent(name, path))) return { path, env: {} };
  throw new Error(
    `${command} was not found: run \`npm start\`, which fetches it, or name it by ${variable}${otherwise}`,
  );
}

function readManifest(environment: Environment): z.infer<typeof Manifest> {
  const file = join(binaryCache(environment), 'manifest.json');
  if (!existsSync(file)) return {};
  const parsed = Manifest.safeParse(JSON.parse(readFileSync(file, 'utf8')));
  if (parsed.success) return parsed.data;
  throw new Error(`${file} is damaged: remove it and run \`npm start\``, { cause: parsed.error });
}

function binaryCache({ BINARY_CACHE }: Environment): string {
  const root = repositoryFolder();
  return BINARY_CACHE ? resolve(root, BINARY_CACHE) : join(root, '.cache', 'bin');
}

/** The folder of package.json above this file, which lies at another depth in the build than in the sources. */
function repositoryFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  for (let depth = 0; depth < maxFolders && !existsSync(join(folder, 'package.json')); depth++) {
    folder = dirname(folder);
  }
  return folder;
}

/** The first executable file of that name in PATH. */
export function findInPath(command: string, environment: Environment = process.env): string | undefined {
  const folders = (environment['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, command)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

async function isRecent(name: BinaryName, path: string): Promise<boolean> {
  const { args, version, minimum } = programs[name];
  try {
    const { stdout } = await promisify(execFile)(path, args, { timeout: versionTimeoutMs });
    const match = version.exec(stdout);
    if (match === null) return false;
    // ffmpeg built from source names a commit instead of a version.
    if (match[1] === undefined) return true;
    const [major, minor] = [Number(match[1]), Number(match[2])];
    return major > minimum[0] || (major === minimum[0] && minor >= minimum[1]);
  } catch {
    // It cannot be run at all: as good as absent.
    return false;
  }
}
