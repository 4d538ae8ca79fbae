/** What is on the project's site: read with a deep crawl, followed while it runs, and kept with the project. */
import { useEffect, useState } from 'preact/hooks';
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import type { CrawlProgress } from '../../../schemas/events.ts';
import type { Project } from '../../../schemas/project.ts';
import { get, post } from '../api.ts';
import { listen } from '../live.ts';
import { paths } from '../paths.ts';
import { projects, useProject } from '../project.ts';
import { settings } from '../settings.ts';
import { DomainForm } from '../ui/domain-form.tsx';
import { EmptyState, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { Time } from '../ui/value.tsx';
import { Found } from './found.tsx';
import './content.css';

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  /** Its design is told once: the project keeps what the site says. */
  const [fresh, setFresh] = useState<DeepCrawlResult>();
  const kept = keptOf(project);
  return (
    <>
      <PageHead title="Content">
        What your site says: its pages, offers and words, for everything that is written and made for the
        project.
      </PageHead>
      <Read project={project} onRead={setFresh} />
      {kept ? (
        <>
          {project.crawledAt && (
            <p class="note content-age">
              Read <Time at={project.crawledAt} />
            </p>
          )}
          <Found content={kept.content} messaging={kept.messaging} design={fresh?.design} />
        </>
      ) : (
        <EmptyState icon="search" title="Nothing was read yet">
          Name a site above. Nothing on it is changed, and nothing is made from it before you say so.
        </EmptyState>
      )}
    </>
  );
}

/** What the service stored of its own result: in the form in which it answered. */
function keptOf({ contentInventory, messagingContext }: Project) {
  if (contentInventory === null || messagingContext === null) return undefined;
  return {
    content: contentInventory as DeepCrawlResult['content'],
    messaging: messagingContext as DeepCrawlResult['messaging'],
  };
}

function Read({ project, onRead }: { project: Project; onRead(result: DeepCrawlResult): void }) {
  const [domain, setDomain] = useState(project.domains[0] ?? '');
  const { send, isBusy, error } = useSend(async () => {
    const path = `/api/projects/${project.id}`;
    const { result } = await post<{ result: DeepCrawlResult }>(`${path}/deep-crawl`, { domain });
    onRead(result);
    const { project: fields } = await get<{ project: Project }>(path);
    projects.trigger.changed({ id: project.id, fields });
    say('The site is read');
  });
  return (
    <Section
      title="Read a site"
      about={
        <>
          Reads the site’s pages, in a minute at most. Each site counts once a day against the crawls of{' '}
          <a href={paths.usage}>your plan</a>. Colours and fonts are found on the page{' '}
          <a href={paths.brand(project.id)}>Brand</a>.
        </>
      }
    >
      <DomainForm
        value={domain}
        onInput={setDomain}
        action="Read the site"
        isBusy={isBusy}
        error={error}
        onSubmit={() => void send()}
        maxLength={settings.limits.domainMaxChars}
        disabled={isBusy}
      />
      {isBusy && <Progress domain={domain} />}
      <Problem error={error} />
    </Section>
  );
}

/** How far it is, as the project’s stream tells; before its first word the bar has no length. */
function Progress({ domain }: { domain: string }) {
  const [progress, setProgress] = useState<CrawlProgress>();
  useEffect(() => listen({ crawl: setProgress }), []);
  return (
    <div class="content-progress" role="status">
      <progress
        aria-label={`Reading ${domain}`}
        value={progress?.pages_fetched}
        max={progress ? Math.max(1, progress.pages_planned) : undefined}
      />
      <p class="note">
        {progress
          ? `Reading ${progress.domain}: ${progress.pages_fetched} of ${progress.pages_planned} pages so far`
          : `Reading ${domain} …`}
      </p>
    </div>
  );
}
