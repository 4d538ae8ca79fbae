/** Projects, their proxy configuration and keys (specification 4.2, decisions 2). */
import { z } from 'zod';
import { ErrorBody, UpgradeErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { project as limits } from '../../schemas/limits.ts';
import { plans } from '../../schemas/plans.ts';
import {
  CreatedProjectResponse,
  CreateProjectRequest,
  type Project,
  ProjectList,
  ProjectResponse,
  ProxyConfigRequest,
  ProxyConfigResponse,
  RotateKeyQuery,
  RotateKeyResponse,
  UpdateProjectRequest,
} from '../../schemas/project.ts';
import { OkResponse } from '../../schemas/user.ts';
import { normaliseHost, normaliseOrigin } from '../auth/origins.ts';
import { newProxyKey, newSigningSecret } from '../auth/project-keys.ts';
import type { ProjectRecord, ProxyConfigChange } from '../store/projects.ts';
import { type AnyRoute, reply, route } from './route.ts';

const createProject = route({
  method: 'post',
  path: '/api/projects',
  summary: 'Make a project',
  idempotent: true,
  body: CreateProjectRequest,
  responses: { 201: CreatedProjectResponse, 400: ValidationErrorBody, 403: ErrorBody },
  async handle({ userId, body, operation }, { store, newId, now }) {
    const id = operation?.id('prj') ?? newId('prj');
    // An attempt that was cut short may have made it.
    const made = operation && (await store.projects.findOwned(id, userId));
    if (made) return reply(201, { project: toProject(made) });
    if ((await store.projects.count(userId)) >= limits.maxPerUser) {
      return reply(403, { error: `at most ${limits.maxPerUser} projects` });
    }
    const { name, ...rest } = body;
    const fields = defined(rest);
    const project = await store.projects.create({
      id,
      userId,
      name,
      createdTs: now(),
      ...fields,
    });
    return reply(201, { project: toProject(project) });
  },
});

const listProjects = route({
  method: 'get',
  path: '/api/projects',
  summary: 'List projects, oldest first',
  responses: { 200: ProjectList },
  async handle({ userId }, { store }) {
    const projects = await store.projects.list(userId, limits.maxPerUser);
    return reply(200, { projects: projects.map(toProject) });
  },
});

const readProject = route({
  method: 'get',
  path: '/api/projects/:projectId',
  summary: 'Read a project',
  responses: { 200: ProjectResponse, 404: ErrorBody },
  async handle({ userId, projectId }, { store, countAssets }) {
    const project = await store.projects.findOwned(projectId, userId);
    if (!project) return reply(404, notFound);
    const compositionCount = await countAssets({ projectId });
    return reply(200, { project: toProject(project), compositionCount });
  },
});

const updateProject = route({
  method: 'put',
  path: '/api/projects/:projectId',
  summary: 'Change a project',
  body: UpdateProjectRequest,
  responses: { 200: OkResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, body }, { store, onProjectChanged, now }) {
    if (!(await store.projects.update(projectId, userId, defined(body), now()))) return reply(404, notFound);
    await onProjectChanged(projectId, {});
    return reply(200, { ok: true });
  },
});

const deleteProject = route({
  method: 'delete',
  path: '/api/projects/:projectId',
  summary: 'Delete a project',
  description:
    'Its keys stop working at once, its runs are cancelled. Addresses of media that were handed out keep working.',
  responses: { 200: OkResponse, 404: ErrorBody },
  async handle({ userId, projectId, requestId }, { store, onProjectDeleted }) {
    const removed = await store.projects.remove(projectId, userId);
    if (!removed) return reply(404, notFound);
    await onProjectDeleted(projectId, oldKeyOf(removed), requestId);
    return reply(200, { ok: true });
  },
});

const configureProxy = route({
  method: 'put',
  path: '/api/projects/:projectId/proxy-config',
  summary: 'Save the proxy configuration',
  description:
    'The first save makes the project key. Enabling signing makes the signing secret, which this answer alone shows.',
  body: ProxyConfigRequest,
  responses: {
    200: ProxyConfigResponse,
    400: z.union([UpgradeErrorBody, ValidationErrorBody]),
    404: ErrorBody,
  },
  async handle({ userId, projectId, body }, { store, config, onProjectChanged, now }) {
    const issues = [...wrongEntries('allowed_origins', body.allowed_origins, normaliseOrigin)];
    issues.push(...wrongEntries('source_hosts', body.source_hosts, normaliseHost));
    if (issues[0]) return reply(400, { error: `invalid request: ${issues[0].message}`, issues });
    if (body.overage_enabled) {
      const user = await store.users.find(userId);
      if (!user || plans[user.plan].overageCents === null) {
        const upgrade_url = `${config.baseUrl}/dashboard/billing`;
        return reply(400, { error: 'overage needs a paid plan', upgrade_url });
      }
    }
    const secret = newSigningSecret();
    const keys = { proxyKey: newProxyKey(), ...signingChange(body.enable_signing, secret) };
    const project = await store.projects.configureProxy(projectId, userId, toChange(body), keys, now());
    if (!project) return reply(404, notFound);
    await onProjectChanged(projectId, {});
    // Shown only by the save that made it: one that was there before is not this one.
    const shown = body.enable_signing && project.signingSecret?.open() === secret ? secret : null;
    return reply(200, { project: { ...toProxyConfig(project), signing_secret: shown } });
  },
});

const rotateKey = route({
  method: 'post',
  path: '/api/projects/:projectId/keys/rotate',
  summary: 'Rotate a key',
  description:
    'Replaces the project key or the signing secret. The old one stops working within a second, everywhere.',
  query: RotateKeyQuery,
  responses: { 200: RotateKeyResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ userId, projectId, query }, { store, onProjectChanged, now }) {
    if (query.which === 'proxy') {
      const proxy_key = newProxyKey();
      const before = await store.projects.rotateProxyKey(projectId, userId, proxy_key, now());
      if (!before) return reply(404, notFound);
      await onProjectChanged(projectId, oldKeyOf(before));
      return reply(200, { proxy_key });
    }
    if (!(await store.projects.findOwned(projectId, userId))) return reply(404, notFound);
    const signing_secret = newSigningSecret();
    const isRotated = await store.projects.rotateSigningSecret(projectId, userId, signing_secret, now());
    if (!isRotated) return reply(400, { error: 'signing is not enabled' });
    await onProjectChanged(projectId, {});
    return reply(200, { signing_secret });
  },
});

export const projectRoutes: AnyRoute[] = [
  createProject,
  listProjects,
  readProject,
  updateProject,
  deleteProject,
  configureProxy,
  rotateKey,
];

// Someone else's project answers like none at all, so that ids cannot be probed.
const notFound = { error: 'not found' };

/** A project as its owner sees it, without its secret. */
export function toProject(project: ProjectRecord): Project {
  const { id, name, domains, brandConfig, isDefault, contentInventory, messagingContext, crawledTs } =
    project;
  return {
    id,
    name,
    domains,
    brandConfig,
    isDefault,
    contentInventory,
    messagingContext,
    crawledAt: crawledTs === null ? null : new Date(crawledTs).toISOString(),
    createdAt: new Date(project.createdTs).toISOString(),
    updatedAt: new Date(project.updatedTs).toISOString(),
    ...toProxyConfig(project),
    signing_secret: null,
  };
}

function toProxyConfig(project: ProjectRecord) {
  return {
    proxy_key: project.proxyKey,
    allowed_origins: project.allowedOrigins === null ? null : JSON.stringify(project.allowedOrigins),
    default_motion: project.defaultMotion,
    default_dur_seconds: project.defaultDurSeconds,
    default_mode: project.defaultMode,
    signing_enabled: project.signingSecret !== null,
    source_hosts: project.sourceHosts,
    overage_enabled: project.overageEnabled,
    overage_cap_cents: project.overageCapCents,
  };
}

function toChange(body: ProxyConfigRequest): ProxyConfigChange {
  return defined({
    allowedOrigins: body.allowed_origins && normalised(body.allowed_origins, normaliseOrigin),
    sourceHosts: body.source_hosts && normalised(body.source_hosts, normaliseHost),
    defaultMotion: body.default_motion,
    defaultDurSeconds: body.default_dur_seconds,
    defaultMode: body.default_mode,
    overageEnabled: body.overage_enabled,
    overageCapCents: body.overage_cap_cents,
  });
}

/** Each entry once, in the order given. */
function normalised(entries: string[], normalise: (text: string) => string | undefined): string[] {
  return [...new Set(entries.map((entry) => normalise(entry)).filter((entry) => entry !== undefined))];
}

function wrongEntries(
  field: string,
  entries: string[] | null | undefined,
  normalise: (text: string) => string | undefined,
): { path: string; message: string }[] {
  return (entries ?? []).flatMap((entry, index) =>
    normalise(entry) === undefined
      ? [{ path: `${field}.${index}`, message: `${JSON.stringify(entry)} is not accepted in ${field}` }]
      : [],
  );
}

/** What `enable_signing` does to the secret; absent: nothing. */
function signingChange(enable: boolean | undefined, secret: string): { signingSecret?: string | null } {
  if (enable === undefined) return {};
  return { signingSecret: enable ? secret : null };
}

function oldKeyOf({ proxyKey }: ProjectRecord): { oldKey?: string } {
  return proxyKey === null ? {} : { oldKey: proxyKey };
}

/** Without the fields that were not sent. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const sent = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(sent) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
