/**
 * What requests do with assets, the same for the REST API and the proxy: resolve, accept, regenerate, cancel.
 *
 * Accepting a run: one conditional count against the quota with a hold, then the document at version 0, then
 * START. A crash in between loses nothing: the sweeper starts documents and gives holds back.
 */
import { createHash } from 'node:crypto';
import type { AssetInput } from '../../machines/asset.ts';
import type { AssetOptions, AssetStatus, Mode, Model } from '../../schemas/asset.ts';
import type { RunOptions, RunRequest, StoredMedia } from '../../schemas/asset-messages.ts';
import type { ErrorCode } from '../../schemas/errors.ts';
import { asset as limits, pipeline } from '../../schemas/limits.ts';
import { type PlanName, plans } from '../../schemas/plans.ts';
import { contextOf, statusOf } from '../actors/asset.ts';
import { type ActorKind, newDocument } from '../actors/kind.ts';
import type { Bus } from '../bus/bus.ts';
import { createRunQuota } from '../quota/runs.ts';
import type { StoredFact } from '../store/actors.ts';
import type { AssetCursor, AssetDocument, AssetFilter, AssetStore } from '../store/assets.ts';
import { newId } from '../store/ids.ts';
import type { Hold, QuotaStore, QuotaUser } from '../store/quota.ts';

/** What of a project matters to its assets. */
export type AssetProject = {
  id: string;
  userId: string;
  defaultMotion: RunOptions['motion'] | null;
  defaultMode: Mode | null;
  defaultDurSeconds: number | null;
  sourceHosts: string[] | null;
  overageEnabled: boolean;
  overageCapCents: number | null;
};

/** An asset as requests see it. Times are unix ms. */
export type AssetView = {
  id: string;
  projectId: string;
  status: AssetStatus;
  state: string;
  src: string;
  run: number;
  /** The hold that counted the run. */
  holdId: string;
  options: RunOptions;
  media: StoredMedia | null;
  latencyMs: number | null;
  error: { code: ErrorCode; message: string; hint: string | null } | null;
  runStartedTs: number;
  createdTs: number;
  updatedTs: number;
  facts: StoredFact[];
};

export type Asked = AssetOptions & { src: string };

export type Refusal =
  /** `paidPlan`: overage could be bought and is switched off. */
  | { outcome: 'exhausted'; paidPlan: boolean }
  | { outcome: 'busy'; retryAfterMs: number }
  | { outcome: 'not in plan'; what: 'model' | 'aspect' }
  | { outcome: 'source host not allowed' };

export type Prepared = { outcome: 'existing' | 'created'; asset: AssetView } | Refusal;
export type Regenerated = { outcome: 'accepted'; asset: AssetView } | { outcome: 'erased' } | Refusal;

export type AssetRequests = ReturnType<typeof createAssetRequests>;

export type AssetRequestsPorts = {
  assets: AssetStore;
  quota: QuotaStore;
  bus: Pick<Bus, 'publish' | 'subjects' | 'onFacts' | 'flush'>;
  kind: ActorKind;
  /** Estimated wait of a new run of the project for a worker, in ms. */
  queueWaitMs(projectId: string): number;
  /** Whether a loop of a model can be made without a seam; absent where every one can. */
  canLoopNatively?(model: Model): boolean;
  /** The source of a new asset: an upload is kept from now on. */
  onSourceUsed(src: string): Promise<void>;
  now(): number;
};

type NewRun = Omit<RunRequest, 'run' | 'holdId'> & { src: string };
type Message = { type: string } & Record<string, unknown>;

/** How long an answer waits for its command to be applied: it is then seen by the next read. */
const appliedWithinMs = 1_000;

export function createAssetRequests({
  assets,
  quota,
  bus,
  kind,
  queueWaitMs,
  canLoopNatively = () => true,
  onSourceUsed,
  now,
}: AssetRequestsPorts) {
  const eta = createEta(assets, now);
  const runs = createRunQuota(quota, now);

  const find = async (id: string): Promise<AssetView | undefined> => {
    const document = await assets.find(id);
    return document && toView(document);
  };

  /** The asset that this very request resolved to before. Starts nothing. */
  const lookup = async (project: AssetProject, asked: Asked): Promise<AssetView | undefined> => {
    return (await resolved(askedHash(project.id, asked))).asset;
  };

  /** What a request resolved to before. That it resolved to an asset which was erased since is forgotten. */
  const resolved = async (hash: string): Promise<{ id?: string; asset?: AssetView }> => {
    const id = await assets.resolved(hash);
    if (id === undefined) return {};
    const document = await assets.findKept(id);
    if (!document) return { id };
    if (!document.erasure) return { id, asset: toView(document) };
    await assets.unresolve(hash, id);
    return {};
  };

  const prepare = async (project: AssetProject, asked: Asked, requestId: string): Promise<Prepared> => {
    const wish = askedHash(project.id, asked);
    const { id: askedId, asset: known } = await resolved(wish);
    if (known) return { outcome: 'existing', asset: known };

    const user = await quota.find(project.userId);
    if (!user) return exhausted('free', project);
    const { plan } = user;
    const run: NewRun = {
      src: withoutFragment(asked.src),
      options: fillIn(project, asked, plan, canLoopNatively),
      plan,
      requestId,
    };
    const wanted = identityHash(project.id, run);
    const { asset: existing } = await resolved(wanted);
    if (!existing) {
      const ids = { wanted, wish, askedId };
      const created = await runs.inTurn(user._id, async (fresh) =>
        fresh ? create(project, fresh, run, ids) : exhausted('free', project),
      );
      return created === 'busy' ? { outcome: created, retryAfterMs: appliedWithinMs } : created;
    }
    await assets.resolve(wish, existing.id, project.id);
    return { outcome: 'existing', asset: existing };
  };

  const create = async (
    project: AssetProject,
    user: QuotaUser,
    run: NewRun,
    { wanted, wish, askedId }: { wanted: string; wish: string; askedId: string | undefined },
  ): Promise<Prepared> => {
    const refusal =
      refuse(project, run.src, run.options, run.plan) ?? refuseBusy(project) ?? refuseEarly(user, project);
    if (refusal) return refusal;
    const id = await assets.resolve(wanted, askedId ?? newId('ast'), project.id);
    const hold = await runs.take(user, project, `${id}:1`);
    if (hold === 'exhausted') return exhausted(run.plan, project);
    // Before the document: who asks again after a crash in between must find the same asset.
    await assets.resolve(wish, id, project.id);
    await onSourceUsed(run.src);
    // The sweeper may have given the hold back: a run that it counted no more must not begin.
    if (now() - hold.ts > holdUsableMs) return { outcome: 'busy', retryAfterMs: appliedWithinMs };
    const isNew = await insert(id, project, { ...run, run: 1, holdId: hold.id });
    const asset = await find(id);
    // Erased again by its owner in this very moment.
    if (!asset) return { outcome: 'busy', retryAfterMs: appliedWithinMs };
    // Another request has made it, counted by another hold: this one counts nothing. In a later run the
    // document names a later hold, and this one may be what counts the first: the sweeper knows.
    if (!isNew && asset.run === 1 && asset.holdId !== hold.id) await quota.giveBack(user._id, hold);
    return { outcome: isNew ? 'created' : 'existing', asset };
  };

  const insert = async (
    id: string,
    project: AssetProject,
    { src, ...request }: RunRequest & { src: string },
  ): Promise<boolean> => {
    const input: AssetInput = { ...request, projectId: project.id, src };
    const created = await assets.actors.insert(
      newDocument(kind, { id, project: project.id, input, ts: now() }),
    );
    // Also when another request made it: that one may have died before this step.
    await command(project.id, id, `${id}:start`, { type: 'START' });
    return created;
  };

  /** @param run the run that it begins: one that has begun already is answered as it is, and not counted again. */
  const regenerate = async (
    project: AssetProject,
    asset: AssetView,
    asked: Omit<AssetOptions, 'aspect' | 'model'>,
    requestId: string,
    run = asset.run + 1,
  ): Promise<Regenerated> => {
    if (asset.run >= run) return { outcome: 'accepted', asset };
    const user = await quota.find(project.userId);
    if (!user) return exhausted('free', project);
    const { plan } = user;
    const options = change(asset.options, asked, plan, canLoopNatively);
    const refusal = refuse(project, asset.src, options, plan) ?? refuseBusy(project);
    if (refusal) return refusal;
    const hold = await runs.take(user, project, `${asset.id}:${run}`);
    if (hold === 'exhausted') return exhausted(plan, project);
    const applied = whenFact(asset, 'queued', run);
    await command(project.id, asset.id, `${asset.id}:${run}:regenerate`, {
      type: 'REGENERATE',
      run,
      requestId,
      options,
      plan,
      holdId: hold.id,
    });
    await applied;
    // Whoever erases it wins: a run that it passed over is given back by the sweeper.
    if (!(await find(asset.id))) return { outcome: 'erased' };
    return { outcome: 'accepted', asset: { ...asset, run, options, status: 'pending' } };
  };

  /** Answers the asset as it is afterwards, or undefined when there was nothing to cancel. */
  const cancel = async (asset: AssetView, requestId: string): Promise<AssetView | undefined> => {
    if (asset.status !== 'pending') return undefined;
    const applied = whenFact(asset, 'cancelled', asset.run);
    await command(asset.projectId, asset.id, `${asset.id}:${asset.run}:cancel:${requestId}`, {
      type: 'CANCEL',
      run: asset.run,
    });
    await applied;
    return find(asset.id);
  };

  const command = async (project: string, id: string, messageId: string, body: Message): Promise<void> => {
    await bus.publish({ subject: bus.subjects.command(project, kind.name, id), id: messageId, body });
  };

  /** Resolves when the run's fact is published, or soon after at the latest. */
  const whenFact = ({ projectId, id }: AssetView, event: string, run: number): Promise<void> =>
    new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        subscription.stop();
        resolve();
      };
      const subscription = bus.onFacts(projectId, id, event, (fact) => {
        if ((fact as { run: number }).run === run) done();
      });
      const timer = setTimeout(done, appliedWithinMs);
    });

  const refuseBusy = (project: AssetProject): Refusal | undefined => {
    const waitMs = queueWaitMs(project.id);
    if (waitMs <= pipeline.maxQueueWaitMs) return undefined;
    return { outcome: 'busy', retryAfterMs: waitMs - pipeline.maxQueueWaitMs };
  };

  /** Without a write: a flood of new addresses on an exhausted project must leave nothing behind. */
  const refuseEarly = (user: QuotaUser, project: AssetProject): Refusal | undefined =>
    runs.isOpen(user, project) ? undefined : exhausted(user.plan, project);

  return {
    find,
    lookup,
    prepare,
    regenerate,
    cancel,
    /** Ms until a pending asset is likely to be ready, at least one second. */
    etaMs: eta.of,

    async list(filter: AssetFilter, limit: number, after?: AssetCursor): Promise<AssetView[]> {
      return (await assets.list(filter, limit, after)).map(toView);
    },

    /** Cancels what is under way in a project that is being deleted. */
    async cancelAll(projectId: string, requestId: string): Promise<void> {
      for (const id of await assets.pendingIn(projectId, maxCancelled)) {
        await command(projectId, id, `${id}:cancel:${requestId}`, { type: 'CANCEL' });
      }
    },

    /** Looks at holds older than a minute: their run is in its document, or they are given back. */
    async settleHolds(): Promise<void> {
      for await (const { userId, holds } of quota.withOldHolds(now() - holdSettledAfterMs)) {
        for (const hold of holds) await settleHold(userId, hold);
      }
    },
  };

  async function settleHold(userId: string, hold: Hold): Promise<void> {
    const [id = '', run = '1'] = hold.key.split(':');
    const document = await assets.findKept(id);
    const context = document?.machine.context;
    if (context && (context.run > Number(run) || context.holdId === hold.id))
      return quota.settle(userId, hold);
    // A regenerate may still be on its way to the actor.
    const isWaiting =
      context !== undefined && context.run < Number(run) && now() - hold.ts < commandLostAfterMs;
    if (!isWaiting) await quota.giveBack(userId, hold);
  }
}

const maxCancelled = 10_000;
const holdSettledAfterMs = 60_000;
/** A document is made well before its hold may be given back, the store's own time limit included. */
const holdUsableMs = 30_000;
/** Longer than all owners may be away: a command that they find waiting is applied, and must be counted. */
const commandLostAfterMs = 24 * 60 * 60_000;

const exhausted = (plan: PlanName, { overageEnabled }: AssetProject): Refusal => ({
  outcome: 'exhausted',
  paidPlan: plan !== 'free' && !overageEnabled,
});

export function toView(document: AssetDocument): AssetView {
  const { _id: id, project: projectId, machine, state, createdTs, updatedTs } = document;
  const { src, run, holdId, options, media, latencyMs, error, runStartedTs } = contextOf(machine);
  return {
    id,
    projectId,
    status: statusOf(machine),
    state,
    src,
    run,
    holdId,
    options,
    media,
    latencyMs,
    error,
    runStartedTs,
    createdTs,
    updatedTs,
    facts: document.facts ?? [],
  };
}

/** Request, else the project's default, else the service's (decisions 3, Defaults). */
function fillIn(
  project: AssetProject,
  asked: Asked,
  plan: PlanName,
  canLoopNatively: (model: Model) => boolean,
): RunOptions {
  const mode = asked.mode ?? project.defaultMode ?? 'loop';
  const model = asked.model ?? defaultModel;
  return {
    motion: asked.motion ?? project.defaultMotion ?? 'subtle',
    mode,
    seconds: asked.dur_seconds ?? project.defaultDurSeconds ?? limits.defaultSeconds,
    seed: asked.seed ?? null,
    promptOverride: asked.prompt_override ?? null,
    aspect: asked.aspect ?? 'source',
    model,
    loopMode: loopModeOf(mode, plan, canLoopNatively(model)),
  };
}

const defaultModel: Model = 'fast';

/** A seam is faded over where the plan or the model knows no better. */
function loopModeOf(mode: Mode, plan: PlanName, canBeNative: boolean): RunOptions['loopMode'] {
  if (mode !== 'loop') return 'none';
  return canBeNative ? plans[plan].loopMode : 'crossfade';
}

/** Fields that are not sent keep the present run's value (decisions 3, Regenerate). */
function change(
  present: RunOptions,
  asked: Omit<AssetOptions, 'aspect' | 'model'>,
  plan: PlanName,
  canLoopNatively: (model: Model) => boolean,
): RunOptions {
  const mode = asked.mode ?? present.mode;
  return {
    ...present,
    mode,
    motion: asked.motion ?? present.motion,
    seconds: asked.dur_seconds ?? present.seconds,
    seed: asked.seed ?? present.seed,
    promptOverride: asked.prompt_override ?? present.promptOverride,
    loopMode: loopModeOf(mode, plan, canLoopNatively(present.model)),
  };
}

/** Features of the plan are checked only where a run would start, so assets outlive a downgrade. */
function refuse(
  project: AssetProject,
  src: string,
  options: RunOptions,
  plan: PlanName,
): Refusal | undefined {
  if (!plans[plan].models.includes(options.model)) return { outcome: 'not in plan', what: 'model' };
  if (options.aspect !== 'source' && !plans[plan].aspectOverride)
    return { outcome: 'not in plan', what: 'aspect' };
  if (!isHostAllowed(project.sourceHosts, src)) return { outcome: 'source host not allowed' };
  return undefined;
}

/** A listed host accepts its subdomains. */
function isHostAllowed(hosts: string[] | null, src: string): boolean {
  if (hosts === null) return true;
  const host = new URL(src).hostname.toLowerCase();
  return hosts.some((allowed) => host === allowed || host.endsWith(`.${allowed}`));
}

function withoutFragment(src: string): string {
  const url = new URL(src);
  url.hash = '';
  return url.href;
}

/** A request as asked: it means the same asset for ever, whatever becomes of defaults (decisions 3, Identity). */
function askedHash(projectId: string, { src, ...asked }: Asked): string {
  const { motion, mode, dur_seconds, prompt_override, seed, aspect, model } = asked;
  return hash([
    'asked',
    projectId,
    withoutFragment(src),
    motion,
    mode,
    dur_seconds,
    prompt_override,
    seed,
    aspect,
    model,
  ]);
}

function identityHash(projectId: string, { src, options }: NewRun): string {
  const { motion, mode, seconds, seed, promptOverride, aspect, model } = options;
  return hash(['identity', projectId, src, motion, seconds, mode, seed, promptOverride, aspect, model]);
}

function hash(parts: unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

const etaSample = 20;
const etaKeptMs = 30_000;
const etaDefaultMs = 15_000;
const minEtaMs = 1_000;

/** Typical latency of a mode and model, from the newest finished runs; looked up at most twice a minute. */
function createEta(assets: AssetStore, now: () => number) {
  const known = new Map<string, { ms: number; at: number }>();

  const typical = async (mode: Mode, model: Model): Promise<number> => {
    const key = `${mode}.${model}`;
    const cached = known.get(key);
    if (cached && now() - cached.at < etaKeptMs) return cached.ms;
    const latencies = (await assets.recentLatencies(mode, model, etaSample)).sort((a, b) => a - b);
    const ms = latencies[Math.floor(latencies.length * 0.75)] ?? etaDefaultMs;
    known.set(key, { ms, at: now() });
    return ms;
  };

  return {
    async of({ options, runStartedTs, createdTs }: AssetView): Promise<number> {
      const ms = await typical(options.mode, options.model);
      const elapsed = now() - Math.max(runStartedTs, createdTs);
      return Math.max(minEtaMs, ms - elapsed);
    },
  };
}
