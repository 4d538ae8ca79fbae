/**
 * The documentation as files in memory, made of the OpenAPI document and the guides. Static pages that need no script;
 * one small script adds the search and the buttons that copy. Each page has its twin in Markdown, and all of them
 * together are /llms.txt and /llms-full.txt.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { chartsIn, splitAtCharts, withoutCharts } from './charts.ts';
import { errorIndex, errorIndexMarkdown, errorPages } from './error-pages.ts';
import { compareSections, type Guide, readGuides } from './guides.ts';
import { type Html, html } from './html.ts';
import { layOut, type Nav, type NavLink, type PageContent, twinOf } from './layout.ts';
import { headingsOf, toHtml, toInlineHtml, toSlug } from './markdown.ts';
import { anchorOf, operationSection, operationsOf } from './reference.ts';
import { operationMarkdown } from './reference-markdown.ts';
import { entriesOf, entryOf, type SearchEntry } from './search-index.ts';

export type SiteFile = {
  type: 'html' | 'css' | 'svg' | 'js' | 'json' | 'md' | 'txt' | 'woff2';
  /** '' of what is no text. */
  text: string;
  /** Of what is no text. */
  bytes?: Buffer;
  /** The same in another form: the Markdown of a page, the page of a Markdown. */
  twin?: string;
};

/** Addresses of pages that are parts of others now. */
export const movedPages: ReadonlyMap<string, string> = new Map([
  ['/docs/operating', '/docs/operation'],
  ['/docs/operating.md', '/docs/operation.md'],
]);

/** Paths, as they stand in addresses, to files. `404` is the page for everything else. */
export function createSite(document: OpenApiDocument): Map<string, SiteFile> {
  const guides = readGuides(document.servers[0]?.url ?? '');
  const pages = [...guidePages(guides, document), ...referencePages(guides, document), ...errorPages()];
  const charts = guides.flatMap(({ text }) => chartsIn(text)).map((svg) => asset(svg, 'svg'));
  const font = fontAsset();
  const assets = {
    font,
    style: asset(read('style.css').replace('instrument-sans.woff2', font.path), 'css'),
    icon: asset(read('icon.svg'), 'svg'),
    script: asset(read('search.js'), 'js'),
    index: asset(JSON.stringify(pages.flatMap(({ search }): SearchEntry[] => search)), 'json'),
  };
  const files = {
    font: font.path,
    style: assets.style.path,
    icon: assets.icon.path,
    script: assets.script.path,
    index: assets.index.path,
  };
  const nav = navOf(guides, document);
  const laidOut = [...pages, missing].flatMap((page): [string, SiteFile][] => {
    const text = layOut(page, nav, files);
    if (page.isHidden) return [[page.path, { type: 'html', text }]];
    const twin = twinOf(page.path);
    return [
      [page.path, { type: 'html', text, twin }],
      [twin, { type: 'md', text: page.markdown, twin: page.path }],
    ];
  });
  return new Map([
    ...laidOut,
    ...[...Object.values(assets), ...charts].map(({ path, file }): [string, SiteFile] => [path, file]),
    ['/llms.txt', { type: 'txt', text: listForModels(pages, document) }],
    ['/llms-full.txt', { type: 'txt', text: pages.map(({ markdown }) => markdown).join('\n\n---\n\n') }],
  ]);
}

/** A file whose address changes with its content, so that it may be kept for ever. */
function asset(text: string, type: SiteFile['type']): { path: string; file: SiteFile } {
  return { path: assetPath(text, type), file: { type, text } };
}

/** The dashboard's own face, so that a reader does not change houses between the two. */
function fontAsset(): { path: string; file: SiteFile } {
  const bytes = readFileSync(new URL('instrument-sans.woff2', import.meta.url));
  return { path: assetPath(bytes, 'woff2'), file: { type: 'woff2', text: '', bytes } };
}

function assetPath(text: string | Buffer, type: SiteFile['type']): string {
  return `/docs/assets/${createHash('sha256').update(text).digest('hex').slice(0, hashChars)}.${type}`;
}

const hashChars = 12;

/** Groups of endpoints that are there without endpoints too, since they have a guide. */
const introductions = ['Proxy', 'Events', 'Webhooks'];
const overviewPath = '/docs/api';

/** A tag of the document, or one that has a guide alone. */
function topicsOf({ tags }: OpenApiDocument): { name: string; description: string }[] {
  const missing = introductions.filter((name) => !tags.some((tag) => tag.name === name));
  const at = tags.findIndex(({ name }) => name === 'Media') >>> 0;
  return [...tags.slice(0, at), ...missing.map((name) => ({ name, description: '' })), ...tags.slice(at)];
}

/** Guides in their sections, then the groups of endpoints that have none. */
function navOf(guides: readonly Guide[], document: OpenApiDocument): Nav {
  const topics = topicsOf(document).map(
    ({ name }): NavLink => ({
      path: `/docs/${toSlug(name)}`,
      title: name,
      parts: operationsOf(document, name).map(({ operation }) => ({
        id: anchorOf(operation),
        title: toLabel(operation.summary),
      })),
    }),
  );
  const links = guides.map(({ path, title, section }) => ({
    section,
    link: { ...topics.find((topic) => topic.path === path), path, title },
  }));
  const rest = topics.filter(({ path }) => !guides.some((guide) => guide.path === path));
  const reference = [{ path: overviewPath, title: 'All endpoints' }, ...rest];
  const all = [...links, ...reference.map((link) => ({ section: 'Reference', link }))];
  return [...new Set(all.map(({ section }) => section))].sort(compareSections).map((title) => ({
    title,
    links: all.filter(({ section }) => section === title).map(({ link }) => link),
    isFolded: guides.some(
      ({ name, section }) => section === title && guides.some((one) => one.name.startsWith(`${name}/`)),
    ),
  }));
}

/** The beginning of a summary, short enough for the navigation: what follows says more of the same. */
const toLabel = (summary: string) => summary.replace(/;.*$|, (?:newest|oldest|or|and|for) .*$/, '');

/** Guides that are pages of their own; the others stand on the pages of their endpoints. */
function guidePages(guides: readonly Guide[], document: OpenApiDocument): PageContent[] {
  const topics = new Set(topicsOf(document).map(({ name }) => toSlug(name)));
  return guides
    .filter(({ name }) => !topics.has(name))
    .map((guide): PageContent => {
      const { name, path, title, description, section } = guide;
      const text = `${guide.text}${listBelow(guide, guides)}`;
      const isErrors = name === 'errors';
      const markdown = `${withoutCharts(text)}${isErrors ? `\n${errorIndexMarkdown()}` : ''}`;
      return {
        path,
        title,
        description,
        section,
        parts: headingsOf(markdown),
        markdown,
        search: entriesOf({ path, title }, withoutCharts(text)),
        body: html`<article class="guide">${guideBody(text)}${isErrors && errorIndex()}</article>`,
      };
    });
}

/** The pages of the folder that a guide leads to: a phone has no navigation beside it. Markdown; nothing for others. */
function listBelow({ name }: Guide, guides: readonly Guide[]): string {
  const below = guides.filter((one) => one.name.startsWith(`${name}/`));
  if (below.length === 0) return '';
  const lines = below.map(({ path, title, description }) => `- [${title}](${path}): ${description}`);
  return `\n## All of them\n\n${lines.join('\n')}\n`;
}

function guideBody(text: string): Html {
  const parts = splitAtCharts(text, (svg) => assetPath(svg, 'svg'));
  return html`${parts.map((part) => (typeof part === 'string' ? toHtml(part) : part))}`;
}

function referencePages(guides: readonly Guide[], document: OpenApiDocument): PageContent[] {
  const pages = topicsOf(document).map(({ name, description }): PageContent => {
    const path = `/docs/${toSlug(name)}`;
    const guide = guides.find((one) => one.path === path);
    const listed = operationsOf(document, name);
    const page = { path, title: guide?.title ?? name };
    const operations = listed.map((one) => operationMarkdown(one, document));
    const text = guide ? withoutCharts(guide.text) : '';
    return {
      ...page,
      description: guide?.description ?? description,
      section: guide?.section ?? 'Reference',
      markdown: [`# ${page.title}`, description, text, ...operations]
        .filter((part) => part !== '')
        .join('\n\n'),
      search: [
        ...entriesOf(page, `# ${page.title}\n${description}\n${text}`),
        ...listed.map(({ method, path: address, operation }) =>
          entryOf(page, {
            anchor: anchorOf(operation),
            heading: operation.summary,
            text: `${method.toUpperCase()} ${address} ${operation.description ?? ''}`,
          }),
        ),
      ],
      body: html`<article class="guide"><h1>${page.title}</h1>
${description !== '' && html`<p class="lead">${description}</p>`}
${guide && guideBody(guide.text)}</article>
${listed.map((one) => operationSection(one, document))}`,
    };
  });
  return [overview(document), ...pages];
}

/** Every endpoint in one list. */
function overview(document: OpenApiDocument): PageContent {
  const title = 'All endpoints';
  const description = 'Every endpoint of the service, by group.';
  const groups = topicsOf(document)
    .map(({ name }) => ({ name, listed: operationsOf(document, name) }))
    .filter(({ listed }) => listed.length > 0);
  const markdown = groups.map(({ name, listed }) => {
    const lines = listed.map(
      ({ method, path, operation }) => `- \`${method.toUpperCase()} ${path}\`: ${operation.summary}`,
    );
    return `## ${name}\n\n${lines.join('\n')}`;
  });
  return {
    path: overviewPath,
    title,
    description,
    section: 'Reference',
    parts: groups.map(({ name }) => ({ id: toSlug(name), title: name })),
    markdown: [`# ${title}`, description, ...markdown].join('\n\n'),
    search: [entryOf({ path: overviewPath, title }, { anchor: '', heading: '', text: description })],
    body: html`<article class="guide endpoints"><h1>${title}</h1><p class="lead">${description}
The same for programs: <a href="/openapi.json">OpenAPI 3.1</a>, and the <a href="/docs/client">typed client</a>.</p>
${groups.map(
  ({ name, listed }) =>
    html`<h2 id="${toSlug(name)}">${name}</h2><ul>${listed.map(
      ({ method, path, operation }) =>
        html`<li><a href="/docs/${toSlug(name)}#${anchorOf(operation)}"><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></a> <span>${toInlineHtml(operation.summary)}</span></li>`,
    )}</ul>`,
)}</article>`,
  };
}

const missing: PageContent = {
  path: '404',
  title: 'Not found',
  description: 'There is no such page.',
  section: '',
  markdown: '',
  search: [],
  isHidden: true,
  body: html`<article class="guide"><h1>Not found</h1>
<p>There is no such page. The <a href="/docs">overview</a> leads to all that there are.</p></article>`,
};

/** llms.txt: the pages with a sentence each, as https://llmstxt.org has it. */
function listForModels(pages: readonly PageContent[], document: OpenApiDocument): string {
  const base = document.servers[0]?.url ?? '';
  const sections = [...new Set(pages.map(({ section }) => section))];
  const lists = sections.map((section) => {
    const lines = pages
      .filter((page) => page.section === section)
      .map(({ path, title, description }) => `- [${title}](${base}${twinOf(path)}): ${description}`);
    return `## ${section}\n\n${lines.join('\n')}`;
  });
  return `${[
    `# ${document.info.title}`,
    `> ${document.info.description.split('\n')[0]}`,
    `Everything below in one file: ${base}/llms-full.txt. For programs: ${base}/openapi.json.`,
    ...lists,
  ].join('\n\n')}\n`;
}

/** The build copies what lies beside this file. */
function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), 'utf8');
}
