/** The frame of every page: heading, search, navigation, content, and what comes before and after. */
import { type Html, html } from './html.ts';
import type { SearchEntry } from './search-index.ts';

export type NavLink = { path: string; title: string; parts?: { id: string; title: string }[] };

/** Of a folded group the first link alone is shown, until a page of it is open. */
export type Nav = { title: string; links: NavLink[]; isFolded?: boolean }[];

export type PageContent = {
  path: string;
  title: string;
  description: string;
  /** Where llms.txt lists it. */
  section: string;
  body: Html;
  /** The page for programs and for those who like text. */
  markdown: string;
  search: SearchEntry[];
  /** Parts of the page, named beside it where there is room. */
  parts?: readonly { id: string; title: string }[];
  /** The page is not found by search engines. */
  isHidden?: boolean;
};

/** Addresses of what pages load. */
export type Files = { font: string; style: string; icon: string; script: string; index: string };

const name = 'Animated Assets';

/** The Markdown twin of a page. */
export function twinOf(path: string): string {
  return path === '/docs' ? '/docs/index.md' : `${path}.md`;
}

export function layOut(page: PageContent, nav: Nav, files: Files): string {
  const { path, title, description, body, isHidden, parts = [] } = page;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title === name ? name : `${title} · ${name}`}</title>
<meta name="description" content="${description}">
<meta name="color-scheme" content="light dark">
${isHidden && html`<meta name="robots" content="noindex">`}
<link rel="preload" as="font" type="font/woff2" href="${files.font}" crossorigin>
<link rel="stylesheet" href="${files.style}">
<link rel="icon" type="image/svg+xml" href="${files.icon}">
${!isHidden && html`<link rel="alternate" type="text/markdown" href="${twinOf(path)}">`}
<script src="${files.script}" data-index="${files.index}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top"><div class="bar">
<a class="brand" href="/docs"><span class="mark" aria-hidden="true"></span>${name}</a>
<button class="find" type="button" aria-keyshortcuts="/" hidden><span>Search</span> <kbd aria-hidden="true">/</kbd></button>
<nav aria-label="Service"><a href="/docs/api">API</a><a href="/openapi.json">OpenAPI</a></nav>
</div></header>
<div class="${parts.length > 1 ? 'frame with-parts' : 'frame'}">
<nav class="side" aria-label="Documentation">${navigation(nav, path)}</nav>
<details class="menu"><summary>Contents</summary><nav aria-label="Documentation, folded">${navigation(nav, path)}</nav></details>
<main id="content" tabindex="-1">${body}
${!isHidden && foot(nav, path)}</main>
${
  parts.length > 1 &&
  html`<aside class="parts" aria-label="On this page"><h2>On this page</h2><ul>${parts.map(
    ({ id, title: part }) => html`<li><a href="#${id}">${part}</a></li>`,
  )}</ul></aside>`
}
</div>
</body>
</html>
`.text;
}

/** The pages before and after, and the page as Markdown. */
function foot(nav: Nav, path: string): Html {
  const links = nav.flatMap((group) => group.links);
  const at = links.findIndex((link) => link.path === path);
  const [before, after] = at < 0 ? [] : [links[at - 1], links[at + 1]];
  return html`<footer class="foot">
${
  (before || after) &&
  html`<nav class="turn" aria-label="Before and after">
${before && html`<a class="before" href="${before.path}"><span>Before</span> ${before.title}</a>`}
${after && html`<a class="after" href="${after.path}"><span>Next</span> ${after.title}</a>`}</nav>`
}
<p><a href="${twinOf(path)}">This page as Markdown</a></p></footer>`;
}

function navigation(nav: Nav, path: string): Html {
  return html`${nav.map(({ title, links, isFolded }) => {
    const isOpen = !isFolded || links.some((link) => link.path === path);
    const shown = isOpen ? links : links.slice(0, 1);
    return html`<h2>${title}</h2><ul>${shown.map((link) => entry(link, link.path === path))}</ul>`;
  })}`;
}

function entry({ path, title, parts = [] }: NavLink, isHere: boolean): Html {
  const link = isHere
    ? html`<a href="${path}" aria-current="page">${title}</a>`
    : html`<a href="${path}">${title}</a>`;
  if (!isHere || parts.length === 0) return html`<li>${link}</li>`;
  return html`<li>${link}<ul>${parts.map((part) => html`<li><a href="#${part.id}">${part.title}</a></li>`)}</ul></li>`;
}
