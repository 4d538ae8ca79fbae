/** An image in, an animation out, without leaving the page: what happens is told while it happens. */
import { useEffect, useState } from 'preact/hooks';
import type { Asset, PrepareResponse, UploadResponse } from '../../../schemas/asset.ts';
import type { AssetEvent } from '../../../schemas/events.ts';
import { post } from '../api.ts';
import { useNow } from '../clock.ts';
import { paths } from '../paths.ts';
import { StateBadge } from '../ui/badge.tsx';
import { ButtonLink } from '../ui/button.tsx';
import { DropZone } from '../ui/drop-zone.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatDuration } from '../ui/value.tsx';
import type { Latest } from './latest.ts';

export function FirstAnimation({ projectId, latest }: { projectId: string; latest: Latest }) {
  const [image, setImage] = useState<{ name: string; url: string }>();
  const [assetId, setAssetId] = useState<string>();
  const { send, isBusy, error } = useSend(async (file: File) => {
    setAssetId(undefined);
    setImage({ name: file.name, url: URL.createObjectURL(file) });
    const form = new FormData();
    form.append('file', file);
    const { url: src } = await post<UploadResponse>('/api/v1/upload', undefined, { form, once: true });
    const wanted = { project_id: projectId, src };
    const { asset_id } = await post<PrepareResponse>('/api/v1/prepare', wanted, { once: true });
    setAssetId(asset_id);
    latest.reload();
  });
  useEffect(() => () => void (image && URL.revokeObjectURL(image.url)), [image]);

  const asset = latest.assets?.find(({ asset_id }) => asset_id === assetId);
  if (asset?.status === 'ready') return <Playing asset={asset} />;
  return (
    <div class="stack">
      {!isBusy && assetId === undefined && (
        <DropZone onFiles={([file]) => file && void send(file)}>Drop a photo here, or choose one</DropZone>
      )}
      {image && (isBusy || assetId !== undefined) && (
        <Making image={image} step={assetId === undefined ? undefined : latest.steps.get(assetId)} />
      )}
      {asset?.status === 'failed' && (
        <Notice
          tone="bad"
          action={<ButtonLink href={paths.asset(projectId, asset.asset_id)}>See what happened</ButtonLink>}
        >
          {asset.error_msg ?? 'It could not be animated.'} {asset.hint}
        </Notice>
      )}
      <Problem error={error} />
    </div>
  );
}

/** The still image under a veil that says what is being done to it. */
function Making(props: { image: { name: string; url: string }; step: AssetEvent | undefined }) {
  const { image, step } = props;
  const [startedTs] = useState(() => Date.now());
  useNow(1_000);
  return (
    <figure class="making">
      <img src={image.url} alt={image.name} />
      <figcaption class="row">
        <StateBadge state={stateAfter(step)} />
        <span class="note number">{formatDuration(Math.max(1_000, Date.now() - startedTs))}</span>
      </figcaption>
    </figure>
  );
}

function Playing({ asset }: { asset: Asset }) {
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  return (
    <figure class="making">
      {asset.mp4_url && (
        <video
          src={asset.mp4_url}
          poster={asset.poster_url ?? undefined}
          autoPlay={!isCalm}
          controls={isCalm}
          loop
          muted
          playsInline
          aria-label="Your animation"
        />
      )}
      <figcaption class="row">
        <StateBadge state="ready" />
        {asset.latency_ms !== null && (
          <span class="note number">made in {formatDuration(asset.latency_ms)}</span>
        )}
        <ButtonLink href={paths.embed(asset.project_id)} icon="code">
          Put it into a page
        </ButtonLink>
      </figcaption>
    </figure>
  );
}

/** What is being done after an event. */
function stateAfter(step: AssetEvent | undefined): string {
  if (!step) return 'source';
  if (step.event === 'retry_scheduled') return 'retrying';
  if (step.event === 'vision_completed') return 'single';
  if (step.event === 'store_write_completed') return 'storing';
  if (step.stage === 'stage1' && step.event === 'stage_completed') return 'stage2';
  if (step.stage === 'stage2' && step.event === 'stage_completed') return 'merge';
  return step.stage ?? 'source';
}
