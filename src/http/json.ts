/**
 * JSON of requests, read strictly: UTF-8 without errors, and no text that has no UTF-8 form (half a surrogate
 * pair, which JSON can write as an escape and no store can keep).
 */

/** What a body of JSON means, or why it means nothing. An empty one is an empty object (decisions 1). */
export type ParsedJson = { ok: true; value: unknown } | { ok: false; reason: string };

export function parseJson(bytes: Uint8Array): ParsedJson {
  if (bytes.byteLength === 0) return { ok: true, value: {} };
  try {
    const text = decoder.decode(bytes);
    // Only an escape can make one: the decoder has let none pass.
    const value = surrogateEscape.test(text) ? JSON.parse(text, refuseBrokenText) : JSON.parse(text);
    return { ok: true, value };
  } catch (cause) {
    if (cause instanceof BrokenText) return { ok: false, reason: 'text with half a surrogate pair' };
    // A syntax error, bytes that are no UTF-8, or nesting past what the stack holds.
    return { ok: false, reason: 'invalid JSON' };
  }
}

/** Whether a Content-Type is JSON in UTF-8. */
export function isJson(contentType: string): boolean {
  return jsonType.test(contentType);
}

class BrokenText extends Error {}

const decoder = new TextDecoder('utf-8', { fatal: true });
const surrogateEscape = /\\u[dD][89a-fA-F]/;
/** With the u flag whole pairs are one character, so only halves are left to match. */
const halfPair = /\p{Surrogate}/u;
const jsonType = /^\s*application\/json\s*(;\s*charset\s*=\s*"?utf-?8"?\s*)?;?\s*$/i;

function refuseBrokenText(key: string, value: unknown): unknown {
  if (halfPair.test(key) || (typeof value === 'string' && halfPair.test(value))) throw new BrokenText();
  return value;
}
