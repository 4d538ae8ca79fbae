/** Into a page: what is chosen on the left, played beside it, and the code for it below. */
import { useEffect, useState } from 'preact/hooks';
import type { Aspect, Asset, AssetOptions, Mode, Motion, PrepareResponse } from '../../../schemas/asset.ts';
import type { Project } from '../../../schemas/project.ts';
import { post } from '../api.ts';
import { aspects, modes, motions, secondsChoices } from '../options.ts';
import { useLatest } from '../overview/latest.ts';
import { paths } from '../paths.ts';
import { originsOf, useProject } from '../project.ts';
import { saveProxy } from '../proxy/save.ts';
import { session } from '../session.ts';
import { keep, settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { StateBadge } from '../ui/badge.tsx';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Code } from '../ui/code.tsx';
import { Field, Segments, Select } from '../ui/field.tsx';
import { EmptyState, Notice, Problem, Skeleton } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { useSend } from '../ui/use-request.ts';
import { Preview } from './preview.tsx';
import { attributes, type Chosen, proxyUrl, type SnippetName, snippets } from './snippets.ts';
import './embed.css';

/** As many as one answer may hold: what exists among them is played without counting. */
const listed = 100;

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  const latest = useLatest(projectId, listed);
  const make = useSend(() => saveProxy(projectId, {}));
  return (
    <>
      <PageHead title="Embed">Choose what is shown and how; the code below follows.</PageHead>
      <Problem error={latest.error} onRetry={latest.reload} />
      {originsOf(project).length === 0 && (
        <Notice tone="wait" action={<ButtonLink href={`${paths.proxy(projectId)}`}>Add a site</ButtonLink>}>
          No site may show your animations yet. Snippets work here, and on your pages once you list their
          site.
        </Notice>
      )}
      {project.proxy_key === null ? (
        <EmptyState
          icon="code"
          title="This project has no key yet"
          action={
            <Button look="main" isBusy={make.isBusy} onClick={() => void make.send()}>
              Make the key
            </Button>
          }
        >
          The key is part of every address. It is public, and made once.
          <Problem error={make.error} />
        </EmptyState>
      ) : latest.assets === undefined ? (
        <Skeleton lines={8} />
      ) : (
        <Workbench project={project} projectKey={project.proxy_key} assets={latest.assets} />
      )}
    </>
  );
}

type Wish = {
  /** Id of an asset, or `image` for one by its address. */
  from: string;
  image: string;
  motion: Motion;
  seconds: string;
  mode: Mode;
  aspect: Aspect;
  seed: string;
  alt: string;
  fit: 'cover' | 'contain';
};

function Workbench(props: { project: Project; projectKey: string; assets: readonly Asset[] }) {
  const { project, projectKey, assets } = props;
  const [wish, setWish] = useState<Wish>(() => firstWish(project, assets));
  const change = (fields: Partial<Wish>) => setWish((before) => ({ ...before, ...fields }));
  const chosenAsset = assets.find(({ asset_id }) => asset_id === wish.from);
  useEffect(() => {
    // A choice that is gone, and a first one when there was none.
    if (wish.from !== 'image' && !chosenAsset) change({ from: assets[0]?.asset_id ?? 'image' });
  }, [assets, chosenAsset, wish.from]);
  const source = chosenAsset?.src ?? (URL.canParse(wish.image) ? wish.image : undefined);
  const match = source === undefined ? undefined : findMade(assets, source, wish);
  const chosen = source === undefined ? undefined : toChosen(project, projectKey, wish, chosenAsset, match);
  return (
    <>
      <div class="workbench">
        <form class="stack form" aria-label="What is shown" onSubmit={(event) => event.preventDefault()}>
          <SourceFields wish={wish} assets={assets} change={change} />
          <OptionFields wish={wish} change={change} />
        </form>
        <section aria-label="Preview" class="stack">
          {chosen && source !== undefined ? (
            <Shown project={project} chosen={chosen} wish={wish} source={source} match={match} />
          ) : (
            <EmptyState icon="image" title="Nothing to show yet">
              Choose one of your animations, or type the address of an image.
            </EmptyState>
          )}
        </section>
      </div>
      {chosen && <Snippets projectId={project.id} chosen={chosen} isSigning={project.signing_enabled} />}
    </>
  );
}

type Change = (fields: Partial<Wish>) => void;

function SourceFields({ wish, assets, change }: { wish: Wish; assets: readonly Asset[]; change: Change }) {
  return (
    <>
      <Select
        label="Animation"
        value={wish.from}
        choices={[
          ...assets.map((asset) => ({ value: asset.asset_id, label: labelOf(asset) })),
          { value: 'image', label: 'An image by its address …' },
        ]}
        onChange={(from) => {
          const asset = assets.find(({ asset_id }) => asset_id === from);
          change({ from, ...(asset ? optionsOf(asset) : {}) });
        }}
      />
      {wish.from === 'image' && (
        <Field
          label="Address of the image"
          type="url"
          value={wish.image}
          onInput={(image) => change({ image })}
          placeholder="https://example.com/photo.jpg"
          isCode
        />
      )}
      <Field
        label="Text for who does not see it"
        value={wish.alt}
        onInput={(alt) => change({ alt })}
        placeholder="Waves at dusk"
      />
    </>
  );
}

function OptionFields({ wish, change }: { wish: Wish; change: Change }) {
  const plan = useStore(session, (context) => context.profile?.plan ?? 'free');
  const mayCrop = settings.plans[plan].aspectOverride;
  return (
    <>
      <Segments
        label="Motion"
        value={wish.motion}
        choices={motions}
        onChange={(motion) => change({ motion })}
      />
      <Segments label="Mode" value={wish.mode} choices={modes} onChange={(mode) => change({ mode })} />
      <div class="pair">
        <Select
          label="Length"
          value={wish.seconds}
          choices={secondsChoices}
          onChange={(seconds) => change({ seconds })}
        />
        <Select
          label="Crop"
          value={wish.aspect}
          choices={aspects.map((one) => ({ ...one, disabled: one.value !== 'source' && !mayCrop }))}
          onChange={(aspect) => change({ aspect })}
          hint={mayCrop ? undefined : 'From the Pro plan on.'}
        />
      </div>
      <div class="pair">
        <Field
          label="Seed"
          type="number"
          min={0}
          max={settings.limits.maxSeed}
          value={wish.seed}
          onInput={(seed) => change({ seed })}
          placeholder="Any"
        />
        <Segments
          label="In its frame"
          value={wish.fit}
          choices={[
            { value: 'cover', label: 'Fills' },
            { value: 'contain', label: 'Fits' },
          ]}
          onChange={(fit) => change({ fit })}
        />
      </div>
    </>
  );
}

/** Plays what exists; for what does not, the still image, and what making it would cost. */
function Shown(props: {
  project: Project;
  chosen: Chosen;
  wish: Wish;
  source: string;
  match: Asset | undefined;
}) {
  const { project, chosen, wish, source, match } = props;
  const { send, isBusy, error } = useSend(() =>
    post<PrepareResponse>(
      '/api/v1/prepare',
      { project_id: project.id, src: source, ...toOptions(wish) },
      { once: true },
    ),
  );
  if (match && match.status !== 'failed') {
    const played: Chosen = { ...chosen, source: { kind: 'asset', id: match.asset_id } };
    return (
      <>
        <Preview
          // Played anew when it has become another file.
          key={`${match.asset_id} ${match.run} ${match.status}`}
          attributes={attributes(played)}
          ratio={chosen.ratio}
        />
        {match.status === 'pending' && (
          <p class="row note">
            <StateBadge state={match.state} status={match.status} /> It plays here as soon as it is ready.
          </p>
        )}
      </>
    );
  }
  return (
    <>
      <img
        class="preview"
        style={{ aspectRatio: chosen.ratio, objectFit: chosen.fit }}
        // The free poster of the image, whatever the options.
        src={new URL(proxyUrl({ ...chosen, options: {} }, 'jpg')).pathname}
        alt={chosen.alt}
      />
      {match ? (
        <Notice
          tone="bad"
          action={<ButtonLink href={paths.asset(project.id, match.asset_id)}>See why</ButtonLink>}
        >
          This one failed: {match.error_msg ?? 'it could not be made'}
        </Notice>
      ) : (
        <Notice
          action={
            <Button isBusy={isBusy} onClick={() => void send()}>
              Make it now
            </Button>
          }
        >
          With these options it is another animation. It is made when it is first shown, or now, and counts
          once.
        </Notice>
      )}
      <Problem error={error} />
    </>
  );
}

function Snippets({
  projectId,
  chosen,
  isSigning,
}: {
  projectId: string;
  chosen: Chosen;
  isSigning: boolean;
}) {
  const [name, setName] = useState<SnippetName>('element');
  const { label, note, write } = snippets[name];
  const isSigned = name === 'node' || name === 'python';
  return (
    <section class="snippets" aria-label="Code">
      <h2>Code</h2>
      <Tabs
        label="Kinds of code"
        tabs={(Object.keys(snippets) as SnippetName[]).map((one) => ({
          name: one,
          label: snippets[one].label,
        }))}
        current={name}
        onChange={(chosen) => setName(chosen)}
      >
        <div class="stack">
          <p class="note">{note}</p>
          {isSigned && !isSigning && (
            <Notice tone="wait" action={<ButtonLink href={paths.proxy(projectId)}>Switch it on</ButtonLink>}>
              Signed addresses are refused until signing is switched on, which also makes the secret.
            </Notice>
          )}
          <Code name={label} text={write(chosen)} onCopied={() => keep(`embedded:${projectId}`, 'yes')} />
        </div>
      </Tabs>
    </section>
  );
}

function firstWish(project: Project, assets: readonly Asset[]): Wish {
  const first = assets.find(({ status }) => status === 'ready') ?? assets[0];
  const defaults = {
    motion: project.default_motion ?? 'subtle',
    seconds: String(project.default_dur_seconds ?? settings.limits.defaultSeconds),
    mode: project.default_mode ?? 'loop',
    aspect: 'source' as const,
    seed: '',
  };
  return {
    from: first?.asset_id ?? 'image',
    image: '',
    alt: '',
    fit: 'cover',
    ...(first ? optionsOf(first) : defaults),
  };
}

const optionsOf = ({ motion, dur_seconds, mode, aspect, seed }: Asset) => ({
  motion,
  seconds: String(dur_seconds),
  mode,
  aspect,
  seed: seed === null ? '' : String(seed),
});

function toOptions({ motion, seconds, mode, aspect, seed }: Wish): AssetOptions {
  return {
    motion,
    mode,
    dur_seconds: Number(seconds),
    ...(aspect === 'source' ? {} : { aspect }),
    ...(seed === '' ? {} : { seed: Number(seed) }),
  };
}

/** The asset that has all of these options, if it exists. */
function findMade(assets: readonly Asset[], source: string, wish: Wish): Asset | undefined {
  const isWished = (asset: Asset) => {
    const own = optionsOf(asset);
    return (
      asset.src === source &&
      (['motion', 'seconds', 'mode', 'aspect', 'seed'] as const).every((name) => own[name] === wish[name])
    );
  };
  const chosen = assets.find(({ asset_id }) => asset_id === wish.from);
  return chosen && isWished(chosen) ? chosen : assets.find(isWished);
}

function toChosen(
  project: Project,
  key: string,
  wish: Wish,
  from: Asset | undefined,
  match: Asset | undefined,
): Chosen {
  const image = from?.src ?? wish.image;
  const { motion, mode, dur_seconds: dur, aspect, seed } = toOptions(wish);
  const shape = match ?? from;
  return {
    baseUrl: settings.baseUrl,
    key,
    // By its id as long as it is one that exists: that address stays when it is regenerated.
    source:
      match && wish.from !== 'image' ? { kind: 'asset', id: match.asset_id } : { kind: 'image', url: image },
    options: {
      ...(motion === (project.default_motion ?? 'subtle') ? {} : { motion }),
      ...(dur === (project.default_dur_seconds ?? settings.limits.defaultSeconds) ? {} : { dur }),
      ...(mode === (project.default_mode ?? 'loop') ? {} : { mode }),
      ...(aspect === undefined ? {} : { aspect }),
      ...(seed === undefined ? {} : { seed }),
    } as Chosen['options'],
    mode: wish.mode,
    alt: wish.alt,
    fit: wish.fit,
    ratio: ratioOf(wish.aspect, shape),
  };
}

function ratioOf(aspect: Aspect, shape: Asset | undefined): string {
  if (aspect !== 'source') return aspect.replace(':', ' / ');
  return shape?.width && shape.height ? `${shape.width} / ${shape.height}` : '3 / 2';
}

function labelOf({ src, motion, mode, dur_seconds, status }: Asset): string {
  const name = src.split(/[?#]/)[0]?.split('/').at(-1) || src;
  const shown = name.startsWith('upl_') ? 'Upload' : name;
  return `${shown} · ${motion}, ${mode}, ${dur_seconds} s${status === 'ready' ? '' : ` (${status})`}`;
}
