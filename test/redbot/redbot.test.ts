/**
 * `npm run redbot`: REDbot, the linter of HTTP answers by an editor of the HTTP specifications, asks the real service
 * for one answer of each kind and sends further requests of its own. It may find nothing that is bad.
 *
 * Skipped, and says so, where Python or its packages are not to be had.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { PrepareResponse } from '../../schemas/asset.ts';
import { signUrl } from '../../src/auth/signed-url.ts';
import { cacheFolder } from '../fixtures/servers.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';

const here = new URL('.', import.meta.url).pathname;
const requirements = join(here, 'requirements.txt');
const [, version = ''] = /^redbot==(.+)$/m.exec(readFileSync(requirements, 'utf8')) ?? [];
const venv = join(cacheFolder, `redbot-${version}`);
const python = join(venv, 'bin', 'python');

type Asked = { url: string; headers: Record<string, string> };
type Judgement = {
  status: number;
  isComplete: boolean;
  /** What its own requests found; null where they say nothing. */
  ranges: boolean | null;
  tags: boolean | null;
  dates: boolean | null;
  notes: { level: string; summary: string }[];
};

t.test('REDbot finds nothing bad', { skip: whyNoRedbot() ?? false, timeout: 200_000 }, async (t) => {
  const photo = readFileSync('src/demo/photo.jpg');
  const sources = await serveSources(t, (asked, answer) => {
    // The one that hangs keeps its asset pending.
    if (asked.url === '/photo.jpg') answer.setHeader('Content-Type', 'image/jpeg').end(photo);
    else if (asked.url === '/missing.png') answer.writeHead(404).end();
  });
  const { base, signUp } = await startTestService(t);
  const user = await signUp();
  const origin = 'https://page.example';
  type Saved = { project: { proxy_key: string; signing_secret: string } };
  const { body: saved } = await user.call<Saved>('PUT', `/api/projects/${user.projectId}/proxy-config`, {
    allowed_origins: [origin],
    enable_signing: true,
    default_dur_seconds: 2,
    default_mode: 'animate-in',
  });
  const { proxy_key: key, signing_secret: secret } = saved.project;
  const signed = (source: string) => base + signUrl({ key, secret, source }, Date.now() + 600_000);
  const prepare = async (file: string) => {
    const asked = { project_id: user.projectId, src: `${sources}/${file}` };
    return (await user.call<PrepareResponse>('POST', '/api/v1/prepare', asked)).body.asset_id;
  };
  const [ready, failed] = await Promise.all(
    ['photo.jpg', 'missing.png'].map(async (file) => user.untilEnd(await prepare(file))),
  );
  t.match([ready?.status, failed?.status], ['ready', 'failed'], 'the world is as it should be');
  const byId = (id: string | undefined, extension = 'mp4') => `${base}/v1/${key}/a/${id}.${extension}`;
  const animation = byId(ready?.asset_id);
  const { headers } = await fetch(animation, { headers: { origin } });
  const etag = headers.get('etag') ?? '';

  // Its source is waited for some seconds only: it is begun last and asked for first.
  await prepare('hangs.png');
  const cases: Record<string, Asked & { status: number }> = {
    'one that is being made': { status: 202, url: signed(`${sources}/hangs.png`), headers: {} },
    'an animation': { status: 200, url: animation, headers: { origin } },
    'a signed animation': { status: 200, url: signed(`${sources}/photo.jpg`), headers: {} },
    'a poster': { status: 200, url: byId(ready?.asset_id, 'jpg'), headers: { origin } },
    'part of one': { status: 206, url: animation, headers: { origin, range: 'bytes=10-99' } },
    'one that is known': { status: 304, url: animation, headers: { origin, 'if-none-match': etag } },
    'beyond its end': { status: 416, url: animation, headers: { origin, range: 'bytes=99999999-' } },
    'one that failed': { status: 502, url: byId(failed?.asset_id), headers: { origin } },
    'an origin that is not allowed': {
      status: 403,
      url: animation,
      headers: { origin: 'https://evil.example' },
    },
    'no origin': { status: 403, url: animation, headers: {} },
    'an unknown key': { status: 403, url: animation.replace(key, 'pk_unknown'), headers: { origin } },
    'a malformed URL': { status: 400, url: `${base}/v1/${key}/x.mp4`, headers: { origin } },
    'none of the project': { status: 404, url: byId('ast_none'), headers: { origin } },
    'finished media': { status: 200, url: ready?.mp4_url ?? '', headers: {} },
    'the script of the element': { status: 200, url: `${base}/embed.js`, headers: {} },
    'the document': { status: 200, url: `${base}/openapi.json`, headers: {} },
    'a page': { status: 200, url: `${base}/docs`, headers: {} },
    'an answer in JSON': { status: 401, url: `${base}/api/user/me`, headers: {} },
  };
  const judgements = await judge(Object.values(cases));
  for (const [n, [name, { status }]] of Object.entries(cases).entries()) {
    const { notes, ...found } = judgements[n] as Judgement;
    const at = (level: string) => notes.filter((note) => note.level === level).map(({ summary }) => summary);
    t.match(found, { status, isComplete: true }, name);
    t.strictSame(at('bad'), [], `${status} ${name}`);
    for (const note of at('warning')) t.comment(`${status} ${name}: ${note}`);
    if (name === 'an animation')
      t.match(found, { ranges: true, tags: true, dates: true }, 'by its own requests');
  }
});

const judgeMs = 60_000;

async function judge(asked: Asked[]): Promise<Judgement[]> {
  const child = spawn(python, [join(here, 'judge.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: judgeMs,
  });
  child.stdin.end(JSON.stringify(asked));
  const [chunks] = await Promise.all([child.stdout.toArray(), once(child, 'exit')]);
  return JSON.parse(Buffer.concat(chunks).toString());
}

/** Installs the pinned packages beside the project. Answers why it cannot. */
function whyNoRedbot(): string | undefined {
  if (existsSync(join(venv, 'bin', 'redbot'))) return undefined;
  const run = (command: string, ...args: string[]) => {
    const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8' });
    const why = error?.message ?? stderr?.trim().split('\n').at(-1);
    return status === 0 ? undefined : `${command} ${args.join(' ')}: ${why}`;
  };
  return run('python3', '-m', 'venv', venv) ?? run(python, '-m', 'pip', 'install', '-q', '-r', requirements);
}
