/** Bytes of pages and sheets as text, in the character set that they state (WHATWG Encoding). */

/** How much of a page is searched for its own statement. */
const sniffedBytes = 4_096;

/** By byte order mark, header, statement in the page, and what is left: UTF-8 when it is that, else western. */
export function decodePage(body: Uint8Array, contentType: string): { text: string; charset: string } {
  const head = Buffer.from(body.subarray(0, sniffedBytes)).toString('latin1');
  const inPage =
    /<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w-]+)/i.exec(head)?.[1] ??
    /^<\?xml[^>]*encoding=["']([\w-]+)/i.exec(head)?.[1];
  return decode(body, [charsetOf(contentType), inPage]);
}

/** Sheets say it first of all; one that does not is like its page. */
export function decodeSheet(body: Uint8Array, contentType: string, ofPage: string): string {
  const head = Buffer.from(body.subarray(0, 128)).toString('latin1');
  const stated = /^@charset "([\w-]+)";/.exec(head)?.[1];
  return decode(body, [charsetOf(contentType), stated, ofPage]).text;
}

/** Whether bytes are no text at all. */
export function isBinary(body: Uint8Array): boolean {
  const head = body.subarray(0, 1_024);
  const isWide = (head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff);
  return !isWide && head.includes(0);
}

const charsetOf = (contentType: string) => /charset\s*=\s*["']?([\w:-]+)/i.exec(contentType)?.[1];

function decode(body: Uint8Array, stated: (string | undefined)[]): { text: string; charset: string } {
  const marked = markOf(body);
  const charset = marked ?? stated.find((one) => one !== undefined && isKnown(one));
  if (charset !== undefined) return { text: new TextDecoder(charset).decode(body), charset };
  try {
    return {
      text: new TextDecoder('utf-8', { fatal: true }).decode(body, { stream: true }),
      charset: 'utf-8',
    };
  } catch {
    // Not UTF-8: pages without a statement are old and western.
    return { text: new TextDecoder('windows-1252').decode(body), charset: 'windows-1252' };
  }
}

function markOf(body: Uint8Array): string | undefined {
  if (body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf) return 'utf-8';
  if (body[0] === 0xff && body[1] === 0xfe) return 'utf-16le';
  return body[0] === 0xfe && body[1] === 0xff ? 'utf-16be' : undefined;
}

function isKnown(label: string): boolean {
  try {
    return new TextDecoder(label).encoding !== '';
  } catch {
    // A name that nobody knows is as good as none.
    return false;
  }
}
