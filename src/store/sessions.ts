/**
 * Sessions: who is signed in. Only the SHA-256 of a token is stored, so that a stolen copy of the database
 * signs nobody in. A TTL index removes what has expired; readers check the time all the same, since MongoDB
 * removes about once a minute.
 */
import type { ClientSession, Collection, Db } from 'mongodb';

/** Times are unix ms. */
export type SessionRecord = {
  /** SHA-256 of the token, base64url. */
  hash: string;
  /** Names the session where its token must not be shown. */
  id: string;
  userId: string;
  /** The user's epoch when it began: see UserRecord. */
  epoch: number;
  /** What the browser says it is, and where it came from, when the session began. */
  userAgent: string | null;
  address: string | null;
  createdTs: number;
  /** When it was last seen, coarse. */
  seenTs: number;
  /** When it was last extended. */
  touchedTs: number;
  expiresTs: number;
};

export type SessionStore = ReturnType<typeof createSessionStore>;

/** Sessions from before some fields were kept lack them. */
type LateField = 'epoch' | 'userAgent' | 'address' | 'seenTs';
type SessionDocument = Omit<SessionRecord, 'hash' | 'expiresTs' | LateField> &
  Partial<Pick<SessionRecord, LateField>> & { _id: string; expiresAt: Date };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createSessionStore(db: Db) {
  const sessions: Collection<SessionDocument> = db.collection('sessions');

  return {
    async ensureIndexes(): Promise<void> {
      await sessions.createIndexes([
        { key: { userId: 1, createdTs: -1 } },
        { key: { id: 1 } },
        { key: { expiresAt: 1 }, expireAfterSeconds: 0 },
      ]);
    },

    async insert({ hash, expiresTs, ...session }: SessionRecord): Promise<void> {
      await sessions.insertOne({ _id: hash, ...session, expiresAt: new Date(expiresTs) }, durable);
    },

    async find(hash: string): Promise<SessionRecord | undefined> {
      const document = await sessions.findOne({ _id: hash });
      return document ? toRecord(document) : undefined;
    },

    /** Whether the session of that name has neither ended nor expired. */
    async isAlive(id: string, now: number): Promise<boolean> {
      return (await sessions.findOne({ id, expiresAt: { $gt: new Date(now) } })) !== null;
    },

    /** Extends a session. Answers false when it has ended meanwhile. */
    async touch(hash: string, touchedTs: number, expiresTs: number): Promise<boolean> {
      const result = await sessions.updateOne(
        { _id: hash },
        { $set: { touchedTs, seenTs: touchedTs, expiresAt: new Date(expiresTs) } },
        durable,
      );
      return result.matchedCount === 1;
    },

    /** Sessions of a user that have neither ended nor expired, newest first. */
    async list(userId: string, now: number, limit: number): Promise<SessionRecord[]> {
      const found = await sessions
        .find({ userId, expiresAt: { $gt: new Date(now) } })
        .sort({ createdTs: -1, _id: 1 })
        .limit(limit)
        .toArray();
      return found.map(toRecord);
    },

    async count(userId: string, now: number): Promise<number> {
      return sessions.countDocuments({ userId, expiresAt: { $gt: new Date(now) } });
    },

    /** Ends every session of a user, in a transaction. Answers how many there were. */
    async removeAll(userId: string, session: ClientSession): Promise<number> {
      return (await sessions.deleteMany({ userId }, { session })).deletedCount;
    },

    /** Ends a session. Safe to repeat: answers false when it had ended before. */
    async remove(hash: string): Promise<boolean> {
      return (await sessions.deleteOne({ _id: hash }, durable)).deletedCount === 1;
    },

    /** Remembers when a session was last seen. */
    async see(hash: string, seenTs: number): Promise<void> {
      await sessions.updateOne({ _id: hash }, { $set: { seenTs } });
    },

    /** Ends a user's session by its name. Answers false when there is none. */
    async removeNamed(userId: string, id: string): Promise<boolean> {
      return (await sessions.deleteOne({ userId, id }, durable)).deletedCount === 1;
    },

    /**
     * Ends the sessions of a user but `keptId`, which goes on in the user's next epoch. `session`: the
     * transaction this is part of.
     */
    async removeOthers(
      userId: string,
      keptId: string | undefined,
      epoch: number,
      session: ClientSession,
    ): Promise<void> {
      await sessions.deleteMany({ userId, id: { $ne: keptId ?? '' } }, { session });
      await sessions.updateMany({ userId }, { $set: { epoch } }, { session });
    },

    /** Ends all sessions of a user. Safe to repeat. */
    async removeOf(userId: string): Promise<void> {
      await sessions.deleteMany({ userId }, durable);
    },
  };
}

function toRecord({ _id: hash, expiresAt, ...rest }: SessionDocument): SessionRecord {
  const late = { epoch: 0, userAgent: null, address: null, seenTs: rest.touchedTs };
  return { hash, ...late, ...rest, expiresTs: expiresAt.getTime() };
}
