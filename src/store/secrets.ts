/**
 * The keys that the database's secrets are sealed with, and their change.
 *
 * One record holds a small sample sealed with each key in use. A process that lacks one of them would find out only
 * when somebody needs a secret, so it is refused at its start.
 */
import type { Collection, Db } from 'mongodb';
import { isDuplicate } from './actors.ts';
import { keyIdOf, type SecretBox, SecretError, type SecretOwner, type SecretPurpose } from './sealed.ts';

/** `keyId` null: not sealed yet. */
export type SealedCount = { purpose: SecretPurpose; keyId: string | null; values: number };

export type Rotation = {
  /** Values that were sealed again, or for the first time. */
  resealed: number;
  /** Values that no key opens, and what the first of them belong to. They are left as they are. */
  failed: number;
  failedOwners: string[];
  /** Values that are not sealed with the first key: those that failed, and what a process with older settings wrote. */
  left: number;
};

type SealedField = {
  collection: string;
  /** `list.field` for one of each record in the array `list`. */
  field: string;
  list?: string;
  purpose: SecretPurpose;
};

/**
 * Every field that holds a secret; it belongs to its document's id. Where one moves into a list, the list comes
 * after it: what has moved meanwhile is found there.
 */
const sealedFields: readonly SealedField[] = [
  { collection: 'projects', field: 'signingSecret', purpose: 'signing secret' },
  { collection: 'webhooks', field: 'secret', purpose: 'webhook secret' },
  { collection: 'webhooks', field: 'previous.secret', list: 'previous', purpose: 'webhook secret' },
];

type Sample = { keyId: string; sealed: string; ts: number };
type KeysDocument = { _id: 'keys'; samples: Sample[] };
type Owned = { _id: string } & Record<string, unknown>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const batchSize = 500;
const maxNamed = 20;
const maxTries = 3;
const sampleOwner: SecretOwner = { purpose: 'sample', id: 'keys' };
const sampleText = 'sample';

export function createSecretStore(db: Db, box: SecretBox) {
  const keys: Collection<KeysDocument> = db.collection('secrets');
  const [sealingId] = box.keyIds;

  const count = async ({ collection, field, list, purpose }: SealedField): Promise<SealedCount[]> => {
    const keyId = { $cond: [{ $regexMatch: { input: `$${field}`, regex: /^v1\./ } }, idIn(field), null] };
    const groups = await db
      .collection<Owned>(collection)
      .aggregate<{ _id: string | null; values: number }>(
        [
          ...(list === undefined ? [] : [{ $unwind: `$${list}` }]),
          { $match: { [field]: { $type: 'string' } } },
          { $group: { _id: keyId, values: { $sum: 1 } } },
          { $sort: { _id: 1 } },
        ],
        // All documents are looked at: this is a duty of the operator's, and no index is worth it.
        { hint: { _id: 1 } },
      )
      .toArray();
    return groups.map(({ _id, values }) => ({ purpose, keyId: _id, values }));
  };

  /** One count for each purpose and key. */
  const countAll = async (): Promise<SealedCount[]> => {
    const sums = new Map<string, SealedCount>();
    for (const one of (await Promise.all(sealedFields.map(count))).flat()) {
      const name = `${one.purpose} ${one.keyId}`;
      sums.set(name, { ...one, values: one.values + (sums.get(name)?.values ?? 0) });
    }
    return [...sums.values()];
  };

  /** Records the key that seals, unless somebody has recorded one since they were counted. */
  const addSample = async (counted: number, ts: number): Promise<void> => {
    const sample = { keyId: sealingId, sealed: box.seal(sampleText, sampleOwner), ts };
    try {
      await keys.updateOne(
        { _id: 'keys', samples: { $size: counted } },
        { $push: { samples: sample } },
        { upsert: true, ...durable },
      );
    } catch (cause) {
      if (!isDuplicate(cause)) throw cause;
    }
  };

  /** A value that somebody has changed meanwhile is theirs: it is sealed with their first key. */
  const rotateField = async (sealed: SealedField, rotation: Rotation): Promise<void> => {
    const { collection, field, list } = sealed;
    const documents = db.collection<Owned>(collection);
    const other = { $type: 'string', $not: new RegExp(`^v1\\.${sealingId}\\.`) } as const;
    const isOther =
      list === undefined ? { [field]: other } : { [list]: { $elemMatch: { [lastOf(field)]: other } } };
    for (let after = ''; ; ) {
      const found = await documents
        .find({ _id: { $gt: after }, ...isOther }, { projection: { [field]: 1 } })
        .sort({ _id: 1 })
        .limit(batchSize)
        .toArray();
      const last = found.at(-1);
      if (!last) return;
      after = last._id;
      const writes = found.flatMap((document) =>
        valuesOf(document, sealed)
          .filter((stored) => keyIdOf(stored) !== sealingId)
          .flatMap((stored) => reseal(box, document._id, stored, sealed, rotation)),
      );
      if (writes.length === 0) continue;
      const { modifiedCount } = await documents.bulkWrite(writes, { ordered: false, ...durable });
      rotation.resealed += modifiedCount;
    }
  };

  return {
    /** Numbers of values by purpose and key. */
    countAll,

    /** Ids of the keys in use. */
    async keyIds(): Promise<string[]> {
      return ((await keys.findOne({ _id: 'keys' }))?.samples ?? []).map(({ keyId }) => keyId);
    },

    /**
     * Makes sure that this process has every key in use, and records the one it seals with. Of processes with
     * different keys that start on an empty database at once, one passes. Safe to repeat.
     *
     * @throws {SecretError} that names the key which is missing.
     */
    async checkKeys(now: number): Promise<void> {
      for (let tries = 1; ; tries += 1) {
        const samples = (await keys.findOne({ _id: 'keys' }))?.samples ?? [];
        for (const sample of samples) checkSample(box, sample);
        if (samples.some(({ keyId }) => keyId === sealingId)) return;
        if (tries > maxTries) throw new SecretError('other processes keep recording keys');
        await addSample(samples.length, now);
      }
    },

    /**
     * Seals everything with the first key. Safe to repeat, to interrupt, and while the service runs on the same keys.
     * Keys that then seal nothing are forgotten: a process may start without them.
     */
    async rotate(): Promise<Rotation> {
      const rotation: Rotation = { resealed: 0, failed: 0, failedOwners: [], left: 0 };
      for (const sealed of sealedFields) await rotateField(sealed, rotation);
      for (const { keyId, values } of await countAll()) if (keyId !== sealingId) rotation.left += values;
      if (rotation.left === 0) {
        const others = { keyId: { $ne: sealingId } };
        await keys.updateOne({ _id: 'keys' }, { $pull: { samples: others } }, durable);
      }
      return rotation;
    },
  };
}

/** The key id within a sealed text, as MongoDB takes it out. */
const idIn = (field: string) => ({ $substrCP: [`$${field}`, 'v1.'.length, 8] });

function checkSample(box: SecretBox, { keyId, sealed }: Sample): void {
  if (!box.keyIds.includes(keyId)) {
    throw new SecretError(
      `this database was sealed with key ${keyId}, which is not configured: SECRETS_KEY must name it too`,
    );
  }
  box.open(sealed, sampleOwner);
}

/** Name of a field without its list. */
const lastOf = (field: string) => field.slice(field.indexOf('.') + 1);

function valuesOf(document: Owned, { field, list }: SealedField): string[] {
  if (list === undefined) return [String(document[field])];
  const records = document[list] as Record<string, unknown>[];
  return records.map((record) => String(record[lastOf(field)]));
}

function reseal(
  box: SecretBox,
  _id: string,
  stored: string,
  { field, list, purpose }: SealedField,
  rotation: Rotation,
) {
  const owner = { purpose, id: _id };
  try {
    const sealed = box.seal(box.open(stored, owner), owner);
    // In a list it is the record that the filter has found.
    const place = list === undefined ? field : `${list}.$.${lastOf(field)}`;
    return [{ updateOne: { filter: { _id, [field]: stored }, update: { $set: { [place]: sealed } } } }];
  } catch (cause) {
    if (!(cause instanceof SecretError)) throw cause;
    rotation.failed += 1;
    if (rotation.failedOwners.length < maxNamed) rotation.failedOwners.push(_id);
    return [];
  }
}
