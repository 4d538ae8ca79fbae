/** Doctor: this machine (Node, ffmpeg, files, disk) and the storage of media. */
import { execFile } from 'node:child_process';
import { readFile, stat, statfs } from 'node:fs/promises';
import { promisify } from 'node:util';
import type { Storage } from '../media/storage.ts';
import { type Check, type Finding, ok, skipped, trouble, warning } from './doctor.ts';

export type MachineSettings = {
  roles: readonly string[];
  dataDir: string;
  /** undefined with an object store. */
  storageFolder: string | undefined;
  /** Answers its path. @throws with what to do, when there is none. */
  findFfmpeg(): Promise<string>;
  /** Opens the storage as the service does. @throws with what is missing. */
  openStorage(): Promise<{ storage: Storage; close(): Promise<void> }>;
};

const node20Abi = '115';
const run = promisify(execFile);
const runMs = 10_000;
const maxOutput = 4 * 1024 * 1024;
const minFfmpeg = 5;
/** What the local engine asks ffmpeg for. */
const neededFilters = [
  'concat',
  'crop',
  'format',
  'fps',
  'scale',
  'setpts',
  'setsar',
  'split',
  'tpad',
  'trim',
  'xfade',
];
const gigabyte = 1024 ** 3;
const littleBytes = 5 * gigabyte;
const noBytes = 1 * gigabyte;
const littleShare = 0.1;
/** A front end holds two for each viewer and stream. */
const fewFiles = 16_384;
const noFiles = 1_024;

export function machineChecks(settings: MachineSettings): Check[] {
  return [
    {
      name: 'Node',
      cure: 'install Node 20',
      look: async () => [judgeNode(process.version, process.versions.modules)],
    },
    {
      name: 'ffmpeg',
      cure: 'apt-get install ffmpeg, or name one by FFMPEG_PATH',
      async look(signal) {
        if (!settings.roles.includes('worker'))
          return [skipped('this process renders nothing: ROLE has no worker')];
        return judgeFfmpeg(await readFfmpeg(await settings.findFfmpeg(), signal));
      },
    },
    {
      name: 'open files',
      cure: 'ulimit -n 1048576, or LimitNOFILE=1048576 in the systemd unit',
      look: async () => [judgeOpenFiles(await readFile('/proc/self/limits', 'utf8').catch(() => ''))],
    },
    {
      name: 'disk',
      cure: 'DATA_DIR must be a folder that this user may write in',
      async look() {
        const folders = [settings.dataDir, settings.storageFolder].filter((one) => one !== undefined);
        return Promise.all([...new Set(folders)].map(judgeDisk));
      },
    },
    {
      name: 'media storage',
      cure: 'see STORAGE_URL in npm start -- --help: it must list, read, create and delete, and honour If-None-Match',
      async look(signal) {
        const { storage, close } = await settings.openStorage();
        try {
          return [await tryStorage(storage, signal)];
        } finally {
          await close();
        }
      },
    },
  ];
}

function judgeNode(version: string, abi: string): Finding {
  if (abi === node20Abi) return ok(version);
  return trouble(
    `${version} runs, and the native packages are for Node 20`,
    'install Node 20.19 or later of 20',
  );
}

type Ffmpeg = { banner: string; filters: string; encoders: string };

async function readFfmpeg(path: string, signal: AbortSignal): Promise<Ffmpeg> {
  const ask = async (what: string) => {
    const options = { timeout: runMs, maxBuffer: maxOutput, signal };
    return (await run(path, ['-hide_banner', what], options)).stdout;
  };
  const [banner, filters, encoders] = await Promise.all([ask('-version'), ask('-filters'), ask('-encoders')]);
  return { banner, filters, encoders };
}

export function judgeFfmpeg({ banner, filters, encoders }: Ffmpeg): Finding[] {
  const [, name = 'unknown', major] = /^ffmpeg version (?:n?((\d+)\.\S*)|\S+)/.exec(banner) ?? [];
  const missing = neededFilters.filter((one) => !new RegExp(`^\\s*\\S+\\s+${one}\\s`, 'm').test(filters));
  const findings: Finding[] = [];
  if (major !== undefined && Number(major) < minFfmpeg)
    findings.push(trouble(`version ${name} is too old`, `${minFfmpeg} or later is needed`));
  if (!/\slibx264\s/.test(encoders))
    findings.push(
      trouble('it cannot encode H.264: libx264 is missing', 'install a build with libx264, as Debian’s is'),
    );
  if (missing.length > 0)
    findings.push(
      trouble(`filters are missing: ${missing.join(', ')}`, 'install a complete build, as Debian’s is'),
    );
  return findings.length > 0 ? findings : [ok(`version ${name} with libx264 and every filter`)];
}

/** @param limits as /proc/self/limits has them */
export function judgeOpenFiles(limits: string): Finding {
  const [, text] = /^Max open files\s+(\S+)/m.exec(limits) ?? [];
  if (text === undefined) return skipped('this system does not tell how many there may be');
  const count = text === 'unlimited' ? Number.POSITIVE_INFINITY : Number(text);
  const cure = 'LimitNOFILE=1048576 in the systemd unit, or ulimit -n before the start';
  if (count <= noFiles) return trouble(`at most ${text}: a few hundred viewers use them up`, cure);
  if (count < fewFiles) return warning(`at most ${text}: each viewer and stream takes one or two`, cure);
  return ok(`at most ${text}`);
}

async function judgeDisk(folder: string): Promise<Finding> {
  if (!(await stat(folder).catch(() => undefined)))
    return warning(`${folder} is not there yet`, 'the first start makes it');
  const { bavail, blocks, bsize } = await statfs(folder);
  return judgeSpace(folder, bavail * bsize, blocks * bsize);
}

export function judgeSpace(folder: string, freeBytes: number, allBytes: number): Finding {
  const said = `${folder} has ${(freeBytes / gigabyte).toFixed(1)} GB free of ${(allBytes / gigabyte).toFixed(1)}`;
  const cure = 'make room: npm run admin -- storage gc shows what nothing refers to any more';
  if (freeBytes < noBytes) return trouble(said, cure);
  if (freeBytes < littleBytes || freeBytes < allBytes * littleShare) return warning(said, cure);
  return ok(said);
}

/** Creates an object twice, reads it and deletes it: of two creators one must win. */
async function tryStorage(storage: Storage, signal: AbortSignal): Promise<Finding> {
  const key = `probe-${process.pid.toString(16)}${Date.now().toString(16)}`;
  const bytes = Buffer.from(key);
  const options = { contentType: 'application/octet-stream', ifAbsent: true, signal };
  try {
    const first = await storage.put(key, bytes, options);
    const second = await storage.put(key, bytes, options);
    const kept = await storage.read(key, signal, bytes.byteLength);
    if (!first.created || second.created)
      return trouble('of two who create an object both win', 'the store must honour If-None-Match: *');
    if (!kept || !bytes.equals(kept)) return trouble('what was stored is not read back', 'use another store');
    return ok('writes, reads, deletes, and lets one of two creators win');
  } finally {
    await storage.delete(key);
  }
}
