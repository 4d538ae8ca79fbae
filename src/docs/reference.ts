/** The operations of one group of endpoints, as sections of a page. */
import type {
  MediaType,
  OpenApiDocument,
  Operation,
  Parameter,
  ResponseObject,
} from '../../schemas/openapi.ts';
import { curlOf, exampleOf, headerAt } from './examples.ts';
import { bodyTable, parameterTable } from './fields.ts';
import { type Html, html } from './html.ts';
import { toHtml, toInlineHtml } from './markdown.ts';

export type Listed = { method: string; path: string; operation: Operation };

/** Every operation of a tag, in the order of the document. */
export function operationsOf(document: OpenApiDocument, tag: string): Listed[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) =>
      operation.tags.includes(tag) ? [{ method, path, operation }] : [],
    ),
  );
}

/** The anchor of an operation within its page. */
export const anchorOf = ({ operationId }: Operation): string => operationId;

export function operationSection({ method, path, operation }: Listed, document: OpenApiDocument): Html {
  const { summary, description, security, parameters, responses } = operation;
  const of = (where: Parameter['in']) => parameters.filter((one) => one.in === where);
  const isOptional = security.some((one) => Object.keys(one).length === 0);
  return html`<section class="operation" id="${anchorOf(operation)}" aria-labelledby="${anchorOf(operation)}-title">
<div class="text">
<h2 id="${anchorOf(operation)}-title"><a href="#${anchorOf(operation)}">${summary}</a></h2>
<p class="endpoint"><span class="method ${method}">${method.toUpperCase()}</span> <code>${segments(path)}</code></p>
${description !== undefined && toHtml(description)}
${security.length > 0 && html`<p class="needs">${isOptional ? 'Looks at' : 'Needs'} the <a href="/docs/authentication">session cookie</a>.</p>`}
${parameterTable(of('path'), document, 'Path')}
${parameterTable(of('query'), document, 'Query')}
${parameterTable(headersWorthTelling(of('header')), document, 'Headers')}
${requestSection(operation, document)}
<h3>Answers</h3>
${Object.entries(responses).map(([status, response]) => answer(status, response, document))}
</div>
<div class="code">
<figure><figcaption>Request</figcaption><pre tabindex="0"><code>${curlOf(method, path, operation, document)}</code></pre></figure>
${exampleAnswer(responses, document)}
</div>
</section>`;
}

/** What every operation takes is told once, in the guide. */
function headersWorthTelling(headers: Parameter[]): Parameter[] {
  return headers.filter(({ name }) => name !== 'X-Request-Id');
}

function segments(path: string): Html {
  return html`${path
    .split('/')
    .filter((part) => part !== '')
    .map((part) => html`<wbr>/${part}`)}`;
}

function requestSection({ requestBody }: Operation, document: OpenApiDocument): Html | undefined {
  const [type, body] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  if (!type || !body) return undefined;
  return html`${bodyTable(body.schema, document, type === 'application/json' ? 'Body' : `Body, ${type}`)}`;
}

function answer(
  status: string,
  { description, headers, content = {} }: ResponseObject,
  document: OpenApiDocument,
) {
  const [type, body] = Object.entries(content)[0] ?? [];
  const isSuccess = status.startsWith('2') || status.startsWith('3');
  const inner = html`${headerList(headers, document)}${
    type === 'application/json' && body ? bodyTable(body.schema, document, 'Body') : types(content)
  }`;
  return html`<details class="answer"${isSuccess && type === 'application/json' && html` open`}>
<summary><span class="status s${status.charAt(0)}">${status}</span> ${description}</summary>
${inner}
</details>`;
}

function types(content: Record<string, MediaType>): Html {
  const names = Object.keys(content);
  return names.length === 0
    ? html`<p>No body.</p>`
    : html`<p>Body: ${names.map((name, index) => html`${index > 0 && ', '}<code>${name}</code>`)}</p>`;
}

/** Headers that say something; those of every answer are told in the guide. */
function headerList(headers: ResponseObject['headers'], document: OpenApiDocument): Html | undefined {
  const told = Object.entries(headers).flatMap(([name, { $ref }]) =>
    ordinary.has(name) ? [] : [{ name, description: headerAt($ref, document)?.description ?? '' }],
  );
  if (told.length === 0) return undefined;
  return html`<dl class="headers">${told.map(
    ({ name, description }) =>
      html`<div><dt><code>${name}</code></dt><dd>${toInlineHtml(description)}</dd></div>`,
  )}</dl>`;
}

const ordinary = new Set([
  'X-Request-Id',
  'Cache-Control',
  'X-Content-Type-Options',
  'Vary',
  'Content-Encoding',
]);

function exampleAnswer(responses: Operation['responses'], document: OpenApiDocument): Html | undefined {
  const found = Object.entries(responses).find(
    ([status, { content }]) => status.startsWith('2') && content?.['application/json'],
  );
  const json = found?.[1].content?.['application/json'];
  if (!found || !json || Object.keys(json.schema).length === 0) return undefined;
  const example = JSON.stringify(exampleOf(json.schema, document), undefined, 2);
  return html`<figure><figcaption>Answer <span>${found[0]}</span></figcaption><pre tabindex="0"><code>${example}</code></pre></figure>`;
}
