/**
 * GET /embed.js: the script of `<animated-asset>` (src/embed), for pages of customers (decisions 4, Embed script).
 * Any page may load it, with `crossorigin` too.
 */
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { answerPage, briefly, createPage, type Page, readPageHead } from './pages.ts';
import { staticAnswers, staticRequestHeaders } from './raw-specs.ts';
import { type RawRoute, type RawSpec, rawRoute } from './route.ts';

/** The routes of the script. It is read when it is first asked for. */
export function embedRoutes(): RawRoute[] {
  let page: Page | undefined;
  return (['get', 'head'] as const).map((method) =>
    rawRoute({
      method,
      path: '/embed.js',
      ...(method === 'get' ? spec : {}),
      handle(_res, req, _services, exchange) {
        const head = readPageHead(req, method === 'head');
        page ??= createPage(readFileSync(built, 'utf8'), headers);
        return answerPage(page, head, exchange);
      },
    }),
  );
}

/** Browsers run what the build made of it; from sources, tests find the build beside them. */
const built = new URL(
  extname(import.meta.url) === '.js' ? '../embed/embed.js' : '../../dist/src/embed/embed.js',
  import.meta.url,
);

const headers = {
  'Content-Type': 'text/javascript; charset=utf-8',
  // Its address is in pages for ever: a new release must reach them soon, and no page waits for that.
  'Cache-Control': briefly,
  'X-Content-Type-Options': 'nosniff',
  'Access-Control-Allow-Origin': '*',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Timing-Allow-Origin': '*',
};

const spec: RawSpec & { summary: string } = {
  summary: 'The script of the `<animated-asset>` element',
  description:
    'A web component without dependencies: `<animated-asset src="{proxy URL}" alt="…">` shows the poster at once, asks until the animation is ready, and plays it. See the guide on the proxy.',
  auth: 'none',
  headers: staticRequestHeaders,
  responses: staticAnswers('The script', ['text/javascript'], {
    'Access-Control-Allow-Origin': 'always',
    'X-Content-Type-Options': 'always',
  }),
};
