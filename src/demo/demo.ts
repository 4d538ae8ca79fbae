/**
 * `npm run demo -- [photo]`: a photo goes in, an animation comes out, and a page plays it through the proxy.
 *
 * Starts the service on a folder of its own, or uses the one at BASE_URL. Signs up a new account each time.
 *   --mode loop|animate-in|animate-on-hover  --motion subtle|medium|kinetic  --seconds 2…8
 *   --out <folder>   where mp4, poster and the page's address go (default: demo-output below the temp folder)
 *   --once           ends when the files are there, without serving the page
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, extname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Asset, PrepareResponse, UploadResponse } from '../../schemas/asset.ts';
import type { AssetEvent } from '../../schemas/events.ts';
import { freePort } from './free-port.ts';
import { createProgress, drawProgress } from './progress.ts';

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    mode: { type: 'string', default: 'loop' },
    motion: { type: 'string', default: 'medium' },
    seconds: { type: 'string', default: '4' },
    out: { type: 'string', default: join(tmpdir(), 'demo-output') },
    once: { type: 'boolean', default: false },
  },
});

const readyWithinMs = 60_000;
const types: Record<string, string> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.webp': 'image/webp',
};

type Client = { base: string; cookie: string };

async function main(): Promise<void> {
  const photo = positionals[0] ? resolve(positionals[0]) : here('photo.jpg');
  const service = await startOrFind();
  try {
    const page = createServer();
    page.listen(0, '127.0.0.1');
    await once(page, 'listening');
    const origin = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;

    const client = await signUp(service.base);
    const { projectId, key } = await openProxy(client, origin);
    const { url } = await upload(client, photo);
    console.log(`Uploaded ${basename(photo)}`);
    const { asset_id } = await call<PrepareResponse>(client, 'POST', '/api/v1/prepare', {
      project_id: projectId,
      src: url,
      mode: values.mode,
      motion: values.motion,
      dur_seconds: Number(values.seconds),
    });
    const end = await watch(client, asset_id);
    if (end.event !== 'ready')
      throw new Error(`the run ended with ${end.event}: ${end.error_code} ${end.error_msg}`);

    const { asset } = await call<{ asset: Asset }>(client, 'GET', `/api/assets/${asset_id}`);
    const files = await download(asset, photo);
    const embed = `${service.base}/v1/${key}/a/${asset_id}`;
    page.on('request', await servePage(asset, embed, photo));
    console.log(`\n  mp4     ${files.mp4}\n  poster  ${files.poster}\n  page    ${origin}/\n`);
    await writeFile(join(resolve(values.out), 'page-url.txt'), `${origin}/\n`);
    if (!values.once) {
      console.log('The page plays it through the proxy. Ctrl-C ends the demo.');
      await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
    }
    page.close();
    page.closeAllConnections();
  } finally {
    await service.stop();
  }
}

type Running = { base: string; stop(): Promise<void> };

/** The service at BASE_URL, else one of our own that ends with the demo. */
async function startOrFind(): Promise<Running> {
  const given = process.env.BASE_URL;
  if (given) return { base: given.replace(/\/$/, ''), stop: async () => undefined };
  const port = await freePort();
  const base = `http://127.0.0.1:${port}`;
  console.log('Starting the service …');
  const env = {
    ...process.env,
    PORT: String(port),
    BASE_URL: base,
    DATA_DIR: process.env.DATA_DIR ?? join(tmpdir(), 'demo-data'),
    LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn',
  };
  const child = spawn(process.execPath, [here('../main.js')], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
    detached: true,
  });
  await untilReady(base, child);
  return {
    base,
    async stop() {
      if (child.exitCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

async function untilReady(base: string, child: ChildProcess): Promise<void> {
  const givenUpAt = performance.now() + readyWithinMs;
  while (performance.now() < givenUpAt) {
    if (child.exitCode !== null) throw new Error('the service did not start: see above');
    const answer = await fetch(`${base}/readyz`).catch(() => undefined);
    if (answer?.ok) return;
    await sleep(100);
  }
  throw new Error('the service did not become ready in a minute');
}

async function signUp(base: string): Promise<Client> {
  const email = `demo-${randomBytes(6).toString('hex')}@example.com`;
  const answer = await fetch(`${base}/api/user/signup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: randomBytes(12).toString('hex'), name: 'Demo' }),
  });
  if (!answer.ok) throw new Error(`sign-up: ${answer.status} ${await answer.text()}`);
  console.log(`Signed up ${email}`);
  return { base, cookie: answer.headers.getSetCookie()[0]?.split(';')[0] ?? '' };
}

/** Lets the demo's page embed: its origin is put on the project's allowlist, which makes the project key. */
async function openProxy(client: Client, origin: string): Promise<{ projectId: string; key: string }> {
  const { projects } = await call<{ projects: { id: string }[] }>(client, 'GET', '/api/projects');
  const projectId = projects[0]?.id ?? '';
  const { project } = await call<{ project: { proxy_key: string } }>(
    client,
    'PUT',
    `/api/projects/${projectId}/proxy-config`,
    {
      allowed_origins: [origin],
    },
  );
  return { projectId, key: project.proxy_key };
}

async function upload({ base, cookie }: Client, photo: string): Promise<UploadResponse> {
  const type = types[extname(photo).toLowerCase()] ?? 'application/octet-stream';
  const form = new FormData();
  form.append('file', new Blob([await readFile(photo)], { type }), basename(photo));
  const answer = await fetch(`${base}/api/v1/upload`, { method: 'POST', headers: { cookie }, body: form });
  if (!answer.ok) throw new Error(`upload: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as UploadResponse;
}

/** Follows the asset's stream to the end of its run and draws a live line of it. */
async function watch({ base, cookie }: Client, assetId: string): Promise<AssetEvent> {
  const progress = createProgress();
  let frame = 0;
  const draw = () => {
    frame += 1;
    if (process.stdout.isTTY)
      process.stdout.write(`\r\x1b[2K${drawProgress(progress.getSnapshot().context.stages, frame)}`);
  };
  const drawing = setInterval(draw, 80);
  try {
    const answer = await fetch(`${base}/api/assets/${assetId}/events`, { headers: { cookie } });
    let text = '';
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk).toString();
      const frames = text.split('\n\n');
      text = frames.pop() ?? '';
      for (const one of frames) {
        const data = /^data: (.*)$/m.exec(one)?.[1];
        if (data) progress.trigger.event({ event: JSON.parse(data) as AssetEvent });
      }
      const { ended } = progress.getSnapshot().context;
      if (ended) return ended;
    }
    throw new Error('the stream of events ended early');
  } finally {
    clearInterval(drawing);
    const line = drawProgress(progress.getSnapshot().context.stages, frame);
    process.stdout.write(`${process.stdout.isTTY ? '\r\x1b[2K' : ''}${line}\n`);
  }
}

async function download(
  { mp4_url, poster_url }: Asset,
  photo: string,
): Promise<{ mp4: string; poster: string }> {
  const out = resolve(values.out);
  await mkdir(out, { recursive: true });
  const name = basename(photo, extname(photo));
  const save = async (url: string | null, file: string): Promise<string> => {
    const answer = await fetch(url ?? '');
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    await writeFile(file, Buffer.from(await answer.arrayBuffer()));
    return file;
  };
  return {
    mp4: await save(mp4_url, join(out, `${name}.mp4`)),
    poster: await save(poster_url, join(out, `${name}.jpg`)),
  };
}

async function servePage({ dur_seconds, mode, bytes, width, height }: Asset, embed: string, photo: string) {
  const snippet = `<video src="${embed}.mp4"\n       poster="${embed}.jpg"\n       autoplay muted loop playsinline></video>`;
  const filled: Record<string, string> = {
    mp4: `${embed}.mp4`,
    poster: `${embed}.jpg`,
    width: String(width),
    height: String(height),
    facts: `${mode}, ${dur_seconds} s, ${Math.round((bytes ?? 0) / 1_000)} KB`,
    snippet: snippet.replaceAll('&', '&amp;').replaceAll('<', '&lt;'),
  };
  const template = await readFile(here('page.html'), 'utf8');
  const html = template.replace(/\{\{(\w+)\}\}/g, (_, name: string) => filled[name] ?? '');
  const bytesOfPhoto = await readFile(photo);
  return (request: { url?: string }, response: import('node:http').ServerResponse) => {
    if (request.url === '/photo') {
      response
        .setHeader('content-type', types[extname(photo).toLowerCase()] ?? 'application/octet-stream')
        .end(bytesOfPhoto);
    } else if (request.url === '/') {
      response.setHeader('content-type', 'text/html; charset=utf-8').end(html);
    } else {
      response.writeHead(404).end();
    }
  };
}

async function call<Answer>(
  { base, cookie }: Client,
  method: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const answer = await fetch(`${base}${path}`, {
    method,
    headers: { cookie, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer;
}

main().catch((cause: unknown) => {
  console.error(cause instanceof Error ? cause.message : cause);
  process.exitCode = 1;
});
