/** Which page is shown, to whom, and in what frame. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Area, areas } from '../areas.ts';
import { paths } from '../paths.ts';
import { findProject, firstProject, projects } from '../project.ts';
import { matchPath, navigate, place, root } from '../router.ts';
import { loadSession, session } from '../session.ts';
import { useStore } from '../store.ts';
import { ButtonLink } from '../ui/button.tsx';
import { EmptyState, Problem } from '../ui/messages.tsx';
import { Toasts } from '../ui/toast.tsx';
import { Frame } from './frame.tsx';
import { PageView, Progress } from './page-view.tsx';
import { SignInAgain } from './sign-in-again.tsx';
import './frame.css';

export function App() {
  const user = useStore(session, (context) => context.user);
  const path = useStore(place, (context) => context.path);
  const [error, setError] = useState<unknown>();
  const load = () => {
    setError(undefined);
    loadSession().catch(setError);
  };
  useEffect(load, []);
  const to = path === root && user === null ? paths.signIn : undefined;
  useEffect(() => {
    if (to) navigate(to, { replace: true });
  }, [to]);

  if (error !== undefined) {
    return (
      <main class="alone">
        <Problem error={error} onRetry={load} />
      </main>
    );
  }
  if (user === undefined || to) {
    return (
      <main class="alone" aria-busy="true">
        <Progress isShown />
      </main>
    );
  }
  return (
    <>
      <Shown isIn={user !== null} path={path} />
      <Toasts />
      <SignInAgain />
    </>
  );
}

function Shown({ isIn, path }: { isIn: boolean; path: string }) {
  const { area, params } = findArea(path);
  const misplaced = area && area.who !== 'any' && (area.who === 'in') !== isIn ? area.who : undefined;
  useEffect(() => {
    // Somebody who signs out has been sent on already.
    if (place.getSnapshot().context.path !== path) return;
    if (misplaced === 'out') navigate(nextPath() ?? paths.home, { replace: true });
    if (misplaced === 'in') {
      const wanted = `${location.pathname}${location.search}`;
      navigate(`${paths.signIn}?next=${encodeURIComponent(wanted)}`, { replace: true });
    }
  }, [misplaced, path]);
  if (misplaced) return <main class="alone" aria-busy="true" />;
  if (!isIn || (area && area.who !== 'in')) {
    return <main class="alone">{area ? <PageView area={area} params={params} /> : <NotFound />}</main>;
  }
  const projectId = params['projectId'];
  return (
    <Frame projectId={projectId}>
      <InProject projectId={projectId}>
        {path === root ? <Home /> : area ? <PageView area={area} params={params} /> : <NotFound />}
      </InProject>
    </Frame>
  );
}

/** Shows pages of a project once it is known, so that they need not ask whether there is one. */
function InProject({ projectId, children }: { projectId: string | undefined; children: ComponentChildren }) {
  const isKnown = useStore(projects, (context) => context.projects !== undefined);
  const isThere = useStore(projects, (context) => findProject(context, projectId) !== undefined);
  if (projectId === undefined || isThere) return children;
  return isKnown ? <NotFound /> : <Progress isShown />;
}

/** Goes on where the user was last. */
function Home() {
  const first = useStore(projects, firstProject);
  const isKnown = useStore(projects, (context) => context.projects !== undefined);
  const to = first ? paths.overview(first.id) : isKnown ? paths.newProject : undefined;
  useEffect(() => {
    if (to) navigate(to, { replace: true });
  }, [to]);
  return null;
}

function NotFound() {
  return (
    <EmptyState
      isPage
      icon="search"
      title="There is nothing here"
      action={<ButtonLink href={paths.home}>Go to the start</ButtonLink>}
    >
      The address is wrong, or what it named is gone.
    </EmptyState>
  );
}

function findArea(path: string): { area: Area | undefined; params: Record<string, string> } {
  for (const area of areas) {
    const params = matchPath(area.path, path);
    if (params) return { area, params };
  }
  return { area: undefined, params: {} };
}

/** Where a visitor wanted to go who had to sign in first; only ever a path of the dashboard. */
function nextPath(): string | undefined {
  const next = new URLSearchParams(location.search).get('next') ?? '';
  const isOurs = next.startsWith(`${root}/`) && !next.includes('//');
  return isOurs && findArea(next.split('?')[0] ?? '').area?.who === 'in' ? next : undefined;
}
