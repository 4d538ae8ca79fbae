/** One asset: what it plays, what can be done with it, and what its machine does. */
import { useEffect, useState } from 'preact/hooks';
import type { Asset, RegenerateResponse } from '../../../schemas/asset.ts';
import type { AssetEvent } from '../../../schemas/events.ts';
import { ApiError, get, post, remove } from '../api.ts';
import { listenFromNow } from '../gaps.ts';
import { paths } from '../paths.ts';
import { navigate } from '../router.ts';
import { StateBadge } from '../ui/badge.tsx';
import { Button, ButtonLink } from '../ui/button.tsx';
import { CopyLine } from '../ui/code.tsx';
import { Confirm, Dialog } from '../ui/dialog.tsx';
import { Form } from '../ui/field.tsx';
import { EmptyState, Notice, Problem, Skeleton } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatBytes, formatDuration, Time } from '../ui/value.tsx';
import { Machine } from './machine.tsx';
import { nameOf } from './name.ts';
import { OptionFields, type OptionsState, toOptions } from './options.tsx';
import { Poster } from './poster.tsx';
import { gallery, withEvent } from './store.ts';
import './asset.css';

type Params = { params: { projectId: string; assetId: string } };

export function Page({ params: { projectId, assetId } }: Params) {
  const { asset, events, error, reload } = useAsset(assetId);
  if (error instanceof ApiError && error.status === 404) return <Gone projectId={projectId} />;
  if (!asset)
    return error === undefined ? <Skeleton lines={9} /> : <Problem error={error} onRetry={reload} />;
  return (
    <>
      <PageHead title={nameOf(asset)} actions={<Actions asset={asset} onDone={reload} />}>
        <span class="row">
          <StateBadge state={asset.state} status={asset.status} />
          <span>
            Run {asset.run}, <Time at={asset.created_at} />
          </span>
        </span>
      </PageHead>
      <Problem error={error} onRetry={reload} />
      <Failure asset={asset} events={events} />
      <div class="asset-main">
        <Player asset={asset} />
        <Facts asset={asset} />
      </div>
      <Section title="How it is made" isWide>
        <Machine asset={asset} events={events} />
      </Section>
      <Section
        title="Addresses"
        about="The embed address stays the same for as long as the asset exists; files have one a run."
      >
        <Addresses asset={asset} />
      </Section>
    </>
  );
}

type Known = { asset: Asset; events: readonly AssetEvent[] };

/** The asset and its events, read once and followed from then on. */
function useAsset(id: string) {
  const [known, setKnown] = useState<Known | undefined>(() => {
    const asset = gallery.getSnapshot().context.assets[id];
    return asset && { asset, events: [] };
  });
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    read(id, control.signal).then(
      (read) => {
        setKnown((before) => merged(before, read));
        setError(undefined);
      },
      (cause: unknown) => {
        if (!control.signal.aborted) setError(cause);
      },
    );
    return () => control.abort();
  }, [id, round]);
  const reload = () => setRound((count) => count + 1);
  useEffect(
    () =>
      listenFromNow({
        events: (all) => {
          const own = all.filter(({ asset_id }) => asset_id === id);
          if (own.length === 0) return;
          setKnown((before) => before && own.reduce(withOne, before));
          // What a run leaves is more than its event tells.
          if (own.some(({ event }) => event === 'ready' || event === 'cancelled' || event === 'queued'))
            reload();
        },
        resync: reload,
      }),
    [id],
  );
  return { ...known, events: known?.events ?? [], error, reload };
}

async function read(id: string, signal: AbortSignal): Promise<Known> {
  const [{ asset }, { events }] = await Promise.all([
    get<{ asset: Asset }>(`/api/assets/${id}`, { signal }),
    get<{ events: AssetEvent[] }>(`/api/assets/${id}/timeline`, { signal }),
  ]);
  gallery.trigger.put({ asset });
  return { asset, events };
}

/** What came over the stream while it was read is not lost. */
function merged(before: Known | undefined, read: Known): Known {
  const late = (before?.events ?? []).filter(({ ts }) => ts > (read.events.at(-1)?.ts ?? 0));
  return late.reduce(withOne, read);
}

function withOne({ asset, events }: Known, event: AssetEvent): Known {
  if (events.some(({ ts }) => ts === event.ts)) return { asset, events };
  const isLife = !event.event.startsWith('webhook_');
  const isNew = isLife && event.ts > asset.updated_at && event.run >= asset.run;
  return { asset: isNew ? withEvent(asset, event) : asset, events: [...events, event] };
}

function Gone({ projectId }: { projectId: string }) {
  return (
    <EmptyState
      icon="image"
      title="This asset is gone"
      action={<ButtonLink href={paths.assets(projectId)}>All assets</ButtonLink>}
    >
      It was deleted, or never was in this project.
    </EmptyState>
  );
}

function Player({ asset }: { asset: Asset }) {
  const { mp4_url: mp4, poster_url: poster, mode } = asset;
  return (
    <div class="player" data-status={asset.status}>
      {mp4 ? (
        <video
          key={mp4}
          src={mp4}
          poster={poster ?? undefined}
          controls
          loop={mode === 'loop'}
          muted
          playsInline
          autoPlay={!matchMedia('(prefers-reduced-motion: reduce)').matches}
          aria-label={`Animation of ${nameOf(asset)}`}
        />
      ) : (
        <Poster asset={asset} />
      )}
      {asset.status === 'pending' && mp4 !== null && (
        <p class="note">The animation before plays until the new one is ready.</p>
      )}
    </div>
  );
}

const modes = { loop: 'As a loop', 'animate-in': 'Once', 'animate-on-hover': 'On hover' };

function Facts({ asset }: { asset: Asset }) {
  const { width, height, bytes, latency_ms: latency, seed, prompt_override: prompt } = asset;
  const facts: [string, string | undefined][] = [
    ['Motion', asset.motion],
    ['Plays', modes[asset.mode]],
    ['Length', `${asset.dur_seconds} s`],
    ['Shape', asset.aspect === 'source' ? 'as the source' : asset.aspect],
    ['Model', asset.model],
    ['Loop', asset.loop_mode && asset.loop_mode !== 'none' ? asset.loop_mode : undefined],
    ['Size', width && height ? `${width} × ${height}` : undefined],
    ['File', bytes === null ? undefined : formatBytes(bytes)],
    ['Made in', latency === null ? undefined : formatDuration(latency)],
    ['Seed', seed === null ? undefined : String(seed)],
    ['Wording', prompt ?? undefined],
  ];
  return (
    <dl class="facts">
      {facts.map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

function Addresses({ asset }: { asset: Asset }) {
  const lines: [string, string | null, string][] = [
    [
      'Embed address',
      asset.embed_url,
      'For pages: it plays the newest run. The page’s origin must be allowed.',
    ],
    ['Animation', asset.mp4_url, 'The file of this run, open to everyone who has the address.'],
    ['Poster', asset.poster_url, 'Its picture, likewise.'],
    ['Source', asset.src, 'What it was made of.'],
    ['Asset id', asset.asset_id, 'For the API.'],
  ];
  return (
    <>
      {lines.map(
        ([label, text, note]) =>
          text !== null && (
            <div key={label} class="address">
              <h3>{label}</h3>
              <CopyLine text={text} label={label} />
              <p class="note">{note}</p>
            </div>
          ),
      )}
    </>
  );
}

/** Why the newest run failed, with the page on it and the request that began it. */
function Failure({ asset, events }: { asset: Asset; events: readonly AssetEvent[] }) {
  const { status, error_code: code, error_msg: message } = asset;
  if (status !== 'failed') return null;
  const last = events.findLast((event) => event.event === 'failed' && event.run === asset.run);
  if (code === null) {
    return <Notice>This run was cancelled. Regenerate makes another one, and counts as a generation.</Notice>;
  }
  return (
    <div class="asset-failure">
      <Notice tone="bad">
        <p>
          <strong>{message ?? code.replaceAll('_', ' ')}</strong> Regenerate makes another run, and counts as
          a generation.
        </p>
        <p class="sources">
          <a href={`/docs/errors/${code}`} target="_blank" rel="noreferrer">
            About {code}
          </a>
          {last && (
            <span>
              Request <code>{last.request_id}</code>
            </span>
          )}
          {last?.stage && (
            <span>
              Stage {last.stage}, attempt {last.attempt}
            </span>
          )}
        </p>
      </Notice>
    </div>
  );
}

function Actions({ asset, onDone }: { asset: Asset; onDone(): void }) {
  const [asked, ask] = useState<'regenerate' | 'erase'>();
  const { asset_id: id, project_id: projectId, status } = asset;
  const cancel = useSend(async () => {
    await post(`/api/assets/${id}/cancel`);
    say('Cancelled');
    onDone();
  });
  const erase = useSend(async () => {
    await remove(`/api/assets/${id}`);
    gallery.trigger.erased({ id });
    say('Deleted');
    navigate(paths.assets(projectId), { replace: true });
  });
  return (
    <>
      {status === 'pending' && (
        <Button isBusy={cancel.isBusy} onClick={() => void cancel.send()}>
          Cancel
        </Button>
      )}
      <Button icon="refresh" onClick={() => ask('regenerate')}>
        Regenerate
      </Button>
      <Button look="danger" icon="bin" onClick={() => ask('erase')}>
        Delete
      </Button>
      <Problem error={cancel.error} />
      {asked === 'regenerate' && <Regenerate asset={asset} onClose={() => ask(undefined)} onDone={onDone} />}
      <Confirm
        title="Delete this asset?"
        isOpen={asked === 'erase'}
        action="Delete for good"
        isBusy={erase.isBusy}
        onConfirm={() => void erase.send()}
        onClose={() => ask(undefined)}
      >
        <p>
          The asset and its files are erased at once, and every address of it stops answering. This cannot be
          undone, and does not give generations back.
        </p>
        <Problem error={erase.error} />
      </Confirm>
    </>
  );
}

function Regenerate({ asset, onClose, onDone }: { asset: Asset; onClose(): void; onDone(): void }) {
  const [options, setOptions] = useState<OptionsState>({
    motion: asset.motion,
    mode: asset.mode,
    seconds: String(asset.dur_seconds),
    prompt: asset.prompt_override ?? '',
    seed: asset.seed === null ? '' : String(asset.seed),
  });
  const { send, isBusy, error } = useSend(async () => {
    const path = `/api/assets/${asset.asset_id}/regenerate`;
    await post<RegenerateResponse>(path, toOptions(options), { once: true });
    say('The next run has begun');
    onClose();
    onDone();
  });
  return (
    <Dialog title="Regenerate" isOpen onClose={onClose}>
      <p class="note">
        Counts as one generation. The addresses stay, and what plays now plays on until the new run is ready.
        {asset.status === 'pending' && ' The run that is under way is cancelled.'}
      </p>
      <Form onSubmit={() => void send()} label="Regenerate">
        <OptionFields value={options} onChange={setOptions} />
        <Problem error={error} />
        <div class="row">
          <Button type="submit" look="main" isBusy={isBusy}>
            Make another run
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
