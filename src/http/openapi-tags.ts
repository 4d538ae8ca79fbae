/** Groups of endpoints: each has a page in the reference. A path belongs to the first whose form it has. */

type Tag = { name: string; form: RegExp; description: string };

const tags: readonly Tag[] = [
  {
    name: 'Accounts',
    form: /^\/api\/user/,
    description: 'Sign up, sign in, and see who is signed in. The session cookie opens the rest of the API.',
  },
  {
    name: 'Events',
    form: /\/(events|activity)(\/|$)/,
    description:
      'Watch assets being made, as server-sent events: for one asset, for a project, or by project key.',
  },
  {
    name: 'Webhooks',
    form: /^\/api\/projects\/[^/]+\/webhooks/,
    description: 'Signed requests to your endpoint when assets are queued, finished or failed.',
  },
  {
    name: 'Brand',
    form: /^\/api\/projects(\/[^/]+)?\/(detect-brand|deep-crawl)/,
    description: 'Find the colours and fonts of a domain, or a full inventory of what it says.',
  },
  {
    name: 'Projects',
    form: /^\/api\/projects/,
    description: 'The home of assets: brand, proxy configuration, project key and signing secret.',
  },
  {
    name: 'Assets',
    form: /^\/api\/(v1|assets)/,
    description: 'Turn an image into an animation: upload, prepare, follow, regenerate.',
  },
  {
    name: 'Operators',
    form: /^\/api\/operator/,
    description: 'For those who run the service; everyone else gets 404.',
  },
  {
    name: 'Proxy',
    form: /^\/v1/,
    description:
      'Put an address into a page and get the animation: by the source’s URL or by the asset’s id.',
  },
  {
    name: 'Media',
    form: /^\/(media|uploads)/,
    description: 'Finished animations, posters and uploaded images at public, unchanging addresses.',
  },
  {
    name: 'Service',
    form: /^\//,
    description: 'Health, this document, and the reference.',
  },
];

/** The order in which people meet them. */
const order = [
  'Accounts',
  'Projects',
  'Assets',
  'Proxy',
  'Events',
  'Webhooks',
  'Brand',
  'Media',
  'Operators',
  'Service',
];

export function tagOf(path: string): string {
  return tags.find(({ form }) => form.test(path))?.name ?? 'Service';
}

/** The tags of these paths, described and in order. */
export function tagsOf(paths: readonly string[]): { name: string; description: string }[] {
  const used = new Set(paths.map(tagOf));
  return tags
    .filter(({ name }) => used.has(name))
    .map(({ name, description }) => ({ name, description }))
    .sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name));
}
