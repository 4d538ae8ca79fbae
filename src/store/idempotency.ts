/**
 * Requests with an Idempotency-Key (decisions 3, Idempotency): who runs one at present, and what the first
 * answer was. A record goes by itself a day after it was made.
 */
import type { Collection, Db } from 'mongodb';
import { idempotency as limits } from '../../schemas/limits.ts';
import { isDuplicate } from './actors.ts';

/** An answer as it is sent again. `body` is JSON, empty without one. */
export type KeptAnswer = { status: number; headers: Record<string, string>; body: string };

export type Claim = {
  /** Names the request: its user, route and key. */
  id: string;
  /** Of this attempt at it. */
  token: string;
  /** Names what the request makes: the same for all attempts at it. */
  seed: string;
  /** Says whether two requests are the same; empty while it is not known. */
  fingerprint: string;
  now: number;
};

type Stored = {
  _id: string;
  token: string;
  seed: string;
  fingerprint: string;
  /** What the first attempt has written down for later ones. */
  memo?: string;
  /** Until then the attempt is taken to be running, unix ms. */
  leaseTs: number;
  answer?: KeptAnswer;
  /** From then on the key is free again, unix ms; `expiresAt` lets the store clean up. */
  freeTs: number;
  expiresAt: Date;
};

export type Claimed =
  | { outcome: 'claimed'; seed: string }
  | { outcome: 'running' }
  /** Another request has this key. */
  | { outcome: 'mismatch' }
  | { outcome: 'answered'; answer: KeptAnswer; fingerprint: string };

export type IdempotencyStore = ReturnType<typeof createIdempotencyStore>;

const durable = { writeConcern: { w: 'majority', journal: true } } as const;
const maxTries = 3;

export function createIdempotencyStore(db: Db) {
  const requests: Collection<Stored> = db.collection('idempotency');

  /** Takes the place of a record as it was read. */
  const replace = async (found: Stored, next: Stored): Promise<boolean> => {
    const { _id, token, leaseTs } = found;
    return (await requests.replaceOne({ _id, token, leaseTs }, next, durable)).modifiedCount === 1;
  };

  const insert = async (made: Stored): Promise<boolean> => {
    try {
      await requests.insertOne(made, durable);
      return true;
    } catch (cause) {
      if (isDuplicate(cause)) return false;
      throw cause;
    }
  };

  const claimOnce = async (claim: Claim): Promise<Claimed | 'again'> => {
    const found = await requests.findOne({ _id: claim.id });
    const held = found && whoHolds(found, claim);
    if (held) return held;
    const made = found ? successor(found, claim) : toStored(claim);
    const isMade = found ? await replace(found, made) : await insert(made);
    return isMade ? { outcome: 'claimed', seed: made.seed } : 'again';
  };

  return {
    async ensureIndexes(): Promise<void> {
      await requests.createIndex({ expiresAt: 1 }, { expireAfterSeconds: 0 });
    },

    /** Lets one of all attempts at a request run, until its lease is over. */
    async claim(claim: Claim): Promise<Claimed> {
      for (let tries = 0; tries < maxTries; tries += 1) {
        const claimed = await claimOnce(claim);
        if (claimed !== 'again') return claimed;
      }
      // Others were faster each time.
      return { outcome: 'running' };
    },

    /** The attempt is still running. */
    async extend(id: string, token: string, now: number): Promise<void> {
      await requests.updateOne({ _id: id, token }, { $set: { leaseTs: now + limits.leaseMs } });
    },

    /** Writes something down for later attempts. @returns what the first one wrote. */
    async remember(id: string, token: string, memo: string): Promise<string> {
      const update = [{ $set: { memo: { $ifNull: ['$memo', { $literal: memo }] } } }];
      const options = { returnDocument: 'after', ...durable } as const;
      return (await requests.findOneAndUpdate({ _id: id, token }, update, options))?.memo ?? memo;
    },

    /** Keeps the answer for a day from now. */
    async finish(claim: Omit<Claim, 'seed'>, answer: KeptAnswer): Promise<void> {
      const { id, token, fingerprint, now } = claim;
      const kept = { answer, fingerprint, leaseTs: 0, ...keptUntil(now) };
      await requests.updateOne({ _id: id, token }, { $set: kept }, durable);
    },

    /** Nothing has come of the attempt: the key is free. */
    async release(id: string, token: string): Promise<void> {
      await requests.deleteOne({ _id: id, token }, durable);
    },

    /** The attempt has failed, and what it has done is not certain: the next one goes on with it. */
    async yield(id: string, token: string): Promise<void> {
      await requests.updateOne({ _id: id, token }, { $set: { leaseTs: 0 } }, durable);
    },
  };
}

const mismatch: Claimed = { outcome: 'mismatch' };

/** Why a record is in the way; undefined for one that may be replaced. */
function whoHolds(found: Stored, claim: Claim): Claimed | undefined {
  const { answer, fingerprint, freeTs, leaseTs } = found;
  if (freeTs <= claim.now || (!answer && leaseTs <= claim.now)) return undefined;
  if (!isAlike(found, claim)) return mismatch;
  return answer ? { outcome: 'answered', answer, fingerprint } : { outcome: 'running' };
}

/** An attempt that has died may have done its work: the same request goes on with what that made. */
function successor(found: Stored, claim: Claim): Stored {
  const made = toStored(claim);
  if (found.freeTs <= claim.now || !isAlike(found, claim)) return made;
  const { seed, memo } = found;
  return { ...made, seed, ...(memo === undefined ? {} : { memo }) };
}

/** What is not known yet may be the same. */
function isAlike({ fingerprint: one }: Stored, { fingerprint: other }: Claim): boolean {
  return one === other || one === '' || other === '';
}

function toStored({ id, token, seed, fingerprint, now }: Claim): Stored {
  return { _id: id, token, seed, fingerprint, leaseTs: now + limits.leaseMs, ...keptUntil(now) };
}

function keptUntil(now: number): Pick<Stored, 'freeTs' | 'expiresAt'> {
  const freeTs = now + limits.keptMs;
  return { freeTs, expiresAt: new Date(freeTs) };
}
