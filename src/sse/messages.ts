/**
 * Messages between processes that end streams and outdate caches: a project's keys or settings have changed, a
 * session has ended, an asset was erased. Whoever makes the change sends them once it is durable.
 */
import { z } from 'zod';
import type { Hub, OpenStream } from './hub.ts';

/** Names of the messages on the bus. */
export const projectChanged = 'project.changed';
export const sessionEnded = 'session.ended';
export const assetErased = 'asset.erased';

export const ProjectChanged = z.object({
  projectId: z.string(),
  /** The proxy key that no longer works. */
  key: z.string().optional(),
  isDeleted: z.boolean().optional(),
});
export type ProjectChanged = z.infer<typeof ProjectChanged>;

/** One session, or all of a user, or all of a user but one. */
export const SessionEnded = z.union([
  z.object({ sessionId: z.string() }),
  z.object({ userId: z.string(), exceptSessionId: z.string().optional() }),
]);
export type SessionEnded = z.infer<typeof SessionEnded>;

/** The asset and its media are gone. */
export const AssetErased = z.object({
  assetId: z.string(),
  /** Storage key of the poster that was made of its source, which is gone, too. */
  poster: z.string().optional(),
});
export type AssetErased = z.infer<typeof AssetErased>;

export type Listen = (name: string, onMessage: (body: unknown) => void) => { stop(): void };

/** Ends streams as soon as what let them in has ended (decisions 5). Messages of another shape are ignored. */
export function endStreamsOnMessages(hub: Pick<Hub, 'endWhere'>, listen: Listen): { stop(): void } {
  const subscriptions = [
    listen(projectChanged, (body) => {
      const { data } = ProjectChanged.safeParse(body);
      if (data) hub.endWhere((stream) => isOfChanged(stream, data));
    }),
    listen(sessionEnded, (body) => {
      const { data } = SessionEnded.safeParse(body);
      if (data) hub.endWhere((stream) => isOfEnded(stream, data));
    }),
    listen(assetErased, (body) => {
      const { data } = AssetErased.safeParse(body);
      if (data) hub.endWhere(({ assetId }) => assetId === data.assetId);
    }),
  ];
  return {
    stop() {
      for (const subscription of subscriptions) subscription.stop();
    },
  };
}

function isOfChanged({ projectId, grant }: OpenStream, changed: ProjectChanged): boolean {
  if (projectId !== changed.projectId) return false;
  return changed.isDeleted === true || (grant.kind === 'key' && grant.key === changed.key);
}

function isOfEnded({ grant }: OpenStream, ended: SessionEnded): boolean {
  if (grant.kind !== 'user') return false;
  if ('sessionId' in ended) return grant.sessionId === ended.sessionId;
  return (
    grant.userId === ended.userId &&
    (ended.exceptSessionId === undefined || grant.sessionId !== ended.exceptSessionId)
  );
}
