/**
 * A stored document as it may be shown: what signs or opens something is taken out. Addresses lose their query,
 * fragment and credentials, where signatures of sources and of providers' files are.
 */

const secretName = /secret|token|password|authorization|cookie|signature|^sig$/i;
const maxText = 2_000;
const maxDepth = 12;
const address = /\bhttps?:\/\/[^\s"'<>\\]+/g;

export function redact(value: unknown, name = '', depth = 0): unknown {
  if (depth > maxDepth) return '…';
  if (typeof value === 'string') return secretName.test(name) ? '(taken out)' : redactText(value);
  if (Array.isArray(value)) return value.map((one) => redact(one, name, depth + 1));
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Date) return value.toISOString();
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, redact(one, key, depth + 1)]));
}

/** Text with the addresses in it bared. */
export function redactText(text: string): string {
  const bare = text.replaceAll(address, (url) => {
    const path = /^[^?#]*/.exec(url)?.[0] ?? '';
    const plain = path.replace(/^(https?:\/\/)[^/@]*@/, '$1');
    return path === url ? plain : `${plain}?…`;
  });
  return bare.length > maxText ? `${bare.slice(0, maxText)}…` : bare;
}
