/** Conditional and range requests for a whole file (RFC 9110, 13 and 14; decisions 4, Ready answer). */

/** What of a request decides how a file is answered; empty when absent. */
export type MediaHead = {
  readonly isHead: boolean;
  readonly range: string;
  readonly ifRange: string;
  readonly ifNoneMatch: string;
  readonly ifModifiedSince: string;
};

/** The file as it is: `etag` strong and with its quotes, `modifiedTs` unix ms of a whole second. */
export type FileState = { etag: string; modifiedTs: number; total: number };

/** `start` and `end` are both included. */
export type Selection =
  | { status: 200 }
  | { status: 206; start: number; end: number }
  | { status: 304 }
  | { status: 416 };

/** Decides what a request gets of a file. What does not parse counts as not sent. */
export function selectPart(head: MediaHead, file: FileState): Selection {
  if (isKnown(head, file)) return unchanged;
  if (head.range === '' || head.isHead || !isSameFile(head.ifRange, file)) return whole;
  return selectRange(head.range, file.total);
}

const whole: Selection = { status: 200 };
const unchanged: Selection = { status: 304 };

/** If-None-Match decides alone when it is there. */
function isKnown({ ifNoneMatch, ifModifiedSince }: MediaHead, { etag, modifiedTs }: FileState): boolean {
  // What browsers send: the tag as they got it.
  if (ifNoneMatch === etag) return true;
  if (ifNoneMatch !== '') {
    const tags = ifNoneMatch.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
    return tags.includes('*') || tags.includes(etag);
  }
  if (ifModifiedSince === '') return false;
  const since = parseDate(ifModifiedSince);
  return since !== undefined && modifiedTs <= since;
}

/** A range is of use only for the version the client has part of. Weak tags never match. */
function isSameFile(ifRange: string, { etag, modifiedTs }: FileState): boolean {
  if (ifRange === '') return true;
  return ifRange.startsWith('"') ? ifRange === etag : parseDate(ifRange) === modifiedTs;
}

/** One range; several are answered with the whole. */
function selectRange(range: string, total: number): Selection {
  const [, first = '', last = ''] = /^bytes=\s*(\d*)-(\d*)\s*$/i.exec(range) ?? [];
  if (first === '' && last === '') return { status: 200 };
  if (first === '') {
    const length = Math.min(Number(last), total);
    return length === 0 ? { status: 416 } : { status: 206, start: total - length, end: total - 1 };
  }
  const start = Number(first);
  const end = last === '' ? total - 1 : Math.min(Number(last), total - 1);
  if (last !== '' && Number(last) < start) return { status: 200 };
  return start >= total ? { status: 416 } : { status: 206, start, end };
}

/** A date in one of the three forms that must be understood (RFC 9110, 5.6.7); unix ms. */
function parseDate(text: string): number | undefined {
  const isAsctime = asctime.test(text);
  if (!isAsctime && !imfFixdate.test(text) && !rfc850.test(text)) return undefined;
  // Without a zone it would be taken for local time.
  const ts = Date.parse(isAsctime ? `${text} GMT` : text);
  return Number.isNaN(ts) ? undefined : ts;
}

/** The one form that is still sent, and two that are older. */
const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850 = /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const asctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;
