/**
 * The guides: every Markdown file below guides/ is a page, its address the file's path. Adding a page is adding a file.
 *
 *   ---
 *   title: Signed URLs            else the first heading
 *   description: One sentence     else the first paragraph
 *   section: Build                else the name of its folder, or Run
 *   order: 30                     within the section; pages without one come last, by title
 *   ---
 *
 * A page named like a folder (runbooks.md) leads to the pages in it: of such a folder the navigation shows that page
 * alone, until one of them is open.
 * A page named like a group of endpoints (events.md) stands before those endpoints, and needs no heading of its own.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fillGuide } from './guide-values.ts';

export type Guide = {
  /** `events`, `runbooks/queue-grows`; `index` is the first page of all. */
  name: string;
  path: string;
  title: string;
  description: string;
  section: string;
  order: number;
  /** Markdown, without the front matter. */
  text: string;
};

/** Sections in the order in which people need them; others stand between the last two, by name. */
const sections = ['Start', 'Build', 'Run', 'Reference'];
const lastOrder = 10_000;
/** A folder within a folder has no address. */
const maxDepth = 2;

const folder = new URL('guides/', import.meta.url);

/** All guides, in the order of the navigation. @throws for a page with an unknown `{{value}}` or too deep a folder */
export function readGuides(baseUrl: string): Guide[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md'))
    .map((file) => file.slice(0, -'.md'.length));
  return names
    .map((name) => {
      const leads = names.some((other) => other.startsWith(`${name}/`));
      return toGuide(name, read(`${name}.md`), baseUrl, leads);
    })
    .sort(
      (one, other) =>
        compareSections(one.section, other.section) ||
        one.order - other.order ||
        one.title.localeCompare(other.title, 'en'),
    );
}

/** Negative when the first stands before the second. */
export function compareSections(one: string, other: string): number {
  const rank = (name: string) => {
    const at = sections.indexOf(name);
    return at < 0 ? sections.length - 1.5 : at;
  };
  return rank(one) - rank(other) || one.localeCompare(other, 'en');
}

function toGuide(name: string, source: string, baseUrl: string, leads: boolean): Guide {
  const parts = name.split('/');
  if (parts.length > maxDepth) throw new Error(`the guide ${name} lies too deep: one folder at most`);
  const [, matter = '', text = source] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(source) ?? [];
  const fields = new Map(
    matter.split('\n').map((line) => [line.split(':')[0]?.trim(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const title = fields.get('title') ?? /^# (.+)$/m.exec(text)?.[1] ?? toTitle(parts.at(-1) ?? name);
  return {
    name,
    path: name === 'index' ? '/docs' : `/docs/${name}`,
    title,
    description: fields.get('description') ?? firstParagraph(text) ?? title,
    section: fields.get('section') ?? (parts.length > 1 || leads ? toTitle(parts[0] ?? '') : 'Run'),
    order: Number(fields.get('order') ?? (leads ? 0 : lastOrder)),
    text: fillGuide(text.trimStart(), baseUrl),
  };
}

/** The first lines that are plain text, without the marks of Markdown. */
function firstParagraph(text: string): string | undefined {
  const found = text.split(/\n{2,}/).find((part) => /^[A-Za-z`*[]/.test(part.trim()));
  return found === undefined ? undefined : toPlain(found);
}

/** Markdown as text for search and descriptions: links as their words, no marks. */
export function toPlain(text: string): string {
  return text
    .replace(/^(~~~|```|\[\[).*$/gm, '')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*]+/g, '')
    .replace(/\|/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/** `queue-grows` is Queue grows. */
function toTitle(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1).replaceAll('-', ' ');
}

/** The build copies what lies beside this file. */
function read(file: string): string {
  return readFileSync(new URL(file, folder), 'utf8');
}
