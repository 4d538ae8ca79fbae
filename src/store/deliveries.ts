/** Webhook deliveries: the actor documents of kind `delivery` with the queries of their resource and sender. */
import type { Collection, Db, Filter } from 'mongodb';
import type { DeliveryContext } from '../../machines/delivery.ts';
import type { DeliveryEvent } from '../../schemas/events.ts';
import type { DeliveryStatus } from '../../schemas/webhook.ts';
import { type ActorDocument, createActorStore } from './actors.ts';
import { inPieces } from './in-pieces.ts';

/** A delivery document with its machine's context in its own type. */
export type DeliveryDocument = Omit<ActorDocument, 'machine' | 'index' | 'fixed'> & {
  machine: { version: number; value: unknown; context: DeliveryContext };
  index: { assetId: string | null; eventType: DeliveryEvent };
  fixed: { payload: string; expiresAt: Date };
};

export type DeliveryFilter = { status?: DeliveryStatus; eventType?: DeliveryEvent; assetId?: string };

/** Where a listing goes on: after this delivery, newest first. */
export type DeliveryCursor = { createdTs: number; id: string };

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;

/** Named in queries too: the planner may prefer another one, and would then read and sort all that waits. */
const toSendIndex = 'to send';
const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createDeliveryStore(db: Db) {
  const actors = createActorStore(db, 'deliveries', [
    { project: 1, createdTs: -1, _id: -1 },
    { project: 1, state: 1, createdTs: -1, _id: -1 },
    { project: 1, 'index.assetId': 1, createdTs: -1 },
  ]);
  const documents = actors.collection as unknown as Collection<DeliveryDocument>;

  return {
    actors,

    async ensureIndexes(): Promise<void> {
      await actors.ensureIndexes();
      await documents.createIndexes([
        { key: { 'fixed.expiresAt': 1 }, expireAfterSeconds: 0 },
        {
          key: { state: 1, partition: 1, project: 1, enteredTs: 1 },
          name: toSendIndex,
          partialFilterExpression: { state: 'sending' },
        },
      ]);
    },

    async find(project: string, id: string): Promise<DeliveryDocument | undefined> {
      return (await documents.findOne({ _id: id, project })) ?? undefined;
    },

    /** A page without payloads, facts and previews, newest first. */
    async list(
      project: string,
      { status, eventType, assetId }: DeliveryFilter,
      limit: number,
      after?: DeliveryCursor,
    ): Promise<DeliveryDocument[]> {
      const filter: Filter<DeliveryDocument> = { project };
      if (status) filter.state = status === 'pending' ? 'sending' : status;
      if (eventType) filter['index.eventType'] = eventType;
      if (assetId) filter['index.assetId'] = assetId;
      if (after) {
        filter.$or = [
          { createdTs: { $lt: after.createdTs } },
          { createdTs: after.createdTs, _id: { $lt: after.id } },
        ];
      }
      return documents
        .find(filter, { projection: { facts: 0, work: 0, fixed: 0, 'machine.context.preview': 0 } })
        .sort({ createdTs: -1, _id: -1 })
        .limit(limit)
        .toArray();
    },

    /** Facts of an asset's newest deliveries with the ids of these, in no promised order. */
    async factsOf(project: string, assetId: string, limit: number): Promise<Record<string, unknown>[]> {
      const found = await documents
        .find({ project, 'index.assetId': assetId }, { projection: { facts: 1 } })
        .sort({ createdTs: -1 })
        .limit(limit)
        .toArray();
      return found.flatMap(({ _id, facts }) => facts.map((fact) => ({ ...fact, delivery_id: _id })));
    },

    /** Deliveries of a project in a state, oldest first, with the number of attempts that each has made. */
    async inState(
      project: string,
      state: 'dead' | 'retrying' | 'sending',
      limit: number,
      { sinceTs = 0, after }: { sinceTs?: number; after?: DeliveryCursor } = {},
    ): Promise<{ id: string; made: number; createdTs: number }[]> {
      const filter: Filter<DeliveryDocument> = { project, state, createdTs: { $gte: sinceTs } };
      if (after) {
        filter.$or = [
          { createdTs: { $gt: after.createdTs } },
          { createdTs: after.createdTs, _id: { $gt: after.id } },
        ];
      }
      const found = await documents
        .find(filter, { projection: { createdTs: 1, 'machine.context.made': 1 } })
        .sort({ createdTs: 1, _id: 1 })
        .limit(limit)
        .toArray();
      return found.map(({ _id, createdTs, machine }) => ({
        id: _id,
        made: machine.context.made,
        createdTs,
      }));
    },

    /** The oldest deliveries of a project that are to be sent, of those due at or after a time (unix ms). */
    async toSend(
      partition: number,
      project: string,
      limit: number,
      sinceTs: number,
    ): Promise<ActorDocument[]> {
      return actors.collection
        .find(
          { state: 'sending', partition, project, enteredTs: { $gte: sinceTs } },
          { projection: { facts: 0, work: 0 }, hint: toSendIndex },
        )
        .sort({ enteredTs: 1 })
        .limit(limit)
        .toArray();
    },

    /** Projects that have something to send, in some partitions, and how much. */
    async projectsToSend(
      partitions: number[],
    ): Promise<{ project: string; partition: number; count: number }[]> {
      const found = await documents
        .aggregate<{ _id: { project: string; partition: number }; count: number }>(
          [
            { $match: { state: 'sending', partition: { $in: partitions } } },
            { $group: { _id: { project: '$project', partition: '$partition' }, count: { $sum: 1 } } },
          ],
          { hint: toSendIndex },
        )
        .toArray();
      return found.map(({ _id, count }) => ({ ..._id, count }));
    },

    /** For the erasure of an asset. Safe to repeat. */
    async removeOf(project: string, assetId: string): Promise<void> {
      await documents.deleteMany({ project, 'index.assetId': assetId }, durable);
    },

    /** For the erasure of an account: everything about these projects' deliveries goes. */
    async removeAllOf(projects: string[]): Promise<void> {
      await inPieces(documents, { project: { $in: projects } }, (ids) =>
        documents.deleteMany({ _id: { $in: ids } }, durable),
      );
    },
  };
}
