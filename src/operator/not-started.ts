/** Why a machine that waits for a place has none: where it stands, which limit holds it, who has the places. */
import { webhook as webhookLimits } from '../../schemas/limits.ts';
import type { ProviderStatus } from '../../schemas/operator.ts';
import type { MachineKind, MachineRow, NotStarted, WorkerLook } from '../../schemas/operator-console.ts';
import type { ActorDocument } from '../store/actors.ts';
import type { ConsolePorts } from './ports.ts';

type Look = WorkerLook['slots'][number];

const nothing = { slot: null, place: null, waiting: 0, capacity: null, holders: [] };

export function createNotStarted({
  store,
  workers,
  providerStatus,
}: Pick<ConsolePorts, 'store' | 'workers' | 'providerStatus'>) {
  /** A clip that is to be bought waits, with a slot, at the gate of the provider that is asked first. */
  const atGate = async (): Promise<NotStarted | undefined> => {
    const videos = (await providerStatus()).filter(({ name }) => name !== 'openai');
    const first = videos.find(({ state }) => state !== 'failing') ?? videos[0];
    const why = first && gateLimit(first);
    if (!why) return undefined;
    return {
      ...nothing,
      text: `It has a slot, and waits at the gate of ${first.name}: ${why}.`,
      limit: 'provider_gate',
      capacity: first.concurrent,
    };
  };

  const asset = async (document: ActorDocument): Promise<NotStarted> => {
    const looks = await workers.look();
    if (looks.length === 0) {
      return {
        ...nothing,
        text: 'No worker answers: nobody does this work now.',
        limit: 'no_worker',
      };
    }
    const all = looks.flatMap(({ worker, slots }) => slots.map((look) => ({ worker, look })));
    const running = all.find(({ look }) => look.running.some(({ id }) => id === document._id));
    if (running) {
      const isSubmitting = document.state.endsWith('.submitting');
      return (isSubmitting ? await atGate() : undefined) ?? atWork(running.worker, running.look);
    }
    const waiting = all.find(({ look }) => look.waiting.some(({ id }) => id === document._id));
    return waiting ? inQueue(document, waiting.look) : notQueued(all.map(({ look }) => look));
  };

  return async (
    kind: MachineKind,
    document: ActorDocument,
    { waits_for }: MachineRow,
  ): Promise<NotStarted | null> => {
    if (kind === 'asset') return waits_for.what === 'slot' ? asset(document) : null;
    if (waits_for.what !== 'endpoint') return null;
    const ahead = await store.operatorViews.countAhead(document);
    return {
      ...nothing,
      text:
        ahead < webhookLimits.maxInFlightPerEndpoint
          ? 'It is being sent, or is about to be: its endpoint has room.'
          : `${ahead} deliveries to its endpoint are ahead of it, of which ${webhookLimits.maxInFlightPerEndpoint} are sent at once.`,
      place: ahead + 1,
      waiting: ahead,
      limit: ahead < webhookLimits.maxInFlightPerEndpoint ? 'at_work' : 'endpoint',
      capacity: webhookLimits.maxInFlightPerEndpoint,
    };
  };
}

/** What keeps new clips out; undefined when nothing does. */
function gateLimit(provider: ProviderStatus): string | undefined {
  const { running, concurrent, submits_last_minute: submits, submits_per_minute: most } = provider;
  if (provider.paused_until !== null) return `it has asked for a pause until ${provider.paused_until}`;
  if (running >= concurrent) return `${running} of ${concurrent} clips are under way there`;
  return submits >= most ? `it was asked ${submits} times in the last minute, of ${most}` : undefined;
}

function atWork(worker: string, { slot, running, waits, capacity }: Look): NotStarted {
  return {
    text: `It has a slot at ${worker}, and is being worked on.`,
    slot,
    place: null,
    waiting: waits,
    limit: 'at_work',
    capacity,
    holders: running,
  };
}

function inQueue(document: ActorDocument, { slot, running, waiting, waits, capacity }: Look): NotStarted {
  const place = waiting.findIndex(({ id }) => id === document._id);
  const own = running.filter(({ project_id }) => project_id === document.project).length;
  const perProject = waiting[place]?.per_project ?? capacity;
  const isFull = running.length >= capacity;
  const why = isFull
    ? `All ${capacity} slots of the class ${slot} are taken.`
    : `Its project has ${own} of the ${perProject} slots that its plan allows.`;
  return {
    text: `It is number ${place + 1} of ${waits} in the queue. ${why}`,
    slot,
    place: place + 1,
    waiting: waits,
    limit: isFull ? 'all_slots' : 'project',
    capacity,
    holders: isFull ? running : running.filter(({ project_id }) => project_id === document.project),
  };
}

function notQueued(looks: readonly Look[]): NotStarted {
  const waiting = looks.reduce((sum, { waits }) => sum + waits, 0);
  return {
    ...nothing,
    text: 'No worker has its work: it is on its way, or was lost and is asked for again by the machine’s own timer.',
    waiting,
    limit: 'not_queued',
  };
}
