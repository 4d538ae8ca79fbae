/** Where the poster of a source is kept (decisions 4, Poster): one for a project and source. */
import { createHash } from 'node:crypto';

export function posterKey(projectId: string, source: string): string {
  const url = new URL(source);
  url.hash = '';
  return `${posterFolder(projectId)}${createHash('sha256').update(url.href).digest('hex')}.jpg`;
}

/** Folder of a project's posters, with its slash. */
export function posterFolder(projectId: string): string {
  return `posters/${projectId}/`;
}
