/**
 * One action for all machines that a filter finds: first what it would be, then a job that is worked off in the
 * background, at a bounded rate, by one scheduler at a time.
 *
 * Each machine is told by a message that names the run or attempt it is meant for. So a page that is done twice, after
 * a crash or by a scheduler that has lost its lease, tells nobody anything new; and what enters its state after the
 * preview is none of the job's.
 */
import { operator as limits } from '../../schemas/limits.ts';
import type {
  BulkJob,
  BulkPreview,
  MachineFilterQuery,
  MachineKind,
  MachineRow,
} from '../../schemas/operator-console.ts';
import type { Author } from '../store/audit.ts';
import type { BulkAction, BulkLine, BulkJob as StoredJob } from '../store/bulk-jobs.ts';
import { isByAge, type MachineRecord } from '../store/operator-views.ts';
import { type Actions, type AskedAction, effectOf } from './actions.ts';
import type { Filters } from './filters.ts';
import type { ConsolePorts } from './ports.ts';
import { toIso } from './rows.ts';

type Ports = Pick<ConsolePorts, 'store' | 'newId' | 'now'> & {
  filters: Filters;
  rows(kind: MachineKind, records: readonly MachineRecord[]): Promise<MachineRow[]>;
};

const previewKeptMs = 15 * 60_000;
const unstarted = {
  state: 'preview' as const,
  startedTs: null,
  endedTs: null,
  told: 0,
  passed: 0,
  place: null,
  log: [],
};

export function createBulk({ store, filters, rows, newId, now }: Ports) {
  const { operatorViews: views, bulkJobs, audit } = store;

  const record = (job: StoredJob, action: 'bulk.start' | 'bulk.cancel', author: Author) =>
    audit.insert({
      ...author,
      ts: now(),
      action,
      userId: null,
      target: job.id,
      before: { count: job.count, told: job.told },
      after: { ...job.action, kind: job.kind, filter: job.query },
    });

  return {
    /** What it would do and to how many. undefined when the filter names what there is not. */
    async preview(
      query: MachineFilterQuery,
      asked: AskedAction,
      author: Author,
    ): Promise<BulkPreview | undefined> {
      const view = await filters.read(query);
      if (!view) return undefined;
      const { kind } = view;
      const ts = now();
      const filter = { ...view.filter, untilTs: ts };
      const [counted, sample] = await Promise.all([
        views.count(kind, filter, limits.bulkCounted + 1),
        views.list(kind, filter, limits.bulkSample),
      ]);
      const count = Math.min(counted, limits.bulkCounted);
      const id = newId('blk');
      const fresh = { ...unstarted, createdTs: ts, count };
      const job = { id, kind, query: toText(query), filter, action: toAction(asked), author, ...fresh };
      await bulkJobs.insert(job, ts + previewKeptMs);
      return {
        token: id,
        expires_at: toIso(ts + previewKeptMs),
        kind,
        action: asked.action,
        will: effectOf(kind, asked),
        count,
        is_more: counted > count,
        sample: await rows(kind, sample),
      };
    },

    /** Starts what was previewed; a second start of the same is the same job. undefined when it is gone. */
    async start(token: string, author: Author): Promise<BulkJob | undefined> {
      const job = await bulkJobs.find(token);
      if (!job) return undefined;
      if (job.state === 'preview') {
        // First the record: a job that runs is in the audit whatever fails in between.
        await record(job, 'bulk.start', author);
        await bulkJobs.start(token, now());
      }
      const started = await bulkJobs.find(token);
      return started && started.state !== 'preview' ? toJob(started) : undefined;
    },

    /** Nothing more is told. `refused`: it has ended. */
    async cancel(id: string, author: Author): Promise<BulkJob | 'refused' | undefined> {
      const job = await bulkJobs.find(id);
      if (!job || job.state === 'preview') return undefined;
      if (job.state !== 'running') return 'refused';
      await record(job, 'bulk.cancel', author);
      const isCancelled = await bulkJobs.cancel(id, now());
      const after = await bulkJobs.find(id);
      return isCancelled && after ? toJob(after) : 'refused';
    },

    async find(
      id: string,
    ): Promise<{ job: BulkJob; log: { at: string; id: string; outcome: string }[] } | undefined> {
      const job = await bulkJobs.find(id);
      if (!job || job.state === 'preview') return undefined;
      const log = job.log.map(({ ts, id: machine, outcome }) => ({ at: toIso(ts), id: machine, outcome }));
      return { job: toJob(job), log: log.reverse() };
    },

    async list(): Promise<BulkJob[]> {
      return (await bulkJobs.list(limits.maxListed)).map(toJob);
    },
  };
}

/** Works off running jobs. `step` is one page of one of them; to be called once a second. */
export function createBulkRunner({
  store,
  bus,
  actions,
  runnerId,
  now,
}: Pick<ConsolePorts, 'store' | 'bus' | 'now'> & { actions: Actions; runnerId: string }) {
  const { operatorViews: views, bulkJobs } = store;

  const tell = async (job: StoredJob, records: readonly MachineRecord[]) => {
    const messages = [];
    const lines: BulkLine[] = [];
    for (const { _id: id } of records) {
      const document = await views.find(job.kind, id);
      const planned = document
        ? await actions.plan(job.kind, document, toAsked(job.action), job.author.requestId ?? '')
        : 'it is gone';
      if (document && typeof planned !== 'string')
        messages.push(actions.outgoing(job.kind, document, planned));
      lines.push({
        ts: now(),
        id,
        outcome: typeof planned === 'string' ? `passed over: ${planned}` : 'told',
      });
    }
    await bus.publishAll(messages);
    return { told: messages.length, passed: records.length - messages.length, lines };
  };

  return {
    async step(): Promise<void> {
      const job = await bulkJobs.take(runnerId, now(), now() + limits.bulkLeaseMs);
      if (!job) return;
      const page = await views.list(job.kind, job.filter, limits.bulkPerSecond, job.place ?? undefined);
      const { told, passed, lines } = await tell(job, page);
      const last = page.at(-1);
      const ts = isByAge(job.filter) ? last?.createdTs : last?.enteredTs;
      await bulkJobs.advance(job.id, runnerId, {
        told,
        passed,
        lines,
        place: last && ts !== undefined ? { ts, id: last._id } : null,
        endedTs: page.length < limits.bulkPerSecond ? now() : null,
      });
    },
  };
}

function toText(query: MachineFilterQuery): Record<string, string> {
  return Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)]));
}

function toAction({ action, from, reason, errorCode }: AskedAction): BulkAction {
  return {
    action,
    ...(from === undefined ? {} : { from }),
    ...(reason === undefined ? {} : { reason }),
    ...(errorCode === undefined ? {} : { errorCode }),
  };
}

function toAsked({ errorCode, ...action }: BulkAction): AskedAction {
  return {
    ...action,
    ...(errorCode === undefined ? {} : { errorCode: errorCode as AskedAction['errorCode'] }),
  };
}

function toJob(job: StoredJob): BulkJob {
  const time = (ts: number | null) => (ts === null ? null : toIso(ts));
  return {
    id: job.id,
    kind: job.kind,
    filter: job.query,
    action: job.action.action,
    from: job.action.from ?? null,
    reason: job.action.reason ?? null,
    by_email: job.author.byEmail,
    state: job.state === 'preview' ? 'running' : job.state,
    created_at: toIso(job.createdTs),
    started_at: time(job.startedTs),
    ended_at: time(job.endedTs),
    count: job.count,
    told: job.told,
    passed: job.passed,
  };
}
