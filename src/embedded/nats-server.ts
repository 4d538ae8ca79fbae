/**
 * nats-server with JetStream as a child on loopback. It picks free ports by itself and writes them to a file, so
 * nobody can take them in between; clients get the address from us at each start.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Launch, untilReady } from './child.ts';
import type { Binary } from './find.ts';

const Ports = z.object({
  nats: z.tuple([z.string()], z.string()),
  monitoring: z.tuple([z.string()], z.string()),
});

export type NatsServerOptions = {
  binary: Binary;
  /** Its folder, made when absent: configuration, ports and JetStream's files. */
  folder: string;
  logFile: string;
  maxLogBytes: number;
  launch: Launch;
};

/** Starts nats-server and waits until it accepts clients. Answers the URLs of its client and monitoring ports. */
export async function startNatsServer(options: NatsServerOptions, signal: AbortSignal) {
  const { binary, folder, launch } = options;
  await mkdir(folder, { recursive: true });
  // Left behind by a killed server; the process id in the name may come again.
  for (const file of readdirSync(folder).filter((file) => file.endsWith('.ports')))
    rmSync(join(folder, file));
  const config = join(folder, 'nats-server.conf');
  await writeFile(config, configText(options));
  const child = await launch('nats-server', binary, ['-c', config]);
  const ports = await untilReady(child, async () => readPorts(folder), signal);
  return { child, url: ports.nats[0], monitorUrl: ports.monitoring[0] };
}

/** Its limits on disk are there for the sum of what streams reserve; each stream has its own bound (src/bus). */
function configText({ folder, logFile, maxLogBytes }: NatsServerOptions): string {
  return `server_name: embedded
listen: "127.0.0.1:-1"
http: "127.0.0.1:-1"
ports_file_dir: ${JSON.stringify(folder)}
max_payload: 1MB
jetstream {
  store_dir: ${JSON.stringify(folder)}
  sync_interval: always
  max_file_store: 256GB
  max_memory_store: 256MB
}
log_file: ${JSON.stringify(logFile)}
logfile_size_limit: ${maxLogBytes}
logfile_max_num: 2
`;
}

/** Undefined while the file is absent or half written. */
function readPorts(folder: string): z.infer<typeof Ports> | undefined {
  const file = readdirSync(folder).find((file) => file.endsWith('.ports'));
  if (file === undefined || !existsSync(join(folder, file))) return undefined;
  return Ports.parse(JSON.parse(readFileSync(join(folder, file), 'utf8')));
}

/** Address of the nats-server that runs on a folder, for tools beside the service. Undefined when none does. */
export function keptNatsUrl(folder: string): string | undefined {
  return existsSync(folder) ? readPorts(folder)?.nats[0] : undefined;
}
