/** One machine, whole: its snapshot, timers, outbox, history, what it bought, its deliveries, and why it has not started. */
import { operator as limits } from '../../schemas/limits.ts';
import type {
  MachineDetail,
  MachineKind,
  MachinePrediction,
  MachineRow,
} from '../../schemas/operator-console.ts';
import type { ActorDocument, StoredTimer } from '../store/actors.ts';
import type { MachineRecord } from '../store/operator-views.ts';
import type { KnownPrediction } from '../store/predictions.ts';
import type { Actions } from './actions.ts';
import { toEntry } from './audit-entry.ts';
import { createNotStarted } from './not-started.ts';
import type { ConsolePorts } from './ports.ts';
import { redact } from './redact.ts';
import { toIso } from './rows.ts';

type Ports = ConsolePorts & {
  actions: Actions;
  rows(kind: MachineKind, records: readonly MachineRecord[]): Promise<MachineRow[]>;
};

export function createDetail(ports: Ports) {
  const { store, actions, rows, now } = ports;
  const { operatorViews: views, partitions, projects, users, predictions, audit } = store;
  const notStarted = createNotStarted(ports);

  /** undefined when there is none. */
  return async (kind: MachineKind, id: string): Promise<MachineDetail | undefined> => {
    const document = await views.find(kind, id);
    if (!document) return undefined;
    const [[machine], records, project, bought, deliveries, possible, entries] = await Promise.all([
      rows(kind, [document as unknown as MachineRecord]),
      partitions.all(),
      projects.find(document.project),
      kind === 'asset' ? predictions.ofAsset(id, limits.maxPredictions) : [],
      kind === 'asset' ? views.ofAsset(document.project, id, limits.maxRelated) : [],
      actions.possible(kind, document),
      audit.about({ target: id }, limits.maxRelated),
    ]);
    if (!machine) return undefined;
    const user = project && (await users.find(project.userId));
    const partition = records.find(({ _id }) => _id === document.partition);
    const passed = partition?.position ?? 0;
    return {
      machine,
      as_of: toIso(now()),
      snapshot: redact(snapshotOf(document)),
      timers: document.timers.map(toTimer),
      outbox: document.work.filter(({ seq }) => seq > passed).map(({ effect, seq }) => ({ effect, seq })),
      history: document.facts.map(
        ({ seq: _, n: __, ...fact }) => redact(fact) as { event: string; ts: number },
      ),
      predictions: bought.map(toPrediction),
      deliveries: await rows('delivery', deliveries),
      partition: {
        id: document.partition,
        owner: partition?.owner ?? null,
        position: passed,
        applied: document.seq,
      },
      project: project ? { id: project.id, name: project.name } : null,
      user: user ? { id: user.id, email: user.email } : null,
      not_started: await notStarted(kind, document, machine),
      actions: possible,
      audit: entries.map(toEntry),
    };
  };
}

/** The document but for what is shown beside it; a delivery's body as what it is. */
function snapshotOf({ facts: _, work: __, timers: ___, fixed, ...document }: ActorDocument): unknown {
  if (fixed === undefined) return document;
  const { payload, ...others } = fixed;
  return { ...document, fixed: { ...others, payload: readJson(payload) } };
}

function readJson(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    // It is shown as it is.
    return text;
  }
}

function toTimer({ id, at }: StoredTimer) {
  return { id, at: toIso(at), text: timerText(id) };
}

function timerText(id: string): string {
  if (id === 'reconcile') return 'its work is asked for again, and its provider directly';
  if (id.includes('retryDelay')) return 'the next attempt begins';
  if (id.includes('stallAfter')) return 'the run is given up as stalled';
  return id.includes('Timeout') ? 'the step has taken too long' : id;
}

/** The token names the attempt: asset, run, stage, attempt. */
export function toPrediction(known: KnownPrediction): MachinePrediction {
  const [, run = '', stage = '', attempt = ''] = known.token.split('-');
  return {
    run: Number(run),
    stage,
    attempt: Number(attempt),
    provider: known.provider,
    prediction_id: known.jobId ?? null,
    state: known.state,
    began_at: toIso(known.beganTs),
    is_late: known.isLate ?? false,
    is_over: known.isOver ?? false,
    cost_micros: known.costMicros ?? null,
  };
}
