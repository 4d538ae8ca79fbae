/** What the page was told of its service: see schemas/dashboard.ts. */
import type { PageSettings } from '../../schemas/dashboard.ts';

const text = document.querySelector<HTMLMetaElement>('meta[name=service]')?.content ?? '';

export const settings: PageSettings = JSON.parse(text) as PageSettings;

/** A text kept in this browser. Storage may be forbidden or full: then it is kept as long as the page lives. */
export function keep(name: string, value: string | undefined): void {
  kept.set(name, value);
  try {
    if (value === undefined) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch (cause) {
    if (!(cause instanceof DOMException)) throw cause;
  }
}

export function recall(name: string): string | undefined {
  if (kept.has(name)) return kept.get(name);
  try {
    return localStorage.getItem(name) ?? undefined;
  } catch (cause) {
    if (!(cause instanceof DOMException)) throw cause;
    return undefined;
  }
}

const kept = new Map<string, string | undefined>();
