/**
 * Code that puts an animation into a page, made for what was chosen. Pure, so that tests execute each of them:
 * test/dashboard/journeys/embed.ts.
 */
import type { Aspect, Mode, Motion } from '../../../schemas/asset.ts';

export type Chosen = {
  baseUrl: string;
  key: string;
  /** An asset that exists, or any image by its address. */
  source: { kind: 'asset'; id: string } | { kind: 'image'; url: string };
  /** Of an image: those that differ from the project's defaults. The options of an asset are its own. */
  options: { motion?: Motion; dur?: number; mode?: Mode; seed?: number; aspect?: Aspect };
  /** What the animation is played as. */
  mode: Mode;
  alt: string;
  fit: 'cover' | 'contain';
  /** Width to height, e.g. `3 / 2`. */
  ratio: string;
};

export type SnippetName = 'element' | 'html' | 'react' | 'node' | 'python';

export const snippets: Record<SnippetName, { label: string; note: string; write(chosen: Chosen): string }> = {
  element: {
    label: 'Web component',
    note: 'Shows the poster at once and plays as soon as the animation is ready. The best choice for most pages.',
    write: (chosen) => `<script src="${chosen.baseUrl}/embed.js" async></script>
<animated-asset${lines(attributes(chosen), '  ')}
  style="display: block; aspect-ratio: ${chosen.ratio}"></animated-asset>`,
  },
  html: {
    label: 'HTML',
    note: 'A plain video without a script. A browser takes “not ready yet” for a broken file: use it for what is made.',
    write: (chosen) => `<video${lines(videoAttributes(chosen), '  ')}
  style="display: block; width: 100%; aspect-ratio: ${chosen.ratio}; object-fit: ${chosen.fit}"></video>`,
  },
  react: {
    label: 'React',
    note: 'The web component, loaded once for all of them.',
    write: (chosen) => `import { useEffect } from 'react';

const script = '${chosen.baseUrl}/embed.js';

export function Animation() {
  useEffect(() => {
    if (document.querySelector(\`script[src="\${script}"]\`)) return;
    document.head.append(Object.assign(document.createElement('script'), { src: script, async: true }));
  }, []);
  return (
    <animated-asset${lines(attributes(chosen), '      ')}
      style={{ display: 'block', aspectRatio: '${chosen.ratio}' }}
    />
  );
}`,
  },
  node: {
    label: 'Signed, Node',
    note: 'On your server: the secret never leaves it. The address works wherever it is opened, until it ends.',
    write: (chosen) => `import { createHmac } from 'node:crypto';

const base = '${chosen.baseUrl}';
const key = '${chosen.key}';
const secret = process.env.SIGNING_SECRET; // sk_…

/** An address that works for so many seconds. */
export function signedUrl(source, seconds = 3600) {
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const sig = createHmac('sha256', secret).update(\`\${key}:\${source}:\${exp}\`).digest('base64url');
  const path = source.startsWith('asset:')
    ? \`a/\${source.slice('asset:'.length)}\`
    : Buffer.from(source).toString('base64url');
  return \`\${base}/v1/\${key}/\${path}.mp4?exp=\${exp}&sig=\${sig}\`;
}

console.log(signedUrl(${quoted(signedSource(chosen))}));`,
  },
  python: {
    label: 'Signed, Python',
    note: 'On your server: the secret never leaves it. The address works wherever it is opened, until it ends.',
    write: (chosen) => `import base64, hashlib, hmac, os, time

BASE = "${chosen.baseUrl}"
KEY = "${chosen.key}"
SECRET = os.environ["SIGNING_SECRET"]  # sk_…


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_url(source: str, seconds: int = 3600) -> str:
    """An address that works for so many seconds."""
    exp = int(time.time()) + seconds
    sig = encode(hmac.new(SECRET.encode(), f"{KEY}:{source}:{exp}".encode(), hashlib.sha256).digest())
    path = f"a/{source[len('asset:'):]}" if source.startswith("asset:") else encode(source.encode())
    return f"{BASE}/v1/{KEY}/{path}.mp4?exp={exp}&sig={sig}"


print(signed_url(${quoted(signedSource(chosen))}))`,
  },
};

/** Path of the proxy URL without its extension; options of an image in the query. */
export function proxyUrl(chosen: Chosen, extension: 'mp4' | 'jpg'): string {
  const { baseUrl, key, source } = chosen;
  if (source.kind === 'asset') return `${baseUrl}/v1/${key}/a/${source.id}.${extension}`;
  const query = new URLSearchParams(optionTexts(chosen)).toString();
  return `${baseUrl}/v1/${key}/${toBase64Url(source.url)}.${extension}${query ? `?${query}` : ''}`;
}

/** What the element needs, as pairs of name and value. */
export function attributes(chosen: Chosen): [string, string][] {
  const { source, key, alt, mode, fit } = chosen;
  const { mode: _, ...texts } = optionTexts(chosen);
  const from: [string, string][] =
    source.kind === 'asset'
      ? [['src', proxyUrl(chosen, 'mp4')]]
      : [['project-key', key], ['image', source.url], ...Object.entries(texts)];
  return [
    ...from,
    ['mode', mode],
    ...(fit === 'cover' ? [] : [['fit', fit] as [string, string]]),
    ['alt', alt],
  ];
}

function videoAttributes(chosen: Chosen): [string, string | true][] {
  const isHover = chosen.mode === 'animate-on-hover';
  return [
    ['src', proxyUrl(chosen, 'mp4')],
    ['poster', proxyUrl(chosen, 'jpg')],
    ['aria-label', chosen.alt],
    ['crossorigin', 'anonymous'],
    ['muted', true],
    ['playsinline', true],
    ...(isHover
      ? ([
          ['onpointerenter', 'this.play()'],
          ['onpointerleave', 'this.pause(); this.currentTime = 0'],
        ] as [string, string][])
      : ([['autoplay', true]] as [string, true][])),
    ...(chosen.mode === 'animate-in' ? [] : ([['loop', true]] as [string, true][])),
  ];
}

/** A signature covers the source alone, so the options of an image go into its fragment. */
function signedSource(chosen: Chosen): string {
  const { source } = chosen;
  if (source.kind === 'asset') return `asset:${source.id}`;
  const fragment = new URLSearchParams(optionTexts(chosen)).toString();
  const url = source.url.split('#')[0] ?? '';
  return fragment ? `${url}#${fragment}` : url;
}

function optionTexts({ options }: Chosen): Record<string, string> {
  return Object.fromEntries(
    Object.entries(options)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, String(value)]),
  );
}

const lines = (pairs: readonly [string, string | true][], indent: string) =>
  pairs
    .map(([name, value]) => `\n${indent}${value === true ? name : `${name}="${escapeAttribute(value)}"`}`)
    .join('');

/** As JavaScript and Python both write a text. */
const quoted = (text: string) => JSON.stringify(text);

const escapeAttribute = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');

function toBase64Url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}
