/**
 * Projects. A user who has any has exactly one default project: changes of it are transactions, and a unique
 * index refuses a second default whatever goes wrong.
 */
import type { ClientSession, Collection, Db, Document, MongoClient } from 'mongodb';
import type { Mode, Motion } from '../../schemas/asset.ts';
import type { BrandConfig } from '../../schemas/project.ts';
import { isDuplicate } from './actors.ts';
import { createFormerProjects } from './former-projects.ts';
import { text } from './partial.ts';
import { Secret, type SecretBox, type SecretOwner } from './sealed.ts';
import { endWebhooks } from './webhooks.ts';

/** Times are unix ms. */
export type ProjectRecord = {
  id: string;
  userId: string;
  name: string;
  domains: string[];
  brandConfig: BrandConfig;
  isDefault: boolean;
  contentInventory: Record<string, unknown> | null;
  messagingContext: Record<string, unknown> | null;
  crawledTs: number | null;
  createdTs: number;
  updatedTs: number;
  /** null before the proxy configuration is first saved. */
  proxyKey: string | null;
  /** null: signed URLs are refused. */
  signingSecret: Secret | null;
  /** Normalised: see src/auth/origins.ts. null before it is first set. */
  allowedOrigins: string[] | null;
  /** Hosts that sources may come from; null: any. */
  sourceHosts: string[] | null;
  defaultMotion: Motion | null;
  defaultDurSeconds: number | null;
  defaultMode: Mode | null;
  overageEnabled: boolean;
  /** null: no cap. */
  overageCapCents: number | null;
};

export type NewProject = Pick<ProjectRecord, 'id' | 'userId' | 'name' | 'createdTs'> &
  Partial<Pick<ProjectRecord, 'domains' | 'brandConfig' | 'isDefault'>>;

/** What its owner may change; a field that is absent stays. */
export type ProjectChange = Partial<Pick<ProjectRecord, 'name' | 'domains' | 'brandConfig' | 'isDefault'>>;

export type ProxyConfigChange = Partial<
  Pick<
    ProjectRecord,
    | 'allowedOrigins'
    | 'sourceHosts'
    | 'defaultMotion'
    | 'defaultDurSeconds'
    | 'defaultMode'
    | 'overageEnabled'
    | 'overageCapCents'
  >
>;

/** Keys to set where there are none. `signingSecret` null takes the present one away. */
export type NewKeys = { proxyKey: string; signingSecret?: string | null };

/** `signingSecret` is sealed, or plain where it is older than the keys. */
type ProjectDocument = Omit<ProjectRecord, 'id' | 'signingSecret'> & {
  _id: string;
  signingSecret: string | null;
};

const durable = { writeConcern: { w: 'majority', journal: true } } as const;

export type ProjectStore = ReturnType<typeof createProjectStore>;

export function createProjectStore(db: Db, client: MongoClient, box: SecretBox) {
  const projects: Collection<ProjectDocument> = db.collection('projects');
  const former = createFormerProjects(db);

  const toRecord = ({ _id: id, signingSecret: stored, ...rest }: ProjectDocument): ProjectRecord => ({
    id,
    ...rest,
    signingSecret: stored === null ? null : new Secret(box, stored, ownerOf(id)),
  });

  const oldest = (userId: string, exceptId: string, session: ClientSession) =>
    projects.findOne(
      { userId, _id: { $ne: exceptId } },
      { session, sort: { createdTs: 1, _id: 1 }, projection: { _id: 1 } },
    );

  /** The others first: the unique index refuses two at once within the transaction too. */
  const makeDefault = async (userId: string, id: string, session: ClientSession): Promise<void> => {
    await projects.updateMany(
      { userId, isDefault: true, _id: { $ne: id } },
      { $set: { isDefault: false } },
      { session },
    );
    await projects.updateOne({ _id: id, userId }, { $set: { isDefault: true } }, { session });
  };

  const insert = async (project: NewProject, session: ClientSession): Promise<ProjectRecord> => {
    const { userId } = project;
    const isFirst = (await projects.findOne({ userId, isDefault: true }, { session })) === null;
    const document = toDocument(project);
    await projects.insertOne(document, { session });
    if (isFirst || project.isDefault) {
      await makeDefault(userId, document._id, session);
      document.isDefault = true;
    }
    return toRecord(document);
  };

  return {
    async ensureIndexes(): Promise<void> {
      await projects.createIndexes([
        { key: { userId: 1, createdTs: 1, _id: 1 } },
        {
          key: { userId: 1 },
          name: 'one default per user',
          unique: true,
          partialFilterExpression: { isDefault: true },
        },
        { key: { proxyKey: 1 }, unique: true, partialFilterExpression: { proxyKey: { $type: 'string' } } },
      ]);
      await former.ensureIndexes();
    },

    /** Part of a transaction that makes an account: its project is the default one. */
    insert,

    /** Adds a project. The first of a user is the default whatever is asked. */
    async create(project: NewProject): Promise<ProjectRecord> {
      return inTransaction(client, (session) => insert(project, session));
    },

    async find(id: string): Promise<ProjectRecord | undefined> {
      const document = await projects.findOne({ _id: id });
      return document ? toRecord(document) : undefined;
    },

    /** Someone else's project answers like none at all. */
    async findOwned(id: string, userId: string): Promise<ProjectRecord | undefined> {
      const document = await projects.findOne({ _id: id, userId });
      return document ? toRecord(document) : undefined;
    },

    async findByKey(proxyKey: string): Promise<ProjectRecord | undefined> {
      const document = await projects.findOne({ proxyKey: text(proxyKey) });
      return document ? toRecord(document) : undefined;
    },

    /** Whose a project is, or was: its assets are theirs still. */
    async ownerOf(id: string): Promise<string | undefined> {
      const document = await projects.findOne({ _id: id }, { projection: { userId: 1 } });
      return document ? document.userId : former.ownerOf(id);
    },

    /** Oldest first. */
    async list(userId: string, limit: number): Promise<ProjectRecord[]> {
      const found = await projects.find({ userId }).sort({ createdTs: 1, _id: 1 }).limit(limit).toArray();
      return found.map((document) => toRecord(document));
    },

    async count(userId: string): Promise<number> {
      return projects.countDocuments({ userId });
    },

    /** Projects of a user that have a brand. */
    async countBranded(userId: string): Promise<number> {
      return projects.countDocuments({ userId, brandConfig: { $ne: {} } });
    },

    /** Changes a project of a user. Answers false when there is none. */
    async update(id: string, userId: string, change: ProjectChange, now: number): Promise<boolean> {
      const { isDefault, ...fields } = change;
      const set = { $set: { ...fields, updatedTs: now } };
      if (isDefault === undefined) {
        return (await projects.updateOne({ _id: id, userId }, set, durable)).matchedCount === 1;
      }
      return inTransaction(client, async (session) => {
        const before = await projects.findOneAndUpdate({ _id: id, userId }, set, { session });
        if (!before) return false;
        if (isDefault) await makeDefault(userId, id, session);
        const heir = !isDefault && before.isDefault ? await oldest(userId, id, session) : null;
        if (heir) await makeDefault(userId, heir._id, session);
        return true;
      });
    },

    /** Deletes a project of a user; the oldest other one inherits being the default. Answers what it was. */
    async remove(id: string, userId: string): Promise<ProjectRecord | undefined> {
      return inTransaction(client, async (session) => {
        const before = await projects.findOneAndDelete({ _id: id, userId }, { session });
        if (!before) return undefined;
        await former.add([id], userId, session);
        await endWebhooks(db, id, session);
        const heir = before.isDefault ? await oldest(userId, id, session) : null;
        if (heir) await makeDefault(userId, heir._id, session);
        return toRecord(before);
      });
    },

    /**
     * Part of a transaction, or repeated until nothing is left: deletes all projects of a user. Answers them.
     */
    async removeAll(userId: string, session?: ClientSession): Promise<ProjectRecord[]> {
      const options = session ? { session } : durable;
      const all = await projects.find({ userId }, session ? { session } : {}).toArray();
      const ids = all.map(({ _id }) => _id);
      await former.add(ids, userId, session);
      await projects.deleteMany({ _id: { $in: ids }, userId }, options);
      return all.map(toRecord);
    },

    /** Projects that were deleted. */
    former,

    /**
     * Saves the proxy configuration of a user's project and sets the keys it does not have yet, in one write:
     * of two first saves at once one makes the key, and both answer it.
     */
    async configureProxy(
      id: string,
      userId: string,
      change: ProxyConfigChange,
      keys: NewKeys,
      now: number,
    ): Promise<ProjectRecord | undefined> {
      const fields = Object.entries({ ...change, updatedTs: now });
      // What users wrote must not be read as a field's name or an operator.
      const set: Document = Object.fromEntries(fields.map(([name, value]) => [name, { $literal: value }]));
      set['proxyKey'] = { $ifNull: ['$proxyKey', { $literal: keys.proxyKey }] };
      if (keys.signingSecret) {
        const sealed = box.seal(keys.signingSecret, ownerOf(id));
        set['signingSecret'] = { $ifNull: ['$signingSecret', { $literal: sealed }] };
      } else if (keys.signingSecret === null) {
        set['signingSecret'] = null;
      }
      const options = { returnDocument: 'after', ...durable } as const;
      const after = await projects.findOneAndUpdate({ _id: id, userId }, [{ $set: set }], options);
      return after ? toRecord(after) : undefined;
    },

    /** Replaces the proxy key. Answers the project as it was before. */
    async rotateProxyKey(
      id: string,
      userId: string,
      proxyKey: string,
      now: number,
    ): Promise<ProjectRecord | undefined> {
      const before = await projects.findOneAndUpdate(
        { _id: id, userId },
        { $set: { proxyKey, updatedTs: now } },
        durable,
      );
      return before ? toRecord(before) : undefined;
    },

    /** Replaces the signing secret of a project that has one. Answers false otherwise. */
    async rotateSigningSecret(
      id: string,
      userId: string,
      signingSecret: string,
      now: number,
    ): Promise<boolean> {
      const result = await projects.updateOne(
        { _id: id, userId, signingSecret: { $type: 'string' } },
        { $set: { signingSecret: box.seal(signingSecret, ownerOf(id)), updatedTs: now } },
        durable,
      );
      return result.matchedCount === 1;
    },
  };
}

/** Two users' first projects at once are no conflict; two of one user are, and the second is tried again. */
const maxTransactionTries = 5;

/**
 * Runs a transaction, again when another one was in its way.
 *
 * @throws what `work` throws, and the store's own errors.
 */
export async function inTransaction<T>(
  client: MongoClient,
  work: (session: ClientSession) => Promise<T>,
): Promise<T> {
  const options = { readConcern: { level: 'snapshot' }, ...durable } as const;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await client.withSession((session) => session.withTransaction(() => work(session), options));
    } catch (cause) {
      // Of two transactions that each made a default, the index has let one pass.
      if (!isDefaultTaken(cause) || attempt === maxTransactionTries) throw cause;
    }
  }
}

function isDefaultTaken(cause: unknown): boolean {
  return isDuplicate(cause) && String((cause as Error).message).includes('one default per user');
}

function toDocument({ id, isDefault: _, ...project }: NewProject): ProjectDocument {
  return {
    _id: id,
    domains: [],
    brandConfig: {},
    isDefault: false,
    contentInventory: null,
    messagingContext: null,
    crawledTs: null,
    updatedTs: project.createdTs,
    proxyKey: null,
    signingSecret: null,
    allowedOrigins: null,
    sourceHosts: null,
    defaultMotion: null,
    defaultDurSeconds: null,
    defaultMode: null,
    overageEnabled: false,
    overageCapCents: null,
    ...project,
  };
}

const ownerOf = (id: string): SecretOwner => ({ purpose: 'signing secret', id });
