/** One page for each error code, and the lists that lead to them. */
import { ApiErrorCode, apiErrors, ErrorCode } from '../../schemas/errors.ts';
import { apiErrorTexts, type ErrorText, runErrorTexts } from './error-texts.ts';
import { toPlain } from './guides.ts';
import { type Html, html } from './html.ts';
import type { PageContent } from './layout.ts';
import { toInlineHtml } from './markdown.ts';
import { entryOf } from './search-index.ts';

export function errorPages(): PageContent[] {
  return [
    ...ApiErrorCode.options.map((code) =>
      page(code, apiErrorTexts[code], html`An answer with status <strong>${apiErrors[code].status}</strong>`),
    ),
    ...ErrorCode.options.map((code) =>
      page(code, runErrorTexts[code], html`The <code>error_code</code> of a failed run`),
    ),
  ];
}

/** Both lists, for the page on errors. */
export function errorIndex(): Html {
  return html`<h2 id="codes-of-answers">Codes of answers</h2>
${list(
  'Status',
  ApiErrorCode.options.map((code) => [code, String(apiErrors[code].status), apiErrorTexts[code]]),
)}
<h2 id="failed-runs">Codes of failed runs</h2>
<p>The <code>error_code</code> of assets, of <code>failed</code> events and of <code>asset.failed</code> webhooks.</p>
${list(
  undefined,
  ErrorCode.options.map((code) => [code, '', runErrorTexts[code]]),
)}`;
}

function list(second: string | undefined, rows: [string, string, ErrorText][]): Html {
  return html`<div class="scroll" tabindex="0" role="group"><table><thead><tr><th scope="col">Code</th>${
    second !== undefined && html`<th scope="col">${second}</th>`
  }<th scope="col">Meaning</th></tr></thead><tbody>${rows.map(
    ([code, beside, { means }]) =>
      html`<tr><td><a href="/docs/errors/${code}">${toInlineHtml(`\`${code}\``)}</a></td>${
        second !== undefined && html`<td>${beside}</td>`
      }<td>${toInlineHtml(means)}</td></tr>`,
  )}</tbody></table></div>`;
}

/** The lists as Markdown. */
export function errorIndexMarkdown(): string {
  const rows = (codes: readonly string[], texts: Readonly<Record<string, ErrorText>>) =>
    codes.map((code) => `| [\`${code}\`](/docs/errors/${code}) | ${texts[code]?.means} |`).join('\n');
  const head = '| Code | Meaning |\n|---|---|\n';
  return `## Codes of answers

${head}${rows(ApiErrorCode.options, apiErrorTexts)}

## Failed runs

${head}${rows(ErrorCode.options, runErrorTexts)}
`;
}

function page(code: string, { means, why, what, again }: ErrorText, kind: Html): PageContent {
  const path = `/docs/errors/${code}`;
  const markdown = `# ${code}

${means}

## Why it happens

${why.map((one) => `- ${one}`).join('\n')}

## What to do

${what}

## Is it retried?

${again}
`;
  return {
    path,
    title: code,
    description: toPlain(means),
    section: 'Errors',
    markdown,
    search: [
      entryOf(
        { path, title: code },
        { anchor: '', heading: 'Error code', text: `${means} ${why.join(' ')}` },
      ),
    ],
    body: html`<article class="guide error">
<p class="crumbs"><a href="/docs/errors">Errors</a></p>
<h1>${toInlineHtml(`\`${code}\``)}</h1>
<p class="lead">${toInlineHtml(means)}</p>
<p class="needs">${kind}.</p>
<h2>Why it happens</h2>
<ul>${why.map((one) => html`<li>${toInlineHtml(one)}</li>`)}</ul>
<h2>What to do</h2>
<p>${toInlineHtml(what)}</p>
<h2>Is it retried?</h2>
<p>${toInlineHtml(again)}</p>
</article>`,
  };
}
