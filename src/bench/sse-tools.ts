/** The two programs in C beside the benchmark of streams: compiled when it runs, and spoken to line by line. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';

const run = promisify(execFile);

/** Compiles a program that lies beside this file. @throws saying what is missing when there is no compiler. */
export async function compile(name: 'sse-floor' | 'sse-client', folder: string): Promise<string> {
  const program = join(folder, name);
  const source = fileURLToPath(new URL(`./${name}.c`, import.meta.url));
  await run('gcc', ['-O2', '-o', program, source]).catch((cause: unknown) => {
    throw new Error('gcc is needed to compile the clients of this benchmark: apt-get install gcc libc6-dev', {
      cause,
    });
  });
  return program;
}

/** What clients have seen since the last reset. `least`, `most`: events of one stream. Times in ms. */
const Seen = z.object({
  open: z.int(),
  stuck: z.int(),
  opened: z.int(),
  /** Opened with a Last-Event-ID. */
  backs: z.int(),
  refused: z.int(),
  /** Ended in order, and cut. */
  ends: z.int(),
  cuts: z.int(),
  events: z.int(),
  bytes: z.int(),
  /** Events whose id was not above that of the one before. */
  repeats: z.int(),
  least: z.int(),
  most: z.int(),
  late: z.object({ p50: z.int(), p99: z.int(), max: z.int() }),
  whole: z.object({ count: z.int(), p50: z.int(), p99: z.int() }),
  endsIn: z.array(z.int()),
});
export type Seen = z.infer<typeof Seen>;

/** A program that answers each line by one line of JSON. */
function talkTo(program: string, args: string[]) {
  const child: ChildProcess = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const waiting: ((line: string) => void)[] = [];
  const early: string[] = [];
  let fail: (cause: Error) => void = () => undefined;
  const broken = new Promise<never>((_, reject) => {
    fail = reject;
  });
  broken.catch(() => undefined);
  child.on('exit', (code, signal) => fail(new Error(`${program} has ended (${code ?? signal})`)));
  if (child.stdout === null) throw new Error('no output');
  createInterface(child.stdout).on('line', (line) => {
    const next = waiting.shift();
    if (next) next(line);
    else early.push(line);
  });
  const hear = (): Promise<unknown> => {
    const line = early.shift();
    if (line !== undefined) return Promise.resolve(JSON.parse(line));
    const heard = new Promise<string>((resolve) => waiting.push(resolve));
    return Promise.race([heard, broken]).then((text) => JSON.parse(text));
  };
  return {
    hear,
    ask(line: string): Promise<unknown> {
      child.stdin?.write(`${line}\n`);
      return hear();
    },
    async stop(): Promise<void> {
      if (child.exitCode !== null) return;
      child.stdin?.end();
      await once(child, 'exit');
    },
  };
}

/** What a client asks for: a path, and headers as they are sent. */
export type Target = { path: string; headers?: Record<string, string> };

export type Clients = Awaited<ReturnType<typeof startClients>>;

let files = 0;

/** Clients of one port. @param targets streams to ask for, one after the other and then anew. */
export async function startClients(program: string, folder: string, port: number, targets: Target[]) {
  const fileOf = async (some: Target[]): Promise<string> => {
    files += 1;
    const file = join(folder, `targets-${files}`);
    const lines = some.map(({ path, headers = {} }) =>
      [path, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)].join('\t'),
    );
    await writeFile(file, lines.join('\n'));
    return file;
  };
  const { ask, stop } = talkTo(program, [String(port), await fileOf(targets)]);
  return {
    /** Opens more streams, and waits until each is open or refused. */
    open: (count: number, kind: 'stuck' | '' = '') => ask(`open ${count} ${kind}`),
    aim: async (some: Target[]) => ask(`file ${await fileOf(some)}`),
    reopen: (isOn: boolean) => ask(`reopen ${isOn ? 1 : 0}`),
    goal: (events: number) => ask(`goal ${events}`),
    reset: () => ask('reset'),
    /** Cuts every connection. */
    close: () => ask('close'),
    /** Opens and cuts. */
    churn: (count: number) => ask(`churn ${count}`),
    seen: async (): Promise<Seen> => Seen.parse(await ask('stats')),
    stop,
  };
}

/** The C program that only sends. */
export async function startFloor(program: string) {
  const { hear, ask, stop } = talkTo(program, []);
  const { port } = z.object({ port: z.int() }).parse(await hear());
  return {
    port,
    accept: (count: number) => ask(`accept ${count}`),
    /** Sends chunks of some bytes to all; answers its CPU in µs. */
    async send(chunks: number, bytes: number, periodMs: number): Promise<number> {
      const Sent = z.object({ cpuUs: z.int(), failed: z.literal(0) });
      return Sent.parse(await ask(`send ${chunks} ${bytes} ${periodMs * 1_000}`)).cpuUs;
    },
    stop,
  };
}
