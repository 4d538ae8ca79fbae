/** The OpenAPI 3.1 document of the service, made from the routes and their schemas once at start. */
import { z } from 'zod';
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { idempotency as limits } from '../../schemas/limits.ts';
import { sessionCookie } from '../auth/sessions.ts';
import { writeHead } from './exchange.ts';
import { type AnyRoute, paramNames, type RawRoute, type Responses, type Route, rawRoute } from './route.ts';

export type OpenApiDocument = {
  openapi: '3.1.0';
  info: { title: string; version: string; description: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { securitySchemes: object };
};

type Operation = { operationId: string; responses: Record<string, object> } & Record<string, unknown>;

/** A route that answers with the document of the others. */
export function openApiRoute(routes: readonly AnyRoute[], baseUrl: string): RawRoute {
  const body = JSON.stringify(createOpenApi(routes, baseUrl));
  return rawRoute({
    method: 'get',
    path: '/openapi.json',
    summary: 'This document',
    handle(res, _req, _services, exchange) {
      writeHead(exchange, 200, {
        'Content-Type': 'application/json',
        'Cache-Control': 'public, max-age=60',
        'Access-Control-Allow-Origin': '*',
      });
      res.end(body, exchange.isStopping);
      exchange.done(200);
    },
  });
}

/** Every route that has a summary or is typed; raw ones without their bodies. */
export function createOpenApi(routes: readonly AnyRoute[], baseUrl: string): OpenApiDocument {
  const paths: OpenApiDocument['paths'] = {};
  for (const route of routes) {
    if (route.kind === 'raw' && route.summary === undefined) continue;
    const path = route.path.replace(/:([^/]+)/g, '{$1}');
    const operations = paths[path] ?? {};
    operations[route.method] = route.kind === 'raw' ? describeRaw(route) : describe(route);
    paths[path] = operations;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animated Asset Generation Service',
      version: '1',
      description: 'Turns a still image into a short mp4 animation. Every answer carries X-Request-Id.',
    },
    servers: [{ url: baseUrl }],
    paths,
    components: {
      securitySchemes: {
        session: { type: 'apiKey', in: 'cookie', name: sessionCookie },
        bearer: { type: 'http', scheme: 'bearer', description: 'An API token: sat_…' },
      },
    },
  };
}

/**
 * Every status that a route can answer with the schema of its body: its own, and those that server.ts answers
 * for all routes of its kind.
 */
export function responsesOf(route: Route): Responses {
  const all: Responses = { 400: ValidationErrorBody, 431: ErrorBody, 500: ErrorBody, 503: ErrorBody };
  if (route.auth === 'operator') all[404] = ErrorBody;
  if (route.auth === 'session' || route.auth === 'cookie') all[401] = ErrorBody;
  if (route.auth === 'cookie') all[403] = ErrorBody;
  if (route.auth !== 'none') all[429] = RetryErrorBody;
  if (route.idempotent) Object.assign(all, { 409: ErrorBody, 422: ErrorBody });
  if (route.method !== 'get') {
    Object.assign(all, { 403: ErrorBody, 408: ErrorBody, 413: ErrorBody, 415: ErrorBody });
  }
  for (const [status, schema] of Object.entries(route.responses)) {
    const common = all[Number(status)];
    all[Number(status)] = common && common !== schema ? z.union([schema, common]) : schema;
  }
  return all;
}

function describe(route: Route): Operation {
  const responses = Object.entries(responsesOf(route)).map(([status, schema]) => [
    status,
    {
      description: descriptions[Number(status)] ?? 'Success',
      content: { 'application/json': { schema: toSchema(schema, 'output') } },
    },
  ]);
  return {
    ...common(route),
    security: securityOf(route),
    parameters: [...pathParameters(route.path), ...queryParameters(route), ...headerParameters(route)],
    ...requestBody(route),
    responses: Object.fromEntries(responses),
  };
}

function describeRaw(route: RawRoute): Operation {
  return {
    ...common(route),
    parameters: pathParameters(route.path),
    responses: { default: { description: 'See the reference' } },
  };
}

/** One of these is enough; an empty one says that nothing is needed either. */
function securityOf({ auth }: Route): object[] {
  const cookie = { session: [] };
  const either = [cookie, { bearer: [] }];
  return { none: [], cookie: [cookie], operator: [cookie], session: either, optional: [...either, {}] }[auth];
}

function common(route: AnyRoute) {
  const { method, path, summary } = route;
  return {
    operationId: operationId(method, path),
    ...(summary === undefined ? {} : { summary }),
    tags: [route.kind === 'json' && route.auth === 'operator' ? 'operator' : tagOf(path)],
  };
}

/** `get /api/projects/:projectId` is `getApiProjectsByProjectId`: unique, since method and path are. */
function operationId(method: string, path: string): string {
  const words = path.split(/[/.:-]|(?=:)/).filter((word) => word !== '');
  const names = paramNames(path);
  return [method, ...words.map((word) => (names.includes(word) ? `By${capital(word)}` : capital(word)))].join(
    '',
  );
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

function tagOf(path: string): string {
  const [first = 'service', second, third] = path.split('/').filter((part) => part !== '');
  if (first !== 'api') return first === 'v1' ? 'proxy' : 'service';
  return (second === 'v1' ? third : second) ?? 'api';
}

function pathParameters(path: string): object[] {
  return paramNames(path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', minLength: 1 },
  }));
}

function queryParameters({ query }: Route): object[] {
  if (!query) return [];
  const { properties = {}, required = [] } = toSchema(query, 'input') as {
    properties?: Record<string, object>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }));
}

function headerParameters({ idempotent }: Route): object[] {
  if (!idempotent) return [];
  const description =
    'Makes the request safe to repeat for 24 hours: a success is answered again, with Idempotent-Replayed';
  const schema = { type: 'string', minLength: 1, maxLength: limits.keyMaxChars };
  return [{ name: 'Idempotency-Key', in: 'header', required: false, description, schema }];
}

function requestBody({ body, stream }: Route): object {
  if (stream) {
    return { requestBody: { required: true, content: { [stream.contentType]: { schema: stream.schema } } } };
  }
  if (!body) return {};
  const schema = toSchema(body, 'input') as { required?: string[] };
  const required = (schema.required ?? []).length > 0;
  return { requestBody: { required, content: { 'application/json': { schema } } } };
}

function toSchema(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
  });
  return rest;
}

const descriptions: Record<number, string> = {
  400: 'The request is malformed or does not fit its schema',
  401: 'Authentication required',
  403: 'Refused',
  404: 'Not found, or not owned by the caller',
  408: 'The body took too long',
  409: 'Conflicts with what is there',
  413: 'Too large',
  415: 'Unsupported type',
  422: 'The Idempotency-Key was used for another request',
  429: 'Rate limited, or the monthly limit is reached',
  431: 'The head of the request is too large',
  500: 'Internal error',
  503: 'Unavailable or busy: try again',
};
