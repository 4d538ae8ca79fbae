/**
 * The development mailbox: where mails go when no mail server is configured, for the operator page. The newest
 * ones, for some days.
 */
import type { Collection, Db } from 'mongodb';

/** `ts` is unix ms. */
export type MailboxRecord = {
  id: string;
  to: string;
  subject: string;
  text: string;
  html: string;
  ts: number;
};

type MailboxDocument = Omit<MailboxRecord, 'id' | 'ts'> & { _id: string; at: Date };

const daySeconds = 86_400;
const durable = { writeConcern: { w: 'majority', journal: true } } as const;

/** @param kept how many stay. @param days how long they do. */
export function createMailboxStore(db: Db, { kept, days }: { kept: number; days: number }) {
  const mails: Collection<MailboxDocument> = db.collection('mailbox');

  return {
    async ensureIndexes(): Promise<void> {
      await mails.createIndexes([
        { key: { at: 1 }, expireAfterSeconds: days * daySeconds },
        { key: { to: 1 } },
      ]);
    },

    /** Puts a mail in, and takes out those for which there is no room any more. Safe to repeat. */
    async add({ id, ts, ...mail }: MailboxRecord): Promise<void> {
      await mails.replaceOne({ _id: id }, { ...mail, at: new Date(ts) }, { upsert: true, ...durable });
      const old = mails.find().sort({ at: -1, _id: -1 }).skip(kept).project<{ _id: string }>({ _id: 1 });
      const ids = (await old.toArray()).map(({ _id }) => _id);
      if (ids.length > 0) await mails.deleteMany({ _id: { $in: ids } });
    },

    /** Takes the mails to an address out. Safe to repeat. */
    async removeTo(to: string): Promise<void> {
      await mails.deleteMany({ to }, durable);
    },

    /** The newest mails first. */
    async list(limit: number): Promise<MailboxRecord[]> {
      const found = await mails.find().sort({ at: -1, _id: -1 }).limit(limit).toArray();
      return found.map(({ _id: id, at, ...mail }) => ({ id, ...mail, ts: at.getTime() }));
    },
  };
}
