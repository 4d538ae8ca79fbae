/**
 * `/openapi.json` and the reference below `/docs`, both made of the routes when they are first asked for, and served
 * from memory from then on.
 */
import { z } from 'zod';
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { createSite, type SiteFile } from '../docs/site.ts';
import { createOpenApi } from './openapi.ts';
import { answerPage, briefly, createPage, forEver, type Page, pageHeaders, readPageHead } from './pages.ts';
import { staticAnswers, staticRequestHeaders } from './raw-specs.ts';
import { type AnyRoute, type RawRoute, type RawSpec, rawRoute } from './route.ts';

/** @param routes every route of the service; those answered here may be added later. */
export function documentRoutes(routes: readonly AnyRoute[], baseUrl: string): RawRoute[] {
  const document = once(() => createOpenApi(routes, baseUrl));
  const json = once(() => new Map([['/openapi.json', toDocumentPage(document())]]));
  const site = once(() => toPages(createSite(document()), baseUrl));
  return [
    ...pageRoutes('/openapi.json', json, { summary: 'This document', ...jsonSpec }),
    ...pageRoutes('/docs', site, { summary: 'The reference, for people', ...pageSpec(['text/html']) }),
    ...pageRoutes('/docs/:page', site, {
      summary: 'A page of the reference',
      ...pageSpec(['text/html'], { page: { description: 'Name of the page.', example: 'errors' } }),
    }),
    ...pageRoutes('/docs/errors/:code', site, {
      summary: 'The page on an error code',
      ...pageSpec(['text/html'], {
        code: { description: '`code` or `error_code` of an answer.', example: 'rate_limited' },
      }),
    }),
    ...pageRoutes('/docs/assets/:file', site, {
      summary: 'What pages of the reference load',
      ...pageSpec(['text/css', 'image/svg+xml'], {
        file: { description: 'Name with a hash of the content.' },
      }),
    }),
  ];
}

const jsonSpec: RawSpec = {
  description: 'OpenAPI 3.1, open to every page.',
  headers: staticRequestHeaders,
  responses: {
    ...staticAnswers('The document', ['application/json'], { 'Access-Control-Allow-Origin': 'always' }),
  },
};

function pageSpec(types: readonly string[], params?: RawSpec['params']): RawSpec {
  const html = { 'Content-Security-Policy': 'always', 'X-Content-Type-Options': 'always' } as const;
  const headers = types.includes('text/html') ? html : {};
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
        if (missing) return answerPage(missing, head, exchange, 404);
        throw new Error(`no page for ${path}`);
      },
    }),
  );
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
  const html = { ...pageHeaders(baseUrl), 'Cache-Control': briefly };
  const fixed = { 'Cache-Control': forEver, 'X-Content-Type-Options': 'nosniff' };
  const headers = {
    html,
    css: { 'Content-Type': 'text/css; charset=utf-8', ...fixed },
    svg: { 'Content-Type': 'image/svg+xml', ...fixed },
  };
  return new Map([...files].map(([path, { type, text }]) => [path, createPage(text, headers[type])]));
}

function once<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
