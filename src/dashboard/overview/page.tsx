/** The overview of a project: first steps while there are some, its newest animations, and where it stands. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Asset, AssetList } from '../../../schemas/asset.ts';
import type { UsageResponse } from '../../../schemas/usage.ts';
import { nameOf } from '../assets/name.ts';
import { Poster } from '../assets/poster.tsx';
import { listen } from '../live.ts';
import { paths } from '../paths.ts';
import { originsOf, useProject } from '../project.ts';
import { session } from '../session.ts';
import { keep, recall } from '../settings.ts';
import { useStore } from '../store.ts';
import { StateBadge } from '../ui/badge.tsx';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Problem, Skeleton } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { useRead } from '../ui/use-request.ts';
import { Count, Time } from '../ui/value.tsx';
import { Checklist, type Step } from './checklist.tsx';
import { FirstAnimation } from './first-animation.tsx';
import { type Latest, useLatest } from './latest.ts';
import './overview.css';

const shown = 6;

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  const latest = useLatest(projectId, shown);
  const [isHidden, hide] = useState(() => recall(`steps-hidden:${projectId}`) !== undefined);
  const steps = useSteps(projectId, latest);
  const isOver = steps?.every(({ isDone }) => isDone) === true;
  // What has just been finished stays in sight until the next visit.
  const [wasOver] = useState(() => recall(`steps-done:${projectId}`) !== undefined);
  useEffect(() => {
    if (isOver) keep(`steps-done:${projectId}`, 'yes');
  }, [isOver, projectId]);
  const hasSteps = steps !== undefined && !isHidden && !(isOver && wasOver);
  return (
    <>
      <PageHead
        title={project.name}
        actions={
          hasSteps ? (
            <Button
              look="quiet"
              onClick={() => {
                keep(`steps-hidden:${projectId}`, 'yes');
                hide(true);
              }}
            >
              Hide the first steps
            </Button>
          ) : undefined
        }
      >
        {project.domains.length > 0 ? project.domains.join(', ') : undefined}
      </PageHead>
      <Problem error={latest.error} onRetry={latest.reload} />
      {steps === undefined && latest.error === undefined && <Skeleton lines={6} />}
      {hasSteps && steps && <Checklist steps={steps} />}
      {!hasSteps && steps && <FirstAnimation projectId={projectId} latest={latest} />}
      {latest.assets && latest.assets.length > 0 && (
        <section class="overview-part" aria-label="Newest animations">
          <header class="row">
            <h2>Newest animations</h2>
            <a href={paths.assets(projectId)}>All of them</a>
          </header>
          <ul class="posters">
            {latest.assets.map((asset) => (
              <Newest key={asset.asset_id} asset={asset} />
            ))}
          </ul>
        </section>
      )}
      <Standing />
    </>
  );
}

/** undefined until it is known what was done. */
function useSteps(projectId: string, latest: Latest): Step[] | undefined {
  const project = useProject(projectId);
  const profile = useStore(session, (context) => context.profile);
  const webhooks = useRead<{ webhooks_enabled: boolean }>(`/api/projects/${projectId}/webhooks`);
  const [isCopied, copied] = useState(() => recall(`embedded:${projectId}`) !== undefined);
  useEffect(() => {
    const look = () => copied(recall(`embedded:${projectId}`) !== undefined);
    addEventListener('storage', look);
    const stop = listen({
      // The first delivered test switches webhooks on.
      events: (events) => events.some(({ event }) => event === 'webhook_delivered') && webhooks.reload(),
    });
    return () => {
      removeEventListener('storage', look);
      stop();
    };
  }, [projectId, webhooks.reload]);
  // Once made, it stays made: a first animation may be deleted later.
  const [wasMade, made] = useState(false);
  const ready = useRead<AssetList>(
    `/api/assets?project_id=${encodeURIComponent(projectId)}&status=ready&limit=1`,
  );
  const isMade =
    wasMade ||
    [latest.assets, ready.data?.assets].some((some) => some?.some(({ status }) => status === 'ready'));
  useEffect(() => made((before) => before || isMade), [isMade]);
  const madeBefore = useRef<boolean>(undefined);
  const isKnown = latest.assets !== undefined && (ready.data ?? ready.error) !== undefined;
  if (isKnown && madeBefore.current === undefined) madeBefore.current = isMade;
  if (!profile || !isKnown) return undefined;
  const origins = originsOf(project);
  return [
    {
      name: 'animation',
      title: 'Make a first animation',
      isDone: isMade,
      isShown: madeBefore.current === false,
      children: <FirstAnimation projectId={projectId} latest={latest} />,
    },
    {
      name: 'email',
      title: 'Confirm your e-mail address',
      isDone: profile.emailVerified,
      children: <ConfirmEmail email={profile.email} />,
    },
    {
      name: 'origins',
      title: 'Say which sites may show your animations',
      isDone: origins.length > 0,
      children: (
        <>
          <p class="note">The project’s key is public; the list of sites is what keeps it yours.</p>
          <div>
            <ButtonLink href={paths.proxy(projectId)}>Add your site</ButtonLink>
          </div>
        </>
      ),
    },
    {
      name: 'embed',
      title: 'Put one into a page',
      isDone: isCopied,
      children: (
        <>
          <p class="note">One script and one element, made for your options and ready to copy.</p>
          <div>
            <ButtonLink href={paths.embed(projectId)}>Get the snippet</ButtonLink>
          </div>
        </>
      ),
    },
    {
      name: 'webhooks',
      title: 'Be told by webhook (optional)',
      isDone: webhooks.data?.webhooks_enabled === true,
      children: (
        <div>
          <ButtonLink href={paths.webhooks(projectId)}>Set up webhooks</ButtonLink>
        </div>
      ),
    },
  ];
}

function ConfirmEmail({ email }: { email: string }) {
  return (
    <>
      <p class="note">A mail with a link was sent to {email}. Opening the link is all.</p>
      <div>
        <ButtonLink href={paths.account}>Send it again, or change the address</ButtonLink>
      </div>
    </>
  );
}

function Newest({ asset }: { asset: Asset }) {
  const { asset_id, project_id, status, state, created_at } = asset;
  return (
    <li>
      <a href={paths.asset(project_id, asset_id)} class="asset-card">
        <Poster asset={asset} />
        <span class="asset-words">
          <span class="asset-name">{nameOf(asset)}</span>
          <StateBadge state={state} status={status} />
          <span class="note">
            <Time at={created_at} />
          </span>
        </span>
      </a>
    </li>
  );
}

/** The month in one line. */
function Standing() {
  const { data, reload } = useRead<UsageResponse>('/api/user/usage');
  useEffect(
    () => listen({ events: (events) => events.some(({ event }) => event === 'queued') && reload() }),
    [reload],
  );
  if (!data) return null;
  const { used, limit, resets_at } = data.generations;
  const included = Math.min(used, limit);
  return (
    <p class="standing note">
      <Count value={included} /> of <Count value={limit} /> animations of this month are made
      {resets_at && (
        <>
          ; it begins anew <Time at={resets_at} />
        </>
      )}
      . <a href={paths.usage}>Usage and plan</a>
    </p>
  );
}
