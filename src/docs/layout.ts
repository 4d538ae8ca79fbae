/** The frame of every page: heading, navigation, content. */
import { type Html, html } from './html.ts';

export type NavLink = { path: string; title: string; parts?: { id: string; title: string }[] };

export type Nav = { title: string; links: NavLink[] }[];

export type PageContent = {
  path: string;
  title: string;
  description: string;
  body: Html;
  /** The page is not found by search engines. */
  isHidden?: boolean;
};

const name = 'Animated Assets';

export function layOut(
  { path, title, description, body, isHidden }: PageContent,
  nav: Nav,
  files: { style: string; icon: string },
): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title === name ? name : `${title} · ${name}`}</title>
<meta name="description" content="${description}">
<meta name="color-scheme" content="light dark">
${isHidden && html`<meta name="robots" content="noindex">`}
<link rel="stylesheet" href="${files.style}">
<link rel="icon" type="image/svg+xml" href="${files.icon}">
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<a class="brand" href="/docs"><span class="mark" aria-hidden="true"></span>${name}</a>
<nav aria-label="Service"><a href="/docs">Docs</a><a href="/openapi.json">OpenAPI</a></nav>
</header>
<div class="frame">
<nav class="side" aria-label="Documentation">${navigation(nav, path)}</nav>
<details class="menu"><summary>Contents</summary><nav aria-label="Documentation, folded">${navigation(nav, path)}</nav></details>
<main id="content" tabindex="-1">${body}</main>
</div>
</body>
</html>
`.text;
}

function navigation(nav: Nav, path: string): Html {
  return html`${nav.map(
    ({ title, links }) =>
      html`<h2>${title}</h2><ul>${links.map((link) => entry(link, link.path === path))}</ul>`,
  )}`;
}

function entry({ path, title, parts = [] }: NavLink, isHere: boolean): Html {
  const link = isHere
    ? html`<a href="${path}" aria-current="page">${title}</a>`
    : html`<a href="${path}">${title}</a>`;
  if (!isHere || parts.length === 0) return html`<li>${link}</li>`;
  return html`<li>${link}<ul>${parts.map((part) => html`<li><a href="#${part.id}">${part.title}</a></li>`)}</ul></li>`;
}
