/** The OpenAPI document of the product: valid, complete, and made of the routes alone. */
import { Validator } from '@seriousme/openapi-schema-validator';
import ajvModule from 'ajv/dist/2020.js';
import t from 'tap';
import type { JsonSchema, MediaType } from '../../schemas/openapi.ts';
import { createOpenApi } from '../../src/http/openapi.ts';
import { createContract } from '../fixtures/contract.ts';
import { baseUrl, productDocument, productRoutes } from '../fixtures/product.ts';

const document = productDocument();
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

t.test('it is valid OpenAPI 3.1, references included', async (t) => {
  const { valid, errors } = await new Validator().validate(structuredClone(document));
  t.ok(valid, JSON.stringify(errors));
  const references = new Set(JSON.stringify(document).match(/"#\/components\/[^"]+"/g));
  t.ok(references.size > 20);
  const names = Object.entries(document.components).flatMap(([kind, parts]) =>
    Object.keys(parts).map((name) => `"#/components/${kind}/${name}"`),
  );
  for (const one of references) t.ok(names.includes(one), one);
  t.equal((await new Validator().validate({ ...document, paths: { nowhere: {} } })).valid, false);
});

t.test('it is the same each time, and depends on nothing but the routes', async (t) => {
  t.equal(JSON.stringify(productDocument()), JSON.stringify(document));
  t.strictSame(createOpenApi([], baseUrl).paths, {});
});

t.test('every route that answers is in it, with every answer', async (t) => {
  for (const route of productRoutes()) {
    if (route.method === 'head' || route.method === 'options') continue;
    const name = `${route.method} ${route.path}`;
    const paths = route.kind === 'raw' && route.forms ? route.forms.map(({ path }) => path) : [route.path];
    for (const path of paths) {
      const operation = document.paths[path.replace(/:([^/]+)/g, '{$1}')]?.[route.method];
      t.ok(operation, `${name} is listed`);
      t.ok(Object.keys(operation?.responses ?? {}).length > 1, `${name} has its answers`);
    }
  }
});

t.test('every operation has a name of its own, a group and its parameters', async (t) => {
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length);
  const tags = document.tags.map(({ name }) => name);
  for (const { path, method, operation } of operations) {
    const name = `${method} ${path}`;
    t.match(operation.operationId, /^[a-z][A-Za-z0-9]*$/);
    t.ok(operation.tags.every((tag) => tags.includes(tag)) && operation.tags.length === 1, name);
    const inPath = operation.parameters.filter((one) => one.in === 'path').map((one) => one.name);
    t.strictSame(
      inPath,
      [...path.matchAll(/\{(\w+)\}/g)].map(([, one]) => one),
      name,
    );
    for (const [status, { headers, description }] of Object.entries(operation.responses)) {
      t.ok(headers['X-Request-Id'] && description !== '', `${name} ${status}`);
    }
  }
  t.match(document.paths['/api/projects/{projectId}/keys/rotate']?.post, {
    parameters: [{ name: 'projectId' }, { name: 'which', in: 'query', required: true }, { in: 'header' }],
    security: [{ session: [] }],
  });
  t.match(document.paths['/api/v1/upload']?.post, {
    requestBody: { content: { 'multipart/form-data': { schema: { required: ['file'] } } } },
  });
});

t.test('examples fit their schemas, and every description is of a field that is there', async (t) => {
  const Ajv = ajvModule.default ?? ajvModule;
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema(document as object, 'api');
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    for (const example of schema.examples ?? []) {
      const validate = ajv.getSchema(`api#/components/schemas/${name}`);
      t.ok(validate?.(example), `${name}: ${ajv.errorsText(validate?.errors)}`);
    }
  }
  const bodies = operations.flatMap(({ operation }): MediaType[] => [
    ...Object.values(operation.requestBody?.content ?? {}),
    ...Object.values(operation.responses).flatMap(({ content }) => Object.values(content ?? {})),
  ]);
  t.ok(bodies.length > 100);
  const isOpen = (schema: JsonSchema): boolean => schema.additionalProperties !== false;
  t.ok(
    bodies.every(({ schema }) => isOpen(schema)),
    'answers may gain fields',
  );
});

t.test('an answer that differs from the document is found', async (t) => {
  const contract = createContract(document);
  const headers: Record<string, string> = {
    'x-request-id': 'req_1',
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  };
  const check = (
    method: string,
    path: string,
    status: number,
    body: unknown,
    more: Record<string, string> = {},
  ) => {
    const all = { ...headers, ...more };
    contract.check(method, path, { status, body: JSON.stringify(body), header: (name) => all[name] });
  };
  const error = { error: 'not found', code: 'not_found', docs_url: `${baseUrl}/docs/errors/not_found` };
  check('GET', '/healthz', 200, { ok: true });
  check('GET', '/api/projects/x', 404, error);
  check('GET', '/nowhere', 404, error);
  check(
    'PATCH',
    '/healthz',
    405,
    { ...error, code: 'busy', docs_url: `${baseUrl}/docs/errors/busy` },
    { allow: 'GET' },
  );
  t.throws(() => check('GET', '/healthz', 201, { ok: true }), /status is not documented/);
  t.throws(() => check('GET', '/healthz', 200, { ok: 'yes' }), /does not fit/);
  t.throws(() => check('GET', '/healthz', 200, { ok: true, more: 1 }), /additional properties/);
  t.throws(
    () => check('GET', '/healthz', 200, { ok: true }, { 'content-type': 'text/plain' }),
    /type text\/plain/,
  );
  t.throws(() => check('GET', '/healthz', 200, { ok: true }, { 'x-request-id': '' }), /X-Request-Id/);
  t.throws(() => check('GET', '/healthz', 503, error), /Retry-After is missing/);
  t.throws(() => check('GET', '/api/projects/x', 404, { error: 'x' }), /code is undefined/);
  t.throws(() => check('GET', '/nowhere', 404, { ...error, docs_url: 'none' }), /docs_url is none/);
  t.throws(() => check('PATCH', '/healthz', 405, error), /Allow is missing/);
  t.throws(() => check('PATCH', '/healthz', 200, { ok: true }), /method is not documented/);
});
