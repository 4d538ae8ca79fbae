/** Saving the proxy configuration of a project. */
import type { ProxyConfigRequest, ProxyConfigResponse } from '../../../schemas/project.ts';
import { post, put } from '../api.ts';
import { projects } from '../project.ts';

/** @returns the signing secret when this save made it. @throws {ApiError} */
export async function saveProxy(projectId: string, change: ProxyConfigRequest): Promise<string | null> {
  const path = `/api/projects/${projectId}/proxy-config`;
  const { project } = await put<ProxyConfigResponse>(path, change);
  const { signing_secret: secret, ...fields } = project;
  projects.trigger.changed({ id: projectId, fields });
  return secret;
}

/** @throws {ApiError} */
export async function rotateProxyKey(projectId: string): Promise<void> {
  const { proxy_key } = await post<{ proxy_key: string }>(
    `/api/projects/${projectId}/keys/rotate?which=proxy`,
  );
  projects.trigger.changed({ id: projectId, fields: { proxy_key } });
}

/** @returns the new secret. @throws {ApiError} */
export async function rotateSigningSecret(projectId: string): Promise<string> {
  const { signing_secret } = await post<{ signing_secret: string }>(
    `/api/projects/${projectId}/keys/rotate?which=signing`,
  );
  return signing_secret;
}
