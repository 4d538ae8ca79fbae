/**
 * `/openapi.json` and the documentation below `/docs`, both made of the routes when they are first asked for, and served
 * from memory from then on.
 */
import { z } from 'zod';
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { createSite, movedPages, type SiteFile } from '../docs/site.ts';
import { type Exchange, endEmpty, writeHead } from './exchange.ts';
import { createOpenApi } from './openapi.ts';
import { answerPage, briefly, createPage, forEver, type Page, pageHeaders, readPageHead } from './pages.ts';
import { staticAnswers, staticRequestHeaders } from './raw-specs.ts';
import { type AnyRoute, type RawRoute, type RawSpec, rawRoute } from './route.ts';

/** @param routes every route of the service; those answered here may be added later. */
export function documentRoutes(routes: readonly AnyRoute[], baseUrl: string): RawRoute[] {
  const document = once(() => createOpenApi(routes, baseUrl));
  const json = once(() => new Map([['/openapi.json', toDocumentPage(document())]]));
  const site = once(() => toPages(createSite(document()), baseUrl));
  const onePage = pageSpec(pageTypes, {
    page: { description: `Name of the page${orTwin}.`, example: 'errors' },
  });
  return [
    ...pageRoutes('/openapi.json', json, { summary: 'This document', ...jsonSpec }),
    ...pageRoutes('/docs', site, { summary: 'The documentation, for people', ...pageSpec(pageTypes) }),
    ...pageRoutes('/docs/:page', site, {
      summary: 'A page of the documentation',
      ...onePage,
      responses: {
        ...onePage.responses,
        301: {
          description: 'The page has moved',
          headers: { Location: 'always', 'Cache-Control': 'always' },
        },
      },
    }),
    ...pageRoutes('/docs/:folder/:page', site, {
      summary: 'A page of one of its folders',
      ...pageSpec(pageTypes, {
        folder: { description: 'Name of the folder.', example: 'errors' },
        page: { description: `Name of the page${orTwin}.`, example: 'rate_limited' },
      }),
    }),
    ...pageRoutes('/docs/assets/:file', site, {
      summary: 'What pages of the documentation load',
      ...pageSpec(['text/css', 'image/svg+xml', 'text/javascript', 'application/json', 'font/woff2'], {
        file: { description: 'Name with a hash of the content.' },
      }),
    }),
    ...pageRoutes('/llms.txt', site, {
      summary: 'The documentation as a list of pages, for language models',
      ...pageSpec(['text/plain']),
    }),
    ...pageRoutes('/llms-full.txt', site, {
      summary: 'The documentation in one text, for language models',
      ...pageSpec(['text/plain']),
    }),
  ];
}

const pageTypes = ['text/html', 'text/markdown'];
const orTwin = '; with `.md` the same in Markdown';

const jsonSpec: RawSpec = {
  description: 'OpenAPI 3.1, open to every page.',
  headers: staticRequestHeaders,
  responses: {
    ...staticAnswers('The document', ['application/json'], { 'Access-Control-Allow-Origin': 'always' }),
  },
};

function pageSpec(types: readonly string[], params?: RawSpec['params']): RawSpec {
  const html = { 'Content-Security-Policy': 'always', 'X-Content-Type-Options': 'always' } as const;
  const headers = types.includes('text/html') ? ({ ...html, Link: 'always' } as const) : {};
  return {
    headers: staticRequestHeaders,
    ...(params ? { params } : {}),
    responses: {
      ...staticAnswers('The page', types, headers),
      ...(params
        ? {
            404: {
              description: 'No such page',
              content: { 'text/html': z.string() },
              headers: { 'Cache-Control': 'always', ...html },
            },
          }
        : {}),
    },
  };
}

function pageRoutes(path: string, pages: () => Map<string, Page>, spec: RawSpec): RawRoute[] {
  return (['get', 'head'] as const).map((method) =>
    rawRoute({
      method,
      path,
      ...(method === 'get' ? spec : {}),
      handle(_res, req, _services, exchange) {
        const head = readPageHead(req, method === 'head');
        const found = pages().get(req.getUrl());
        const missing = pages().get(missingPath);
        if (found) return answerPage(found, head, exchange);
        const moved = movedPages.get(req.getUrl());
        if (moved !== undefined) return redirect(moved, exchange);
        if (missing) return answerPage(missing, head, exchange, 404);
        throw new Error(`no page for ${path}`);
      },
    }),
  );
}

function redirect(location: string, exchange: Exchange): void {
  exchange.res.cork(() => {
    writeHead(exchange, 301, { Location: location, 'Cache-Control': briefly });
    endEmpty(exchange, 301, exchange.isStopping);
  });
  exchange.done(301);
}

/** Where the page for missing ones lies: no request has this path. */
const missingPath = '404';

function toDocumentPage(document: OpenApiDocument): Page {
  return createPage(JSON.stringify(document), {
    'Content-Type': 'application/json',
    'Cache-Control': briefly,
    'Access-Control-Allow-Origin': '*',
    'X-Content-Type-Options': 'nosniff',
  });
}

function toPages(files: ReadonlyMap<string, SiteFile>, baseUrl: string): Map<string, Page> {
  const html = {
    ...pageHeaders(baseUrl, ["font-src 'self'", "script-src 'self'", "connect-src 'self'"]),
    'Cache-Control': briefly,
  };
  const plain = { 'Cache-Control': briefly, 'X-Content-Type-Options': 'nosniff' };
  const fixed = { 'Cache-Control': forEver, 'X-Content-Type-Options': 'nosniff' };
  const headers = {
    html,
    md: { ...html, 'Content-Type': 'text/markdown; charset=utf-8' },
    txt: { ...plain, 'Content-Type': 'text/plain; charset=utf-8' },
    css: { 'Content-Type': 'text/css; charset=utf-8', ...fixed },
    js: { 'Content-Type': 'text/javascript; charset=utf-8', ...fixed },
    json: { 'Content-Type': 'application/json', ...fixed },
    svg: { 'Content-Type': 'image/svg+xml', ...fixed },
    woff2: { 'Content-Type': 'font/woff2', ...fixed },
  };
  return new Map(
    [...files].map(([path, { type, text, bytes, twin }]) => [
      path,
      createPage(bytes ?? text, { ...headers[type], ...(twin === undefined ? {} : linkTo(twin)) }),
    ]),
  );
}

/** A page leads to its Markdown, and Markdown to the page that it stands for. */
function linkTo(twin: string): { Link: string } {
  const relation = twin.endsWith('.md') ? 'rel="alternate"; type="text/markdown"' : 'rel="canonical"';
  return { Link: `<${twin}>; ${relation}` };
}

function once<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
