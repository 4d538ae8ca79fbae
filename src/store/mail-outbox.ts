/**
 * The outbox: mails that are to be sent, written before anything else is done about them, so that a mail server
 * that is down loses none and holds nobody up.
 *
 * What is stored is what a mail is about, not its text: the tokens in mails are made when they are sent, and
 * nowhere stored in readable form.
 */
import type { ClientSession, Collection, Db } from 'mongodb';
import { newId } from './ids.ts';

export type MailTopic =
  /** Asks whoever reads it to confirm that the address is theirs. */
  | { kind: 'verify'; userId: string }
  /** Whether anybody has the address is found out when it is sent: whoever asks must not learn it. */
  | { kind: 'reset' }
  /** To the new address: asks to confirm it. `epoch`: the user's, see UserRecord. */
  | { kind: 'confirm-email'; userId: string; fromEmail: string; epoch: number }
  /** To the old address: a change was asked for, or has happened. */
  | { kind: 'email-asked'; userId: string; newEmail: string }
  | { kind: 'email-changed'; userId: string; newEmail: string }
  | { kind: 'password-changed'; userId: string };

/** Times are unix ms. */
export type MailRecord = MailTopic & {
  id: string;
  to: string;
  createdTs: number;
  /** Earliest next attempt; while one is made, the end of its claim. */
  dueTs: number;
  /** Attempts that have begun. */
  attempts: number;
};

export type NewMail = MailTopic & { to: string };

export type MailOutbox = ReturnType<typeof createMailOutbox>;

type MailDocument = MailTopic & Omit<MailRecord, 'id' | keyof MailTopic> & { _id: string };

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export function createMailOutbox(db: Db) {
  const mails: Collection<MailDocument> = db.collection('mailOutbox');

  return {
    async ensureIndexes(): Promise<void> {
      await mails.createIndexes([
        { key: { dueTs: 1 } },
        { key: { userId: 1 }, sparse: true },
        { key: { to: 1 } },
      ]);
    },

    /** Puts a mail in, due at once. `session`: the transaction this is part of. */
    async add(mail: NewMail, now: number, session?: ClientSession): Promise<void> {
      const document = { _id: newId('eml'), ...mail, createdTs: now, dueTs: now, attempts: 0 };
      await mails.insertOne(document, session ? { session } : durable);
    },

    /** Takes the mail that has been due longest, for `leaseMs`: nobody else gets it in that time. */
    async claim(now: number, leaseMs: number): Promise<MailRecord | undefined> {
      const document = await mails.findOneAndUpdate(
        { dueTs: { $lte: now } },
        { $set: { dueTs: now + leaseMs }, $inc: { attempts: 1 } },
        { sort: { dueTs: 1 }, returnDocument: 'after', ...durable },
      );
      if (!document) return undefined;
      const { _id: id, ...rest } = document;
      return { id, ...rest };
    },

    /** The mail is sent, or given up. Safe to repeat. */
    async remove(id: string): Promise<void> {
      await mails.deleteOne({ _id: id }, durable);
    },

    /** Ends a claim: the mail is due again at a time. Does nothing when the claim has run out. */
    async postpone({ id, attempts }: MailRecord, dueTs: number): Promise<void> {
      await mails.updateOne({ _id: id, attempts }, { $set: { dueTs } }, durable);
    },

    async count(): Promise<number> {
      return mails.countDocuments();
    },

    /** Removes the mails that are about a user or on their way to an address of theirs. Safe to repeat. */
    async removeOf(userId: string, email?: string): Promise<void> {
      const onTheirWay = email === undefined ? [] : [{ kind: 'reset' as const, to: email }];
      await mails.deleteMany({ $or: [{ userId }, ...onTheirWay] }, durable);
    },
  };
}
