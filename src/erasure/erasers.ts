/**
 * What an account leaves behind, and how it goes: the list to add a line to when something new is kept of users or
 * their projects.
 *
 * Each is called again and again, from the moment the account is gone until `keptMs` later: it must be safe to
 * repeat, and go by the user's id or by project ids. The e-mail may be a new account's by then.
 */
import { erasure as limits } from '../../schemas/limits.ts';
import { posterFolder } from '../media/poster-key.ts';
import type { Storage } from '../media/storage.ts';
import type { Store } from '../store/client.ts';

export type Eraser = {
  /** For the log. */
  name: string;
  ofUser?(userId: string): Promise<void>;
  /** At most a few hundred at a time. */
  ofProjects?(projectIds: string[]): Promise<void>;
};

export type EraserPorts = {
  store: Pick<
    Store,
    | 'sessions'
    | 'tokens'
    | 'mailTokens'
    | 'outbox'
    | 'identities'
    | 'usage'
    | 'uploads'
    | 'assets'
    | 'webhooks'
    | 'deliveries'
  >;
  storage: Pick<Storage, 'delete' | 'deletePrefix'>;
  now(): number;
};

export function createErasers({ store, storage, now }: EraserPorts): Eraser[] {
  const { erased } = store.assets;
  return [
    { name: 'sessions', ofUser: store.sessions.removeOf },
    { name: 'API tokens', ofUser: (userId) => store.tokens.removeAll(userId) },
    {
      name: 'tokens sent by mail',
      ofUser: (userId) => store.mailTokens.removeOf(userId, ['verify', 'reset', 'email']),
    },
    { name: 'mails', ofUser: (userId) => store.outbox.removeOf(userId) },
    { name: 'identities at other providers', ofUser: store.identities.removeAllOf },
    { name: 'past cycles', ofUser: store.usage.removeOf },
    { name: 'uploads', ofUser: (userId) => eraseUploads(userId, now(), store, storage) },
    // Each is then erased as if its owner had asked for it: see assets.ts.
    { name: 'assets', ofProjects: (ids) => erased.markAll(ids, now()) },
    { name: 'remembered requests', ofProjects: erased.unresolveAll },
    // First the configurations: without one no delivery begins, and none is sent.
    { name: 'webhook configurations', ofProjects: store.webhooks.removeAllOf },
    { name: 'webhook deliveries', ofProjects: store.deliveries.removeAllOf },
    {
      name: 'posters',
      async ofProjects(ids) {
        for (const id of ids) await storage.deletePrefix(posterFolder(id));
      },
    },
  ];
}

const uploadsAtOnce = 100;
const extensions = ['png', 'jpg', 'webp'];

async function eraseUploads(
  userId: string,
  now: number,
  { uploads }: Pick<Store, 'uploads'>,
  storage: Pick<Storage, 'delete'>,
): Promise<void> {
  for (;;) {
    // One that is being received has its file taken away by its request, or by a later pass.
    const some = await uploads.ofUser(userId, now - limits.keptMs / 2, uploadsAtOnce);
    for (const { id, key } of some) {
      // One whose process has died may have stored its file already.
      const keys = key === null ? extensions.map((extension) => `uploads/${id}.${extension}`) : [key];
      for (const one of keys) await storage.delete(one);
      await uploads.remove(id);
    }
    if (some.length < uploadsAtOnce) return;
  }
}
