/**
 * Where model providers report about predictions: `/hooks/video/{provider}` (wire formats 5).
 *
 * The address carries a token, the body a signature where the provider has one. Either may be forged by nobody, and
 * even a true report is only a hint: the status of the prediction is read, and decides.
 */
import { ErrorBody } from '../../schemas/errors.ts';
import { http, provider as limits } from '../../schemas/limits.ts';
import { collectBody } from './body.ts';
import { answerJson } from './exchange.ts';
import { type RawRoute, rawRoute } from './route.ts';

/** A report as it came. */
export type ProviderCallback = {
  provider: string;
  query: URLSearchParams;
  /** Value of a header by its name in lower case; empty without one. */
  header(name: string): string;
  body: Uint8Array;
};

/** @param receive answers 204, or 400, 401, 404 for a report that is refused. */
export function providerCallbackRoutes(receive: (callback: ProviderCallback) => Promise<number>): RawRoute[] {
  return [
    rawRoute({
      method: 'post',
      path: '/hooks/video/:provider',
      summary: 'Take a model provider’s report about a prediction',
      description:
        'For model providers alone: the address is signed, and handed to them with each prediction.',
      auth: 'none',
      params: { provider: { description: 'Name of the provider.', example: 'replicate' } },
      responses: {
        204: { description: 'Taken' },
        400: json('No report of this provider'),
        401: json('The address or the signature is not valid'),
        404: json('No such provider'),
        408: json('The body came too slowly'),
        413: json('The body is too large'),
        431: json('The head of the request is too large'),
        500: json('Internal error'),
        503: json('Unavailable: try again', { 'Retry-After': 'always' }),
      },
      async handle(_res, req, _services, exchange) {
        const provider = req.getParameter(0) ?? '';
        const query = new URLSearchParams(req.getQuery());
        const headers = new Map<string, string>();
        req.forEach((name, value) => void headers.set(name, value));

        const body = await collectBody(exchange, exchange.head.length, limits.callbackMaxBytes, http);
        if (body.kind === 'aborted') return;
        if (body.kind !== 'whole') {
          const status = body.kind === 'too slow' ? 408 : 413;
          answerJson(exchange, { status, body: { error: texts[status] } }, { close: true });
          return;
        }
        const status = await receive({
          provider,
          query,
          header: (name) => headers.get(name) ?? '',
          body: body.bytes,
        });
        const error = texts[status];
        answerJson(exchange, error === undefined ? { status } : { status, body: { error } });
      },
    }),
  ];
}

const texts: Record<number, string> = {
  400: 'not a report of this provider',
  401: 'invalid signature',
  404: 'not found',
  408: 'request timeout',
  413: 'body too large',
};

function json(description: string, more: Record<string, 'always'> = {}) {
  return {
    description,
    content: { 'application/json': ErrorBody },
    headers: { 'Cache-Control': 'always' as const, 'X-Content-Type-Options': 'always' as const, ...more },
  };
}
