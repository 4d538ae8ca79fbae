/** All assets of a project: posters, live progress in place, filter and search in the address. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Asset, AssetStatus } from '../../../schemas/asset.ts';
import { memo } from '../memo.tsx';
import { paths } from '../paths.ts';
import { place, setQuery } from '../router.ts';
import { useStore } from '../store.ts';
import { StateBadge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Segments } from '../ui/field.tsx';
import { Icon } from '../ui/icon.tsx';
import { EmptyState, Problem, Skeleton } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { Countdown, Time } from '../ui/value.tsx';
import { nameOf } from './name.ts';
import { NewAnimation } from './new-animation.tsx';
import { Poster } from './poster.tsx';
import { gallery, openGallery, readMore } from './store.ts';
import { DropAnywhere, UploadRows } from './upload-rows.tsx';
import { useWindow } from './window.ts';

const filters = [
  { value: 'all', label: 'All' },
  { value: 'pending', label: 'Under way' },
  { value: 'ready', label: 'Ready' },
  { value: 'failed', label: 'Failed' },
] as const;

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const filter = useStore(place, ({ query }) => statusOf(query.get('status')));
  const search = useStore(place, ({ query }) => query.get('q') ?? '');
  const [isAsking, ask] = useState(false);
  useEffect(() => openGallery(projectId, filter), [projectId, filter]);
  return (
    <>
      <PageHead
        title="Assets"
        actions={
          <Button look="main" icon="plus" onClick={() => ask(true)}>
            New animation
          </Button>
        }
      >
        Drop images anywhere on this page, or paste one.
      </PageHead>
      <div class="gallery-bar">
        <Segments
          label="Show"
          isLabelHidden
          value={filter ?? 'all'}
          choices={filters}
          onChange={(value) => setQuery({ status: value === 'all' ? undefined : value })}
        />
        <Search value={search} />
      </div>
      <UploadRows />
      <Cards projectId={projectId} filter={filter} search={search} />
      <NewAnimation projectId={projectId} isOpen={isAsking} onClose={() => ask(false)} />
      <DropAnywhere projectId={projectId} />
    </>
  );
}

const statusOf = (text: string | null): AssetStatus | undefined =>
  text === 'pending' || text === 'ready' || text === 'failed' ? text : undefined;

/** Within what has been read. `/` goes there. */
function Search({ value }: { value: string }) {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const go = (event: KeyboardEvent) => {
      const isTyping = (event.target as Element).closest('input, textarea, select, dialog');
      if (event.key !== '/' || isTyping) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener('keydown', go);
    return () => document.removeEventListener('keydown', go);
  }, []);
  return (
    <label class="gallery-search">
      <Icon name="search" />
      <span class="unseen">Search by address, id or wording</span>
      <input
        ref={input}
        type="search"
        class="input"
        placeholder="Search  /"
        value={value}
        onInput={({ currentTarget }) => setQuery({ q: currentTarget.value })}
        onKeyDown={({ key }) => {
          if (key === 'ArrowDown') document.querySelector<HTMLElement>('.asset-card')?.focus();
        }}
      />
    </label>
  );
}

function Cards({ projectId, filter, search }: Choice & { projectId: string }) {
  const isOurs = useStore(gallery, (one) => one.projectId === projectId && one.filter === filter);
  const cursor = useStore(gallery, (context) => context.cursor);
  const error = useStore(gallery, (context) => context.error);
  const shown = useShown(filter, search);
  const isFirst = !isOurs || cursor === undefined;
  const { grid, part } = useWindow(isFirst ? 0 : shown.length);
  if (isFirst && error === undefined) return <Waiting />;
  const count = shown.length;
  return (
    <>
      <Problem error={error} onRetry={() => void (isFirst ? location.reload() : readMore())} />
      <p class="unseen" role="status">
        {count} {count === 1 ? 'asset' : 'assets'} shown
      </p>
      {count === 0 && cursor === null && <Nothing filter={filter} search={search} />}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: keys go from link to link; each is a link by itself. */}
      <div
        ref={grid}
        class="gallery"
        onKeyDown={walk}
        style={{ paddingTop: `${part.above}px`, paddingBottom: `${part.below}px` }}
      >
        {shown.slice(part.first, part.end).map((id) => (
          <Card key={id} projectId={projectId} id={id} />
        ))}
      </div>
      {cursor !== null && cursor !== undefined && <More key={cursor} isHurried={count < 12} />}
    </>
  );
}

/** Ids in their order; the same array as long as they are the same. */
function useShown(filter: AssetStatus | undefined, search: string): readonly string[] {
  const last = useRef<readonly string[]>([]);
  return useStore(gallery, ({ chunks, assets }) => {
    const words = search.toLowerCase();
    const isShown = (id: string) => {
      const asset = assets[id];
      return asset !== undefined && fits(asset, filter, words);
    };
    const ids = chunks.flatMap((chunk) => chunk.filter(isShown));
    const isSame = ids.length === last.current.length && ids.every((id, at) => id === last.current[at]);
    if (!isSame) last.current = ids;
    return last.current;
  });
}

type Choice = { filter: AssetStatus | undefined; search: string };

const fits = (asset: Asset, filter: AssetStatus | undefined, words: string): boolean =>
  (filter === undefined || asset.status === filter) && (words === '' || textOf(asset).includes(words));

/** What is searched in. */
const textOf = ({ src, asset_id, prompt_override, motion, mode, error_code }: Asset): string =>
  [src, asset_id, prompt_override, motion, mode, error_code].join(' ').toLowerCase();

const Card = memo(function Card({ projectId, id }: { projectId: string; id: string }) {
  const asset = useStore(gallery, (context) => context.assets[id]);
  const retryTs = useStore(gallery, (context) => context.progress[id]?.retryTs);
  if (!asset) return null;
  return (
    <a class="asset-card" href={paths.asset(projectId, id)} data-asset={id} data-status={asset.status}>
      <Poster asset={asset} />
      <span class="asset-words">
        <span class="asset-name">{nameOf(asset)}</span>
        <StateBadge state={asset.state} status={asset.status} />
        <span class="note">
          {asset.state.endsWith('.retrying') && retryTs !== undefined ? (
            <>
              in <Countdown to={retryTs} />
            </>
          ) : asset.status === 'failed' && asset.error_code !== null ? (
            asset.error_code.replaceAll('_', ' ')
          ) : (
            <Time at={asset.created_at} />
          )}
        </span>
      </span>
    </a>
  );
});

/** Reads on when it comes near to being seen, and at once where a search leaves little to see. */
function More({ isHurried }: { isHurried: boolean }) {
  const line = useRef<HTMLDivElement>(null);
  const isReading = useStore(gallery, (context) => context.isReading);
  const error = useStore(gallery, (context) => context.error);
  useEffect(() => {
    if (!line.current || error !== undefined) return undefined;
    if (isHurried) void readMore(true);
    const watch = new IntersectionObserver(([entry]) => entry?.isIntersecting && void readMore(), {
      rootMargin: '800px',
    });
    watch.observe(line.current);
    return () => watch.disconnect();
  }, [isHurried, error, isReading]);
  return (
    <div ref={line} class="gallery-more">
      <Button isBusy={isReading} onClick={() => void readMore()}>
        Show more
      </Button>
    </div>
  );
}

function Waiting() {
  return (
    <div class="gallery" aria-busy="true">
      {useMemo(() => Array.from({ length: 8 }, (_, index) => index), []).map((index) => (
        <div key={index} class="asset-card">
          <span class="poster" />
          <Skeleton lines={2} />
        </div>
      ))}
    </div>
  );
}

function Nothing({ filter, search }: Choice) {
  if (filter === undefined && search === '') {
    return (
      <EmptyState icon="image" title="No animation yet">
        Drop an image anywhere on this page, paste one, or give its address: it moves some seconds later.
      </EmptyState>
    );
  }
  return (
    <EmptyState
      icon="search"
      title="Nothing fits"
      action={<Button onClick={() => setQuery({ status: undefined, q: undefined })}>Show all assets</Button>}
    >
      {filter === 'failed' && search === '' ? 'No run has failed. ' : ''}Try other words, or another filter.
    </EmptyState>
  );
}

/** Arrow keys go to the card beside, above or below. */
function walk(event: KeyboardEvent): void {
  const from = (event.target as Element).closest<HTMLElement>('.asset-card');
  if (!from) return;
  const cards = [...document.querySelectorAll<HTMLElement>('.gallery .asset-card')];
  const at = cards.indexOf(from);
  const columns = Math.max(
    1,
    cards.findIndex(({ offsetTop }) => offsetTop > (cards[0]?.offsetTop ?? 0)),
  );
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  const to = step === undefined ? undefined : cards[at + step];
  if (step === undefined || !to) return;
  event.preventDefault();
  to.focus();
}
