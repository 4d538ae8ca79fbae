/**
 * nginx as the peer of the proxy: one worker, the same access check (a map over Origin and Referer, or
 * secure_link), the same headers, sendfile. Its configuration is written for the run.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf } from './cpu.ts';

export type Nginx = { port: number; pid: number; stop(): void };

/** @throws naming the package that is missing. */
export function checkInstalled(program: string, debianPackage: string): void {
  if (spawnSync('which', [program]).status === 0) return;
  throw new Error(`${program} is missing: apt-get install ${debianPackage}`);
}

/**
 * Serves `root` below /open (by origin) and /signed (by secure_link with `secret`); `pid` is the worker's.
 *
 * @throws when it does not answer within some seconds.
 */
export async function startNginx(folder: string, root: string, port: number, secret: string): Promise<Nginx> {
  checkInstalled('nginx', 'nginx-light');
  const file = join(folder, 'nginx.conf');
  await writeFile(file, configuration(folder, root, port, secret));
  const child = spawn('nginx', ['-c', file, '-e', join(folder, 'error.log')], { stdio: 'inherit' });
  await untilListening(port, child);
  const [pid] = childrenOf(child.pid ?? 0);
  if (pid === undefined) throw new Error('nginx has no worker');
  return { port, pid, stop: () => void child.kill() };
}

function configuration(folder: string, root: string, port: number, secret: string): string {
  const temps = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ');
  return `
daemon off; master_process on; worker_processes 1; pid ${folder}/nginx.pid; user root;
events { worker_connections 8192; }
http {
  ${temps}
  access_log ${folder}/access.log combined buffer=16k flush=1s;
  sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 100000000; etag on;
  open_file_cache max=1000; open_file_cache_valid 60s;
  types { video/mp4 mp4; image/jpeg jpg; }
  map $http_origin $page { "" $http_referer; default $http_origin; }
  map $page $is_allowed { default 0; "~^https://([a-z0-9-]+\\.)*example\\.com(/|$)" 1; }
  server {
    listen 127.0.0.1:${port};
    root ${root};
    add_header X-Request-Id $request_id always;
    add_header Access-Control-Allow-Origin $http_origin always;
    add_header Access-Control-Expose-Headers "ETag, Content-Length, Content-Range, Accept-Ranges, Retry-After, X-Service-Eta-Ms, X-Request-Id, X-Service-Asset-Status" always;
    add_header Cross-Origin-Resource-Policy cross-origin always;
    add_header Timing-Allow-Origin * always;
    add_header Vary Origin always;
    add_header X-Content-Type-Options nosniff always;
    add_header Cache-Control "private, max-age=60, stale-while-revalidate=600";
    location /open/ { if ($is_allowed = 0) { return 403; } }
    location /signed/ {
      secure_link $arg_sig,$arg_exp;
      secure_link_md5 "$secure_link_expires$uri ${secret}";
      if ($secure_link = "") { return 403; }
      if ($secure_link = "0") { return 403; }
    }
  }
}
`;
}

const startMs = 10_000;

async function untilListening(port: number, child: ChildProcess): Promise<void> {
  const end = Date.now() + startMs;
  while (!(await answers(port))) {
    if (Date.now() > end || child.exitCode !== null) throw new Error('nginx does not start');
    await sleep(50);
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(socket.destroy() !== undefined));
    socket.on('error', () => resolve(false));
  });
}
