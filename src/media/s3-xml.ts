/**
 * The few XML documents of S3: pages of a list, what a batch delete did, error codes. Their elements have neither
 * attributes nor others of the same name inside, so that looking for tags is enough; what else may come is refused.
 */

/** An answer that is not the document that was asked for. */
export class BadXmlError extends Error {
  override readonly name = 'BadXmlError';
}

export type ListPage = {
  objects: { key: string; bytes: number; lastModified: Date }[];
  /** Asks for the page after this one; absent on the last. */
  next?: string;
};

/** Reads an answer to ListObjectsV2. @throws {BadXmlError} when it is none. */
export function readListPage(xml: string): ListPage {
  if (!/<ListBucketResult[\s>]/.test(xml)) throw new BadXmlError('the answer is no list');
  const objects = elementsOf(xml, 'Contents').map((entry) => {
    const bytes = Number(textOf(entry, 'Size'));
    const lastModified = new Date(textOf(entry, 'LastModified') ?? '');
    const key = textOf(entry, 'Key') ?? '';
    if (key === '' || !Number.isSafeInteger(bytes) || Number.isNaN(lastModified.getTime())) {
      throw new BadXmlError('an object in the list is incomplete');
    }
    return { key, bytes, lastModified };
  });
  if (textOf(xml, 'IsTruncated') !== 'true') return { objects };

  const next = textOf(xml, 'NextContinuationToken');
  if (!next) throw new BadXmlError('the list is cut, without a token for the rest');
  return { objects, next };
}

/** The body of DeleteObjects for at most 1,000 keys. */
export function writeDelete(keys: string[]): string {
  const objects = keys.map((key) => `<Object><Key>${encodeEntities(key)}</Key></Object>`).join('');
  return `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>${objects}</Delete>`;
}

/** Codes of the objects that DeleteObjects could not delete. @throws {BadXmlError} when it is no such answer. */
export function readDeleteErrors(xml: string): string[] {
  if (!/<DeleteResult[\s/>]/.test(xml)) throw new BadXmlError('the answer is no outcome of a delete');
  return elementsOf(xml, 'Error').map(readErrorCode);
}

/** The code in an error, of letters and digits; empty when there is none. */
export function readErrorCode(xml: string): string {
  return /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(xml)?.[1] ?? '';
}

/** What is inside each element of a name, in order. @throws {BadXmlError} for one without an end. */
function elementsOf(xml: string, name: string): string[] {
  const opening = `<${name}>`;
  const closing = `</${name}>`;
  const found: string[] = [];
  for (let at = 0; ; ) {
    const start = xml.indexOf(opening, at);
    if (start === -1) return found;
    const end = xml.indexOf(closing, start);
    if (end === -1) throw new BadXmlError(`${opening} has no end`);
    found.push(xml.slice(start + opening.length, end));
    at = end + closing.length;
  }
}

function textOf(xml: string, name: string): string | undefined {
  const start = xml.indexOf(`<${name}>`);
  const end = xml.indexOf(`</${name}>`, start);
  return start === -1 || end === -1 ? undefined : decodeEntities(xml.slice(start + name.length + 2, end));
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decodeEntities(text: string): string {
  return text.replace(/&(?:#x([0-9a-fA-F]{1,6})|#(\d{1,7})|([a-z]{2,4}));/g, (whole, hex, decimal, name) => {
    if (name !== undefined) return entities[name] ?? whole;
    const point = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}

/** Control characters too: a carriage return would else be read as a line feed. */
function encodeEntities(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped.
  return text.replace(/[&<>"'\u0000-\u001f]/g, (char) => `&#${char.charCodeAt(0)};`);
}
