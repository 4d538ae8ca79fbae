/** Addresses of the dashboard's pages: the only place that writes them. */
import { root } from './router.ts';

const project = (id: string) => `${root}/projects/${encodeURIComponent(id)}`;

export const paths = {
  home: root,
  signIn: `${root}/signin`,
  signUp: `${root}/signup`,
  forgot: `${root}/forgot`,
  usage: `${root}/usage`,
  account: `${root}/account`,
  newProject: `${root}/projects/new`,
  operator: `${root}/operator`,
  overview: project,
  assets: (projectId: string) => `${project(projectId)}/assets`,
  asset: (projectId: string, assetId: string) =>
    `${project(projectId)}/assets/${encodeURIComponent(assetId)}`,
  brand: (projectId: string) => `${project(projectId)}/brand`,
  content: (projectId: string) => `${project(projectId)}/content`,
  proxy: (projectId: string) => `${project(projectId)}/proxy`,
  embed: (projectId: string) => `${project(projectId)}/embed`,
  webhooks: (projectId: string) => `${project(projectId)}/webhooks`,
  settings: (projectId: string) => `${project(projectId)}/settings`,
} as const;
