/** Whether the process lives, and whether it can do its work (decisions 10, Health). */
import { z } from 'zod';
import { type AnyRoute, reply, route } from './route.ts';

const Health = z.object({ ok: z.boolean() });
const Readiness = z.object({ ok: z.boolean(), failing: z.array(z.string()) });

const readyMs = 2_000;

const readHealth = route({
  method: 'get',
  path: '/healthz',
  summary: 'Whether the process lives',
  auth: 'none',
  responses: { 200: Health },
  handle: () => reply(200, { ok: true }),
});

const readReadiness = route({
  method: 'get',
  path: '/readyz',
  summary: 'Whether stores and bus can be reached, and what cannot',
  auth: 'none',
  responses: { 200: Readiness, 503: Readiness },
  async handle(_, { ready }) {
    const readiness = await ready(AbortSignal.timeout(readyMs));
    return readiness.ok ? reply(200, readiness) : reply(503, readiness, { 'Retry-After': '2' });
  },
});

export const healthRoutes: AnyRoute[] = [readHealth, readReadiness];
