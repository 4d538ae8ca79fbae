/**
 * Every page of the dashboard, each a chunk of its own that is loaded when it is first visited. The first row whose
 * pattern fits a path is its page. To add one: its address in paths.ts, a row here.
 */
import type { ComponentType } from 'preact';
import { type PathParams, root } from './router.ts';
import type { IconName } from './ui/icon.tsx';

export type Area = {
  path: string;
  title: string;
  /** `out`: for who is not signed in, without the frame. `any`: for both. */
  who: 'in' | 'out' | 'any';
  load(): Promise<{ Page: ComponentType<{ params: Record<string, string> }> }>;
  /** Its place in the side navigation; in a project when the path names one. */
  nav?: { label: string; icon: IconName; onlyOperator?: true } | undefined;
};

const p = `${root}/projects/:projectId` as const;

export const areas: readonly Area[] = [
  area('out', `${root}/signin`, 'Sign in', () => import('./start/sign-in.tsx')),
  area('out', `${root}/signup`, 'Create an account', () => import('./start/sign-up.tsx')),
  area('any', `${root}/forgot`, 'Reset your password', () => import('./start/forgot.tsx')),
  area('any', `${root}/reset`, 'Choose a new password', () => import('./start/reset.tsx')),
  area('any', `${root}/verify`, 'Confirm your e-mail', () => import('./start/verify.tsx')),
  area('in', `${root}/projects/new`, 'New project', () => import('./projects/new.tsx')),
  area('in', p, 'Overview', () => import('./overview/page.tsx'), { label: 'Overview', icon: 'home' }),
  area('in', `${p}/assets`, 'Assets', () => import('./assets/gallery.tsx'), {
    label: 'Assets',
    icon: 'image',
  }),
  area('in', `${p}/assets/:assetId`, 'Asset', () => import('./assets/asset.tsx')),
  area('in', `${p}/brand`, 'Brand', () => import('./brand/page.tsx'), { label: 'Brand', icon: 'swatch' }),
  area('in', `${p}/content`, 'Content', () => import('./content/page.tsx'), {
    label: 'Content',
    icon: 'page',
  }),
  area('in', `${p}/proxy`, 'Proxy', () => import('./proxy/page.tsx'), { label: 'Proxy', icon: 'shield' }),
  area('in', `${p}/embed`, 'Embed', () => import('./embed/page.tsx'), { label: 'Embed', icon: 'code' }),
  area('in', `${p}/webhooks`, 'Webhooks', () => import('./webhooks/page.tsx'), {
    label: 'Webhooks',
    icon: 'hook',
  }),
  area('in', `${p}/settings`, 'Project settings', () => import('./projects/settings.tsx'), {
    label: 'Settings',
    icon: 'sliders',
  }),
  area('in', `${root}/usage`, 'Usage', () => import('./usage/page.tsx'), { label: 'Usage', icon: 'gauge' }),
  area('in', `${root}/billing`, 'Plans', () => import('./usage/page.tsx')),
  area('in', `${root}/account`, 'Account', () => import('./account/page.tsx'), {
    label: 'Account',
    icon: 'person',
  }),
  area('in', `${root}/operator/*`, 'Operator', () => import('./operator/page.tsx'), {
    label: 'Operator',
    icon: 'pulse',
    onlyOperator: true,
  }),
];

/** A row whose page gets the parameters of its path. */
function area<const P extends string>(
  who: Area['who'],
  path: P,
  title: string,
  load: () => Promise<{ Page: ComponentType<{ params: PathParams<P> }> }>,
  nav?: Area['nav'],
): Area {
  // Parameters are those of the path, by matchPath.
  return { who, path, title, nav, load: load as unknown as Area['load'] };
}
