/** A page: loaded when it is first visited. The page before stays until the next one is there. */
import type { ComponentType } from 'preact';
import { useEffect, useErrorBoundary, useLayoutEffect, useState } from 'preact/hooks';
import type { Area } from '../areas.ts';
import { findProject, projects } from '../project.ts';
import { place, restoreScroll } from '../router.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/messages.tsx';

type Params = Record<string, string>;
type Shown = { area: Area; Page: ComponentType<{ params: Params }>; params: Params; visit: number };

const loaded = new Map<Area, Shown['Page']>();

export function PageView({ area, params }: { area: Area; params: Params }) {
  const visit = useStore(place, (context) => context.visit);
  const [late, setLate] = useState<Shown>();
  const [failed, setFailed] = useState(false);
  const known = loaded.get(area);
  const shown = known ? { area, Page: known, params, visit } : late;
  useEffect(() => {
    if (known) {
      setLate({ area, Page: known, params, visit });
      return undefined;
    }
    let isWanted = true;
    setFailed(false);
    loadArea(area).then(
      (Page) => isWanted && setLate({ area, Page, params, visit }),
      () => isWanted && setFailed(true),
    );
    return () => {
      isWanted = false;
    };
  }, [area, visit]);

  if (failed) return <Outdated />;
  return (
    <>
      <Progress isShown={!known} />
      {shown && <Drawn key={`${shown.visit}`} {...shown} />}
    </>
  );
}

/** Loads the script of a page before it is asked for. */
export function prefetch(area: Area): void {
  loadArea(area).catch(() => undefined);
}

async function loadArea(area: Area): Promise<Shown['Page']> {
  const { Page } = await area.load();
  loaded.set(area, Page);
  return Page;
}

function Drawn({ area, Page, params, visit }: Shown) {
  const name = useStore(projects, (context) => findProject(context, params['projectId'] ?? '')?.name);
  const [error, forget] = useErrorBoundary();
  useEffect(() => {
    document.title = [area.title, name, 'Animated Assets'].filter(Boolean).join(' · ');
  }, [area, name]);
  useLayoutEffect(() => {
    if (visit === 0) return;
    // Who listens to the page hears its heading, who uses keys goes on from there.
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    restoreScroll();
  }, [visit]);
  if (error) {
    return (
      <EmptyState
        isPage
        icon="warning"
        title="This page broke"
        action={<Button onClick={forget}>Draw it again</Button>}
      >
        Nothing that was saved is lost.
      </EmptyState>
    );
  }
  return <Page params={params} />;
}

/** The script is gone when the service was renewed meanwhile, or the line is down. */
function Outdated() {
  return (
    <EmptyState
      isPage
      icon="refresh"
      title="This page could not be loaded"
      action={<Button onClick={() => location.reload()}>Load it again</Button>}
    >
      There may be a newer version of the dashboard, or no connection.
    </EmptyState>
  );
}

/** Nothing for a moment: most scripts are here before that. */
export function Progress({ isShown }: { isShown: boolean }) {
  const [isDue, setDue] = useState(false);
  useEffect(() => {
    if (!isShown) return setDue(false);
    const timer = setTimeout(() => setDue(true), 200);
    return () => clearTimeout(timer);
  }, [isShown]);
  return isDue ? <div class="progress" role="progressbar" aria-label="Loading the page" /> : null;
}
