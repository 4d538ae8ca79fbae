/**
 * Proxy URLs of which everything is known: whose they are, what they mean, and the file that answers them. A request
 * for one takes a single search, and is judged anew by its page or its signature alone.
 *
 * A shortcut holds what it was made of, and ends with the first of that which changes or is no longer believed.
 */
import { LRUCache } from 'lru-cache';
import type { HeaderSet } from './exchange.ts';
import type { MediaFile } from './media-files.ts';
import type { Access } from './proxy-access.ts';
import type { Known, KnownAsset } from './proxy-lookups.ts';
import type { ProxyUrl } from './proxy-request.ts';
import { headOf, type MediaKind } from './serve-media.ts';

const maxShortcuts = 20_000;
const maxChars = 20_000_000;
/** What one costs beside its URL, counted in characters: most of it the headers of its answer. */
const ownChars = 1_000;
/** The longest name of a page that is kept. */
const maxPageChars = 300;

export class Shortcut<Project> {
  readonly url: ProxyUrl;
  readonly project: Known<Project>;
  readonly asset: Known<KnownAsset>;
  readonly file: MediaFile;
  readonly kind: MediaKind;
  /** Unix ms: when the older of project and asset was read. */
  readonly readTs: number;
  /** The page that asked last, and what came of it: a URL stands on one page, mostly. */
  private page = '';
  private access: Access | undefined = undefined;
  /** The headers of CORS that were sent last, and all headers with them. */
  private headers: HeaderSet | undefined = undefined;
  private block = '';

  constructor(
    url: ProxyUrl,
    project: Known<Project>,
    asset: Known<KnownAsset>,
    file: MediaFile,
    kind: MediaKind,
  ) {
    this.url = url;
    this.project = project;
    this.asset = asset;
    this.file = file;
    this.kind = kind;
    this.readTs = Math.min(project.readTs, asset.readTs);
  }

  get isCurrent(): boolean {
    return this.project.isCurrent && this.asset.isCurrent && this.file.isKnown;
  }

  accessOf(page: string): Access | undefined {
    return page === this.page ? this.access : undefined;
  }

  noteAccess(page: string, access: Access): void {
    if (page.length > maxPageChars) return;
    this.page = page;
    this.access = access;
  }

  /** All headers of its answer, kept for who was answered last. */
  blockOf(headers: HeaderSet): string {
    if (headers !== this.headers) {
      this.headers = headers;
      this.block = headOf({ file: this.file, kind: this.kind, headers });
    }
    return this.block;
  }
}

export type Shortcuts<Project> = ReturnType<typeof createShortcuts<Project>>;

/** @param isBelieved whether what was read at that time, in unix ms, may still be believed. */
export function createShortcuts<Project>(isBelieved: (readTs: number) => boolean) {
  const shortcuts = new LRUCache<string, Shortcut<Project>>({
    max: maxShortcuts,
    maxSize: maxChars,
    sizeCalculation: (_, line) => line.length + ownChars,
  });
  return {
    /** @param line path and query as they were asked for. */
    find(line: string): Shortcut<Project> | undefined {
      const shortcut = shortcuts.get(line);
      return shortcut?.isCurrent && isBelieved(shortcut.readTs) ? shortcut : undefined;
    },
    add(line: string, shortcut: Shortcut<Project>): void {
      if (shortcut.isCurrent) shortcuts.set(line, shortcut);
    },
  };
}
