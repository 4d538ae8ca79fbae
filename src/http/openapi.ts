/**
 * The OpenAPI 3.1 document of the service, made from the routes and their schemas: nothing in it stands anywhere
 * else. HEAD goes where GET goes, and OPTIONS anywhere: neither is listed.
 */
import { z } from 'zod';
import { ErrorBody, RetryErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { idempotency, http as limits } from '../../schemas/limits.ts';
import type {
  HeaderObject,
  JsonSchema,
  OpenApiDocument,
  Operation,
  Parameter,
  ResponseObject,
} from '../../schemas/openapi.ts';
import { sessionCookie } from '../auth/sessions.ts';
import { answerHeaders, type HeaderName } from './openapi-headers.ts';
import { type Components, createComponents } from './openapi-schemas.ts';
import { tagOf, tagsOf } from './openapi-tags.ts';
import type { AnswerSpec, AnyRoute, RawRoute, RawSpec, Responses, Route } from './route.ts';

/** Every JSON route, and every raw one that has a summary or forms. */
export function createOpenApi(routes: readonly AnyRoute[], baseUrl: string): OpenApiDocument {
  const components = createComponents();
  const listed = routes.flatMap((route) => (route.kind === 'json' ? [route] : formsOf(route)));
  // Outputs first: what goes in gets another name where it differs.
  const answers = listed.map((route) => describeAnswers(route, components));
  const paths: OpenApiDocument['paths'] = {};
  listed.forEach((route, index) => {
    const path = route.path.replace(/:([^/]+)/g, '{$1}');
    const operation = describe(route, path, answers[index] ?? {}, components);
    paths[path] = { ...paths[path], [route.method]: operation };
  });
  return {
    openapi: '3.1.0',
    info: {
      title: 'Animated Asset Generation Service',
      version: '1',
      description: `Turns a still image into a short mp4 animation at an address that never changes. The guides and the meaning of every error code are at ${baseUrl}/docs.`,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: baseUrl }],
    tags: tagsOf(Object.keys(paths)),
    paths,
    components: {
      schemas: components.all(),
      headers: headerComponents(),
      securitySchemes: {
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: sessionCookie,
          description: 'The cookie that sign-up and sign-in set.',
        },
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
  const all: Responses = {
    400: ValidationErrorBody,
    431: ErrorBody,
    500: ErrorBody,
    503: RetryErrorBody.or(ErrorBody),
  };
  if (route.auth === 'session' || route.auth === 'cookie') all[401] = ErrorBody;
  if (route.auth === 'cookie') all[403] = ErrorBody;
  if (route.auth === 'operator' || route.params.length > 0) all[404] = ErrorBody;
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

/** A raw route as the document lists it: once, or once for each form of its path. */
type Listed = Route | (RawSpec & { kind: 'raw'; method: RawRoute['method']; path: string });

function formsOf(route: RawRoute): Listed[] {
  const { method, forms } = route;
  if (method === 'head' || method === 'options') return [];
  if (forms) return forms.map((form) => ({ kind: 'raw', method, ...form }));
  return route.summary === undefined ? [] : [route];
}

function describe(
  route: Listed,
  path: string,
  responses: Operation['responses'],
  components: Components,
): Operation {
  const { method, summary, description } = route;
  return {
    operationId: operationId(method, path),
    summary: summary ?? `${method.toUpperCase()} ${path}`,
    ...(description === undefined ? {} : { description }),
    tags: [tagOf(path)],
    security: securityOf(route),
    parameters: [...pathParameters(route, path), ...queryParameters(route, components), ...headersOf(route)],
    ...requestBody(route, components),
    responses,
  };
}

/** One of these is enough; an empty one says that nothing is needed either. */
function securityOf({ auth = 'none' }: Listed): Operation['security'] {
  const cookie = { session: [] };
  const either = [cookie, { bearer: [] }];
  return { none: [], cookie: [cookie], operator: [cookie], session: either, optional: [...either, {}] }[auth];
}

/** `get /api/projects/{projectId}` is `getApiProjectsByProjectId`: unique, since method and path are. */
function operationId(method: string, path: string): string {
  const words = path
    .split('/')
    .flatMap((segment) => segment.split(/[.-]|(?<=\})/))
    .filter((word) => word !== '')
    .map((word) => (word.startsWith('{') ? `By${camel(word.slice(1, -1))}` : camel(word)));
  return [method, ...words].join('');
}

function camel(words: string): string {
  return words.replace(/(?:^|_)([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());
}

// ── Parameters ──────────────────────────────────────────────────────────────────────────────────

function pathParameters(route: Listed, path: string): Parameter[] {
  const about = route.kind === 'raw' ? (route.params ?? {}) : {};
  const names = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name = '']) => name);
  return names.map((name) => {
    const { description = idText(name), example } = about[name] ?? {};
    return {
      name,
      in: 'path',
      required: true,
      description,
      schema: { type: 'string', minLength: 1 },
      ...(example === undefined ? {} : { example }),
    };
  });
}

/** `projectId` is the id of the project. */
function idText(name: string): string {
  const thing = name.replace(/_?id$/i, '').toLowerCase();
  return thing === '' ? 'The id.' : `Id of the ${thing}.`;
}

function queryParameters({ query }: Listed, components: Components): Parameter[] {
  if (!query) return [];
  const { properties = {}, required = [] } = resolved(components.of(query, 'input'), components);
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema,
  }));
}

function resolved(schema: JsonSchema, components: Components): JsonSchema {
  if (schema.$ref === undefined) return schema;
  return components.all()[schema.$ref.replace('#/components/schemas/', '')] ?? schema;
}

function headersOf(route: Listed): Parameter[] {
  const own = route.kind === 'raw' ? Object.entries(route.headers ?? {}) : [];
  const requestId: Parameter = {
    name: 'X-Request-Id',
    in: 'header',
    required: false,
    description: `Echoed in the answer, and found in logs, events and webhooks, when it has ${limits.requestIdMinChars} to ${limits.requestIdMaxChars} word characters and hyphens; any other is replaced.`,
    schema: { type: 'string' },
  };
  return [
    ...own.map(
      ([name, description]): Parameter => ({
        name,
        in: 'header',
        required: false,
        description,
        schema: { type: 'string' },
      }),
    ),
    ...(route.kind === 'json' && route.idempotent ? [idempotencyKey] : []),
    requestId,
  ];
}

const idempotencyKey: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Makes the request safe to repeat for 24 hours: a success is answered again, with Idempotent-Replayed.',
  schema: { type: 'string', minLength: 1, maxLength: idempotency.keyMaxChars },
};

function requestBody(route: Listed, components: Components): Pick<Operation, 'requestBody'> {
  if (route.kind === 'raw') return {};
  const { body, stream } = route;
  if (stream) {
    return { requestBody: { required: true, content: { [stream.contentType]: { schema: stream.schema } } } };
  }
  if (!body) return {};
  const schema = components.of(body, 'input');
  const required = (resolved(schema, components).required ?? []).length > 0;
  return { requestBody: { required, content: { 'application/json': { schema } } } };
}

// ── Answers ─────────────────────────────────────────────────────────────────────────────────────

function describeAnswers(route: Listed, components: Components): Operation['responses'] {
  const specs = route.kind === 'json' ? jsonAnswers(route) : (route.responses ?? {});
  return Object.fromEntries(
    Object.entries(specs).map(([status, spec]) => [status, describeAnswer(spec, components)]),
  );
}

function jsonAnswers(route: Route): Record<number, AnswerSpec> {
  const specs = Object.entries(responsesOf(route)).map(([text, schema]): [string, AnswerSpec] => {
    const status = Number(text);
    const hasBody = !(schema instanceof z.ZodUndefined);
    const headers = { ...headersAt(route, status, hasBody), ...route.answerHeaders?.[status] };
    const description = meanings[status] ?? 'Done';
    return [text, { description, headers, ...(hasBody ? { content: { 'application/json': schema } } : {}) }];
  });
  return Object.fromEntries(specs);
}

/** What server.ts writes beside the handler's own headers. */
function headersAt(
  { auth, idempotent }: Route,
  status: number,
  hasBody: boolean,
): Partial<Record<HeaderName, 'always' | 'sometimes'>> {
  const isDone = status < 300;
  const isUser = auth !== 'none';
  const rows: [isHere: boolean, name: HeaderName, presence: 'always' | 'sometimes'][] = [
    [hasBody, 'Cache-Control', 'always'],
    [hasBody, 'X-Content-Type-Options', 'always'],
    [status === 503, 'Retry-After', 'always'],
    [status === 429, 'Retry-After', 'sometimes'],
    [status === 401, 'WWW-Authenticate', 'sometimes'],
    [status === 415, 'Accept-Encoding', 'sometimes'],
    [isUser, 'RateLimit-Policy', 'sometimes'],
    [isUser, 'RateLimit', 'sometimes'],
    [isUser && isDone, 'Set-Cookie', 'sometimes'],
    [isDone && idempotent !== false, 'Idempotent-Replayed', 'sometimes'],
  ];
  return Object.fromEntries(rows.flatMap(([isHere, name, presence]) => (isHere ? [[name, presence]] : [])));
}

function describeAnswer(
  { description, content, headers = {} }: AnswerSpec,
  components: Components,
): ResponseObject {
  const bodies = Object.entries(content ?? {}).map(([type, schema]) => [
    type,
    { schema: schema instanceof z.ZodType ? components.of(schema, 'output') : schema },
  ]);
  return {
    description,
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
      ...Object.fromEntries(
        Object.entries(headers).map(([name, presence]) => [
          name,
          { $ref: `#/components/headers/${presence === 'always' ? name : `${name}-Sometimes`}` },
        ]),
      ),
    },
    ...(bodies.length === 0 ? {} : { content: Object.fromEntries(bodies) }),
  };
}

/** Each header twice: whether it must be there is a part of what is referred to. */
function headerComponents(): Record<string, HeaderObject> {
  return Object.fromEntries(
    Object.entries(answerHeaders).flatMap(([name, header]) => [
      [name, { ...header, required: true }],
      [`${name}-Sometimes`, { ...header, required: false }],
    ]),
  );
}

const meanings: Record<number, string> = {
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
  502: 'The last generation failed',
  503: 'Unavailable or busy: try again',
};
