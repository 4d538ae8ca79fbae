/**
 * The reference as files in memory, made of the OpenAPI document and the guides. Plain pages: nothing runs in them,
 * so that they work everywhere and print well.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { errorIndex, errorPages } from './error-pages.ts';
import { fillGuide } from './guide-values.ts';
import { type Html, html } from './html.ts';
import { layOut, type Nav, type PageContent } from './layout.ts';
import { toHtml, toSlug } from './markdown.ts';
import { anchorOf, operationSection, operationsOf } from './reference.ts';

export type SiteFile = { type: 'html' | 'css' | 'svg'; text: string };

/** Paths, as they stand in addresses, to files. `404` is the page for everything else. */
export function createSite(document: OpenApiDocument): Map<string, SiteFile> {
  const style = asset('style.css', 'css');
  const icon = asset('icon.svg', 'svg');
  const nav = navOf(document);
  const pages = [...guidePages(document), ...referencePages(document), ...errorPages(), missing];
  const files = pages.map((page): [string, SiteFile] => [
    page.path,
    { type: 'html', text: layOut(page, nav, { style: style.path, icon: icon.path }) },
  ]);
  return new Map([...files, [style.path, style.file], [icon.path, icon.file]]);
}

/** A file whose address changes with its content, so that it may be kept for ever. */
function asset(name: string, type: SiteFile['type']): { path: string; file: SiteFile } {
  const text = read(name);
  const hash = createHash('sha256').update(text).digest('hex').slice(0, hashChars);
  return { path: `/docs/assets/${hash}.${type}`, file: { type, text } };
}

const hashChars = 12;

/** Guides without endpoints of their own. */
const guides = [
  { name: 'index', path: '/docs', title: 'Overview' },
  { name: 'authentication', path: '/docs/authentication', title: 'Authentication' },
  { name: 'errors', path: '/docs/errors', title: 'Errors' },
  { name: 'limits', path: '/docs/limits', title: 'Limits' },
];

/** Guides that stand before the endpoints of a tag; they are there without endpoints too. */
const introductions = ['Proxy', 'Events', 'Webhooks'];

/** A tag of the document, or one that has a guide alone. */
function topicsOf({ tags }: OpenApiDocument): { name: string; description: string }[] {
  const missing = introductions.filter((name) => !tags.some((tag) => tag.name === name));
  const at = tags.findIndex(({ name }) => name === 'Media') >>> 0;
  return [...tags.slice(0, at), ...missing.map((name) => ({ name, description: '' })), ...tags.slice(at)];
}

function navOf(document: OpenApiDocument): Nav {
  const topics = topicsOf(document).map(({ name }) => ({
    path: `/docs/${toSlug(name)}`,
    title: name,
    parts: operationsOf(document, name).map(({ operation }) => ({
      id: anchorOf(operation),
      title: operation.summary,
    })),
  }));
  return [
    { title: 'Guide', links: guides.map(({ path, title }) => ({ path, title })) },
    { title: 'Reference', links: topics },
  ];
}

function guidePages(document: OpenApiDocument): PageContent[] {
  return guides.map(({ name, path, title }) => ({
    path,
    title,
    description: `${title}: ${document.info.title}`,
    body: html`<article class="guide">${guide(name, document)}${name === 'errors' && errorIndex()}</article>`,
  }));
}

function referencePages(document: OpenApiDocument): PageContent[] {
  return topicsOf(document).map(({ name, description }) => {
    const slug = toSlug(name);
    const hasGuide = introductions.includes(name);
    return {
      path: `/docs/${slug}`,
      title: name,
      description: description === '' ? name : description,
      body: html`<article class="guide"><h1>${name}</h1>
${description !== '' && html`<p class="lead">${description}</p>`}
${hasGuide && guide(slug, document)}</article>
${operationsOf(document, name).map((one) => operationSection(one, document))}`,
    };
  });
}

const missing: PageContent = {
  path: '404',
  title: 'Not found',
  description: 'There is no such page.',
  isHidden: true,
  body: html`<article class="guide"><h1>Not found</h1>
<p>There is no such page. The <a href="/docs">overview</a> leads to all that there are.</p></article>`,
};

function guide(name: string, document: OpenApiDocument): Html {
  return toHtml(fillGuide(read(`guides/${name}.md`), document.servers[0]?.url ?? ''));
}

/** The build copies what lies beside this file. */
function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}
