/** What is around every page of who is signed in: navigation, the project, the account, and how the stream does. */
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { type Area, areas } from '../areas.ts';
import { follow, live } from '../live.ts';
import { paths } from '../paths.ts';
import { chooseProject, firstProject, loadProjects, projects } from '../project.ts';
import { matchPath, navigate, place } from '../router.ts';
import { loadProfile, session, signOut } from '../session.ts';
import { useStore } from '../store.ts';
import { chooseTheme, type Theme, theme } from '../theme.ts';
import { Button } from '../ui/button.tsx';
import { Icon } from '../ui/icon.tsx';
import { Menu } from '../ui/menu.tsx';
import { Problem } from '../ui/messages.tsx';
import { say } from '../ui/toast.tsx';
import { prefetch } from './page-view.tsx';

export function Frame({
  projectId,
  children,
}: {
  projectId: string | undefined;
  children: ComponentChildren;
}) {
  const [error, setError] = useState<unknown>();
  const [isNavOpen, openNav] = useState(false);
  const visit = useStore(place, (context) => context.visit);
  const first = useStore(projects, firstProject);
  const currentId = projectId ?? first?.id;
  const load = () => {
    setError(undefined);
    Promise.all([loadProjects(), loadProfile()]).catch(setError);
  };
  useEffect(() => {
    load();
    return () => {
      follow(undefined);
      projects.trigger.forgotten();
    };
  }, []);
  useEffect(() => {
    if (currentId && first) {
      chooseProject(currentId);
      follow(currentId);
    }
  }, [currentId, first !== undefined]);
  useEffect(() => openNav(false), [visit]);
  useEffect(() => {
    // Another tab, or a colleague, may have changed something meanwhile.
    const look = () => {
      if (document.hidden) return;
      Promise.all([loadProjects(), loadProfile()]).catch(() => undefined);
    };
    document.addEventListener('visibilitychange', look);
    return () => document.removeEventListener('visibilitychange', look);
  }, []);

  return (
    <div class="frame" data-nav={isNavOpen || undefined}>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="side">
        <div class="side-top">
          <a class="brand" href={paths.home}>
            <span class="mark" aria-hidden="true" />
            <span class="unseen">Animated Assets, start</span>
          </a>
          <ProjectSwitcher />
          <div class="side-toggle">
            <Button
              look="quiet"
              icon={isNavOpen ? 'cross' : 'menu'}
              label="Navigation"
              expanded={isNavOpen}
              controls="navigation"
              onClick={() => openNav(!isNavOpen)}
            />
          </div>
        </div>
        <div class="side-body" id="navigation">
          <Navigation projectId={currentId} />
          <div class="side-end">
            <LiveNotice />
            <AccountMenu />
          </div>
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        {error !== undefined && <Problem error={error} onRetry={load} />}
        {children}
      </main>
    </div>
  );
}

function ProjectSwitcher() {
  const listed = useStore(projects, (context) => context.projects);
  const currentId = useStore(projects, (context) => context.currentId);
  const current = listed?.find(({ id }) => id === currentId);
  return (
    <Menu
      label={current ? `Project: ${current.name}` : 'Projects'}
      buttonClass="switcher"
      items={[
        ...(listed ?? []).map(({ id, name, domains, isDefault }) => ({
          label: name,
          note: domains[0] ?? (isDefault ? 'Default project' : undefined),
          isCurrent: id === currentId,
          href: hrefInProject(id),
        })),
        { label: 'New project', icon: 'plus' as const, href: paths.newProject },
      ]}
    >
      <span class="switcher-name">{current?.name ?? '…'}</span>
      <Icon name="updown" />
    </Menu>
  );
}

/** The same page of another project. */
function hrefInProject(id: string): string {
  const { path } = place.getSnapshot().context;
  const area = areas.find((one) => one.nav && one.path.includes(':projectId') && matchPath(one.path, path));
  return area ? area.path.replace(':projectId', id) : paths.overview(id);
}

function Navigation({ projectId }: { projectId: string | undefined }) {
  const isOperator = useStore(session, (context) => context.profile?.isOperator ?? false);
  const shown = areas.filter(({ nav }) => nav && (!nav.onlyOperator || isOperator));
  const ofProject = shown.filter(({ path }) => path.includes(':projectId'));
  const ofAccount = shown.filter(({ path }) => !path.includes(':projectId'));
  return (
    <nav aria-label="Dashboard">
      {projectId && <NavList title="Project" areas={ofProject} projectId={projectId} />}
      <NavList title="Account" areas={ofAccount} projectId="" />
    </nav>
  );
}

function NavList(props: { title: string; areas: readonly Area[]; projectId: string }) {
  const path = useStore(place, (context) => context.path);
  return (
    <>
      <h2>{props.title}</h2>
      <ul>
        {props.areas.map((area) => {
          const href = area.path.replace(':projectId', props.projectId).replace('/*', '');
          const isHere = path === href || (path.startsWith(`${href}/`) && !isOverview(area));
          return (
            <li key={area.path}>
              <a
                href={href}
                aria-current={isHere ? 'page' : undefined}
                onPointerEnter={() => prefetch(area)}
                onFocus={() => prefetch(area)}
              >
                {area.nav && <Icon name={area.nav.icon} />}
                {area.nav?.label}
              </a>
            </li>
          );
        })}
        {props.projectId === '' && (
          <li>
            <a href="/docs" target="_blank" rel="noreferrer">
              <Icon name="out" />
              Documentation
            </a>
          </li>
        )}
      </ul>
    </>
  );
}

/** Every page of a project lies below its overview. */
const isOverview = ({ path }: Area) => path.endsWith(':projectId');

/** Says quietly that the stream is away, and that it came back. */
function LiveNotice() {
  const status = useStore(live, (context) => context.status);
  const text =
    status === 'gone'
      ? 'Not connected. Trying again …'
      : status === 'resumed'
        ? 'Connected again'
        : undefined;
  return (
    <p class="live" role="status" data-status={status}>
      {text && (
        <>
          <i aria-hidden="true" /> {text}
        </>
      )}
    </p>
  );
}

function AccountMenu() {
  const user = useStore(session, (context) => context.user);
  const plan = useStore(session, (context) => context.profile?.plan);
  const chosen = useStore(theme, (context) => context.theme);
  const leave = () => {
    signOut().then(
      () => navigate(paths.signIn),
      () => say('Signing out did not work: try again'),
    );
  };
  const themeItem = (name: Theme, label: string, hasLine = false) => ({
    label,
    isCurrent: chosen === name,
    hasLine,
    onSelect: () => chooseTheme(name),
  });
  const words = plan ? `${plan.charAt(0).toUpperCase()}${plan.slice(1)} plan` : (user?.email ?? '');
  return (
    <Menu
      label="Account"
      isNamedByContent
      opens="up"
      buttonClass="account"
      items={[
        { label: 'Account settings', icon: 'person', href: paths.account },
        { label: 'Usage and plan', icon: 'gauge', href: paths.usage },
        themeItem('system', 'As the system has it', true),
        themeItem('light', 'Light'),
        themeItem('dark', 'Dark'),
        { label: 'Sign out', icon: 'out', onSelect: leave, hasLine: true },
      ]}
    >
      <span class="initial" aria-hidden="true">
        {(user?.name ?? '?').slice(0, 1).toUpperCase()}
      </span>
      <span class="account-words">
        <span class="unseen">Account: </span>
        <span>{user?.name}</span> <small>{words}</small>
      </span>
    </Menu>
  );
}
