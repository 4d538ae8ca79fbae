/** What the month has used, what it is heading for, and what happens at the limit; the plans beside each other. */
import { useEffect } from 'preact/hooks';
import type { PlanName } from '../../../schemas/plans.ts';
import type { UsageResponse } from '../../../schemas/usage.ts';
import { now } from '../clock.ts';
import { listen } from '../live.ts';
import { paths } from '../paths.ts';
import { projects } from '../project.ts';
import { place } from '../router.ts';
import { settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { Badge } from '../ui/badge.tsx';
import { Notice, Problem, Skeleton } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Table, Wide } from '../ui/table.tsx';
import { useRead } from '../ui/use-request.ts';
import { Count, formatBytes, formatCount, formatDate, formatMoney, Money, Time } from '../ui/value.tsx';
import { forecastOf } from './forecast.ts';
import './usage.css';

export function Page() {
  const { data, error, reload } = useRead<UsageResponse>('/api/user/usage');
  useEffect(
    // A run counts the moment it is accepted.
    () => listen({ events: (events) => events.some(({ event }) => event === 'queued') && reload() }),
    [reload],
  );
  // Where the service sends those who need another plan.
  const isAboutPlans = useStore(place, ({ path }) => path.endsWith('/billing'));
  const isRead = data !== undefined;
  useEffect(() => {
    if (isAboutPlans && isRead) document.getElementById('plans')?.scrollIntoView();
  }, [isAboutPlans, isRead]);
  return (
    <>
      <PageHead title="Usage">
        {data && (
          <>
            The {planTitle(data.plan)} plan.{' '}
            {data.generations.resets_at ? (
              <>
                This month ends <Time at={data.generations.resets_at} />.
              </>
            ) : (
              'The month begins with the first animation.'
            )}
          </>
        )}
      </PageHead>
      <Problem error={error} onRetry={reload} />
      {data ? <Shown usage={data} /> : error === undefined && <Skeleton lines={10} />}
    </>
  );
}

function Shown({ usage }: { usage: UsageResponse }) {
  return (
    <>
      <Month usage={usage} />
      <AtTheLimit usage={usage} />
      <Projects usage={usage} />
      <OtherLimits usage={usage} />
      <Plans current={usage.plan} />
      <History usage={usage} />
    </>
  );
}

function Month({ usage: { generations } }: { usage: UsageResponse }) {
  const { used, limit, overage_runs, overage_cents } = generations;
  const included = used - overage_runs;
  const forecast = forecastOf(generations, now());
  return (
    <section class="month" aria-label="This month">
      <p class="big">
        <Count value={included} />
        <span class="soft"> of {formatCount(limit)} animations</span>
      </p>
      <Meter value={included} max={limit} forecast={forecast} />
      <div class="row month-words">
        {forecast !== undefined && (
          <p class="note">
            At this pace about <strong>{formatCount(forecast)}</strong> by the end of the month
            {forecast > limit ? ', which is more than the plan includes.' : '.'}
          </p>
        )}
        {overage_runs > 0 && (
          <p class="note">
            <strong>{formatCount(overage_runs)}</strong> past the limit: <Money cents={overage_cents} />
          </p>
        )}
      </div>
    </section>
  );
}

/** A bar of how much of a limit is used; a fine line where it is heading. The words beside it say the same. */
function Meter(props: { value: number; max: number; forecast?: number | undefined; isSmall?: boolean }) {
  const { value, max, forecast } = props;
  const share = (part: number) => `${Math.min(100, max === 0 ? 0 : (part / max) * 100)}%`;
  const tone = value >= max ? 'bad' : value >= max * 0.8 ? 'wait' : 'plain';
  return (
    <div class={`meter ${tone}${props.isSmall ? ' small' : ''}`} aria-hidden="true">
      <span style={{ width: share(value) }} />
      {forecast !== undefined && forecast > value && <i style={{ left: share(forecast) }} />}
    </div>
  );
}

/** In words, for this very plan and these projects. */
function AtTheLimit({ usage }: { usage: UsageResponse }) {
  const listed = useStore(projects, (context) => context.projects) ?? [];
  const { used, limit, overage_runs, overage_price_cents, resets_at } = usage.generations;
  const isReached = used - overage_runs >= limit;
  const paying = listed.filter((one) => one.overage_enabled);
  return (
    <Section title="At the limit">
      {isReached && (
        <Notice tone={paying.length > 0 ? 'wait' : 'bad'}>
          The month’s {formatCount(limit)} animations are made.{' '}
          {resets_at && (
            <>
              It begins anew <Time at={resets_at} />.
            </>
          )}
        </Notice>
      )}
      <ul class="words">
        <li>
          <strong>What is made goes on playing</strong>, for ever and for free: cache hits, posters and embeds
          do not count.
        </li>
        <li>
          <strong>New animations</strong>{' '}
          {paying.length === 0
            ? 'are refused with “monthly limit reached”; pages show the still image instead.'
            : 'are refused in projects without overage; pages show the still image instead.'}
        </li>
        {paying.length > 0 && overage_price_cents !== null && (
          <li>
            <strong>{paying.map(({ name }) => name).join(', ')}</strong> goes on at{' '}
            {formatMoney(overage_price_cents)} for each
            {capWords(paying.map(({ overage_cap_cents }) => overage_cap_cents))}.
          </li>
        )}
        <li>
          {overage_price_cents === null ? (
            <>The free plan has no overage: the month, or another plan, is the way on.</>
          ) : (
            <>
              Overage is switched on and bounded for each project, on its <em>Proxy</em> page.
            </>
          )}
        </li>
      </ul>
    </Section>
  );
}

function capWords(caps: (number | null)[]): string {
  const known = caps.filter((cap) => cap !== null);
  if (known.length === 0) return ', without a bound';
  return `, up to ${known.map(formatMoney).join(' and ')}${known.length < caps.length ? ', or without a bound' : ''}`;
}

function Projects({ usage }: { usage: UsageResponse }) {
  const listed = useStore(projects, (context) => context.projects) ?? [];
  const nameOf = (id: string | null) =>
    id === null ? 'All others' : (listed.find((one) => one.id === id)?.name ?? 'A project that is gone');
  return (
    <Section title="By project">
      {usage.projects.length === 0 ? (
        <p class="note">Nothing was made this month.</p>
      ) : (
        <Table
          caption="Animations of this month by project"
          rows={[...usage.projects].sort((a, b) => b.runs - a.runs)}
          keyOf={({ project_id }) => project_id ?? ''}
          columns={[
            {
              title: 'Project',
              cell: ({ project_id }) =>
                project_id ? <a href={paths.overview(project_id)}>{nameOf(project_id)}</a> : nameOf(null),
            },
            { title: 'Animations', isNumber: true, cell: ({ runs }) => <Count value={runs} /> },
            {
              title: 'Past the limit',
              isNumber: true,
              isMinor: true,
              cell: (row) => <Count value={row.overage_runs} />,
            },
            { title: 'Overage', isNumber: true, cell: (row) => <Money cents={row.overage_cents} /> },
          ]}
        />
      )}
    </Section>
  );
}

function OtherLimits({ usage: { crawls, deep_crawl_projects, uploads } }: { usage: UsageResponse }) {
  return (
    <Section
      title="Crawls and uploads"
      about="Brand detection and deep crawls share one number. The same site within a day counts once."
    >
      <dl class="limits">
        <Limit label="Crawls this month" {...crawls} text={`${crawls.used} of ${crawls.limit}`} />
        <Limit
          label="Projects with a deep crawl"
          {...deep_crawl_projects}
          text={`${deep_crawl_projects.used} of ${deep_crawl_projects.limit}`}
        />
        <Limit
          label="Uploads that nothing uses"
          used={uploads.unused_bytes}
          limit={uploads.max_unused_bytes}
          text={`${formatBytes(uploads.unused_bytes)} of ${formatBytes(uploads.max_unused_bytes)}`}
        />
      </dl>
      <p class="note">
        Crawls begin anew <Time at={crawls.resets_at} />. Uploads that no animation uses are deleted after a
        week.
      </p>
    </Section>
  );
}

function Limit({ label, used, limit, text }: { label: string; used: number; limit: number; text: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd class="number">{text}</dd>
      <dd>
        <Meter value={used} max={limit} isSmall />
      </dd>
    </div>
  );
}

const planTitle = (name: string) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;

/** The plans as the service has them. */
function Plans({ current }: { current: PlanName }) {
  const plans = (Object.keys(settings.plans) as PlanName[]).map((name) => ({
    name,
    ...settings.plans[name],
  }));
  const rows: { title: string; cell(plan: (typeof plans)[number]): string }[] = [
    {
      title: 'A month',
      cell: (plan) => (plan.pricePerMonthCents === 0 ? 'Free' : formatMoney(plan.pricePerMonthCents)),
    },
    { title: 'Animations a month', cell: (plan) => formatCount(plan.generationsPerMonth) },
    {
      title: 'Each one more',
      cell: (plan) => (plan.overageCents === null ? '–' : formatMoney(plan.overageCents)),
    },
    { title: 'Models', cell: (plan) => plan.models.join(', ') },
    { title: 'Loops', cell: (plan) => (plan.loopMode === 'native' ? 'Seamless' : 'Crossfaded') },
    { title: 'Crops', cell: (plan) => (plan.aspectOverride ? 'All' : '–') },
    { title: 'Crawls a month', cell: (plan) => formatCount(plan.crawlsPerMonth) },
    { title: 'Deep-crawl projects', cell: (plan) => formatCount(plan.deepCrawlProjects) },
  ];
  return (
    <Section
      title="Plans"
      id="plans"
      isWide
      about="Who runs this service sets the plan of an account: ask them to change yours. Prompts of your own, webhooks, streams and signed addresses are part of every plan."
    >
      <Wide label="Plans, side by side">
        <table class="plans">
          <caption class="unseen">Plans</caption>
          <thead>
            <tr>
              <td />
              {plans.map(({ name }) => (
                <th key={name} scope="col" data-current={name === current || undefined}>
                  {planTitle(name)} {name === current && <Badge tone="accent">Yours</Badge>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ title, cell }) => (
              <tr key={title}>
                <th scope="row">{title}</th>
                {plans.map((plan) => (
                  <td key={plan.name} class="number" data-current={plan.name === current || undefined}>
                    {cell(plan)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </Section>
  );
}

function History({ usage: { history } }: { usage: UsageResponse }) {
  if (history.length === 0) return null;
  return (
    <Section title="Months before" isWide>
      <Table
        caption="Months before"
        rows={history}
        keyOf={({ ended_at }) => ended_at}
        columns={[
          {
            title: 'Month',
            cell: ({ started_at, ended_at }) =>
              `${formatDate(Date.parse(started_at))} – ${formatDate(Date.parse(ended_at))}`,
          },
          { title: 'Plan', isMinor: true, cell: ({ plan }) => planTitle(plan) },
          { title: 'Animations', isNumber: true, cell: ({ runs }) => <Count value={runs} /> },
          { title: 'Overage', isNumber: true, cell: (row) => <Money cents={row.overage_cents} /> },
        ]}
      />
    </Section>
  );
}
