/**
 * Webhook configurations, one per project: where to send what, and the secrets that sign it.
 *
 * Secrets are sealed on their way into the store, and opened when something is signed with them or their owner looks
 * at them: one that cannot be opened holds up nobody else's deliveries.
 */
import type { ClientSession, Collection, Db, Document } from 'mongodb';
import type { WebhookEvent } from '../../schemas/events.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import { isDuplicate } from './actors.ts';
import { Secret, type SecretBox, type SecretOwner } from './sealed.ts';

/** Times are unix ms. */
export type WebhookRecord = {
  project: string;
  /** null: nothing can be sent. */
  url: string | null;
  events: WebhookEvent[];
  isEnabled: boolean;
  /** Since when it is enabled without a break. */
  enabledTs: number;
  /** null before the first save with a URL, or the first rotation. */
  secret: Secret | null;
  /** Replaced ones that still sign, newest first. */
  previous: { secret: Secret; untilTs: number }[];
  /** Raised by every change. */
  revision: number;
};

/** What its owner saves. */
export type WebhookChange = Pick<WebhookRecord, 'url' | 'events' | 'isEnabled'>;

/** What waiting deliveries are still to be told: that their address has changed, or that they are to end. */
export type Settling = 'forward' | 'disabled' | 'no_url';

type WebhookDocument = Omit<WebhookRecord, 'project' | 'secret' | 'previous'> & {
  _id: string;
  /** Sealed, like those it has replaced. */
  secret: string | null;
  previous: { secret: string; untilTs: number }[];
  /** The URL whose first delivered test has enabled webhooks: a later test of it enables nothing. */
  testedUrl: string | null;
  settling: Settling | null;
  /** Of a project that is gone: it goes too, once its deliveries are settled. */
  isEnded: boolean;
};

export type WebhookStore = ReturnType<typeof createWebhookStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const maxPrevious = 4;
const ownerOf = (project: string): SecretOwner => ({ purpose: 'webhook secret', id: project });

export function createWebhookStore(db: Db, box: SecretBox) {
  const webhooks: Collection<WebhookDocument> = db.collection('webhooks');

  const toRecord = ({
    _id,
    testedUrl: _,
    settling: __,
    isEnded: ___,
    ...rest
  }: WebhookDocument): WebhookRecord => ({
    ...rest,
    project: _id,
    secret: rest.secret === null ? null : new Secret(box, rest.secret, ownerOf(_id)),
    previous: rest.previous.map(({ secret, untilTs }) => ({
      secret: new Secret(box, secret, ownerOf(_id)),
      untilTs,
    })),
  });

  /** Fields of a record that is not there yet keep what `fresh` says. undefined: it has ended with its project. */
  const change = async (project: string, set: Document): Promise<WebhookRecord | undefined> => {
    const update = [{ $set: { ...whereMissing(fresh), ...set, revision: increased('revision') } }];
    const options = { upsert: true, returnDocument: 'after', ...durable } as const;
    const filter = { _id: project, isEnded: { $ne: true } };
    // Of two first saves at once the second finds what the first has made; one that has ended is found by nobody.
    for (let tries = 1; tries <= 2; tries += 1) {
      try {
        const after = await webhooks.findOneAndUpdate(filter, update, options);
        if (after) return toRecord(after);
      } catch (cause) {
        if (!isDuplicate(cause)) throw cause;
      }
    }
    return undefined;
  };

  return {
    async ensureIndexes(): Promise<void> {
      await webhooks.createIndex(
        { settling: 1 },
        { partialFilterExpression: { settling: { $type: 'string' } } },
      );
    },

    async find(project: string): Promise<WebhookRecord | undefined> {
      const found = await webhooks.findOne({ _id: project });
      return found ? toRecord(found) : undefined;
    },

    /** Configurations of some projects, by project. One round trip. */
    async findMany(projects: string[]): Promise<Map<string, WebhookRecord>> {
      const found = await webhooks.find({ _id: { $in: projects } }).toArray();
      return new Map(found.map((one) => [one._id, toRecord(one)]));
    },

    /**
     * Saves a configuration; the first one with a URL gets `newSecret`. Notes what waiting deliveries must hear.
     * undefined: it has ended with its project.
     */
    async save(
      project: string,
      { url, events, isEnabled }: WebhookChange,
      newSecret: string,
      now: number,
    ): Promise<WebhookRecord | undefined> {
      const isSameUrl = { $eq: ['$url', { $literal: url }] };
      const sealed = box.seal(newSecret, ownerOf(project));
      return change(project, {
        url: { $literal: url },
        events: { $literal: events },
        isEnabled,
        enabledTs: isEnabled ? { $cond: [{ $eq: ['$isEnabled', true] }, '$enabledTs', now] } : 0,
        secret:
          url === null ? { $ifNull: ['$secret', null] } : { $ifNull: ['$secret', { $literal: sealed }] },
        testedUrl: { $cond: [isSameUrl, { $ifNull: ['$testedUrl', null] }, null] },
        settling: settlingOf(url, isEnabled, isSameUrl),
      });
    },

    /** Replaces the secret; the one before goes on signing for a day. Makes the configuration where there is none. */
    async rotateSecret(project: string, newSecret: string, now: number): Promise<WebhookRecord | undefined> {
      const untilTs = now + limits.rotationMs;
      const valid = {
        $filter: { input: { $ifNull: ['$previous', []] }, cond: { $gt: ['$$this.untilTs', now] } },
      };
      const replaced = {
        $cond: [{ $eq: [{ $ifNull: ['$secret', null] }, null] }, [], [{ secret: '$secret', untilTs }]],
      };
      return change(project, {
        secret: { $literal: box.seal(newSecret, ownerOf(project)) },
        previous: { $slice: [{ $concatArrays: [replaced, valid] }, maxPrevious] },
      });
    },

    /**
     * A test has been delivered to a URL: the first one enables webhooks (decisions 6, Test). Answers whether it
     * did. Safe to repeat.
     */
    async enableByTest(project: string, url: string, now: number): Promise<boolean> {
      const update = [
        {
          $set: {
            testedUrl: { $literal: url },
            enabledTs: { $cond: ['$isEnabled', '$enabledTs', now] },
            isEnabled: true,
            settling: { $cond: [{ $eq: ['$settling', 'disabled'] }, null, '$settling'] },
            revision: increased('revision'),
          },
        },
      ];
      const result = await webhooks.updateOne(
        { _id: project, url, testedUrl: { $ne: url } },
        update,
        durable,
      );
      return result.modifiedCount === 1;
    },

    /** Configurations whose waiting deliveries are still to be told something. */
    async settling(
      limit: number,
    ): Promise<{ project: string; revision: number; settling: Settling; isEnded: boolean }[]> {
      const found = await webhooks
        .find({ settling: { $type: 'string' } })
        .limit(limit)
        .toArray();
      return found.flatMap(({ _id, revision, settling, isEnded }) =>
        settling === null ? [] : [{ project: _id, revision, settling, isEnded }],
      );
    },

    /** All have been told. What has changed since stays to be settled. */
    async settled(project: string, revision: number): Promise<void> {
      await webhooks.deleteOne({ _id: project, revision, isEnded: true }, durable);
      await webhooks.updateOne({ _id: project, revision }, { $set: { settling: null } }, durable);
    },

    /** For the erasure of an account. */
    async removeAllOf(projects: string[]): Promise<void> {
      await webhooks.deleteMany({ _id: { $in: projects } }, durable);
    },
  };
}

/** Part of the transaction that deletes a project: from here on nothing of it is sent. */
export async function endWebhooks(db: Db, project: string, session: ClientSession): Promise<void> {
  const webhooks: Collection<WebhookDocument> = db.collection('webhooks');
  await webhooks.updateOne(
    { _id: project },
    {
      $set: { url: null, isEnabled: false, secret: null, previous: [], settling: 'no_url', isEnded: true },
      $inc: { revision: 1 },
    },
    { session },
  );
}

const fresh = {
  url: null,
  events: ['asset.completed', 'asset.failed'],
  isEnabled: false,
  enabledTs: 0,
  secret: null,
  previous: [],
  testedUrl: null,
  settling: null,
  isEnded: false,
};

function whereMissing(fields: Record<string, unknown>): Document {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, { $ifNull: [`$${name}`, { $literal: value }] }]),
  );
}

const increased = (field: string) => ({ $add: [{ $ifNull: [`$${field}`, 0] }, 1] });

/** What a save means for deliveries that wait. Who enables again does not want what waits to end. */
function settlingOf(url: string | null, isEnabled: boolean, isSameUrl: Document): unknown {
  if (url === null) return 'no_url';
  if (!isEnabled) return 'disabled';
  const isForwarding = { $or: [{ $not: [isSameUrl] }, { $eq: ['$settling', 'forward'] }] };
  return { $cond: [isForwarding, 'forward', null] };
}
