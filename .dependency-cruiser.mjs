/** Who may import whom. test/architecture.test.ts runs this and asserts how many modules were read. */
const npm = '(^|/)node_modules/';

/** Files of `from` may import `to` (and node's own modules), nothing else of this project or of npm. */
const only = (name, from, to, packages = []) => ({
  name,
  severity: 'error',
  from: { path: from },
  to: {
    pathNot: [...to, ...packages.map((one) => `${npm}${one}/`)],
    dependencyTypesNot: ['core'],
  },
});

/** One package is spoken in these places alone. */
const spokenIn = (name, from, packages) => ({
  name,
  severity: 'error',
  from: { path: '^(src|machines|schemas)/', pathNot: from },
  to: { path: packages.map((one) => `${npm}${one}/`) },
});

const tops =
  '^src/(main|service|parts|front-end|deliveries|model-providers|operator-console|load|readiness|poster-request|temp-dir|config|log|cli|care)\\.ts$';

export default {
  forbidden: [
    {
      name: 'no cycles',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'schemas know nothing of node',
      severity: 'error',
      from: { path: '^(schemas|machines)/' },
      to: { dependencyTypes: ['core'] },
    },
    only('schemas: zod', '^schemas/', ['^schemas/'], ['zod']),
    only('machines: schemas, xstate', '^machines/', ['^(machines|schemas)/'], ['xstate']),
    only(
      'store: its own',
      '^src/store/',
      ['^src/store/', '^schemas/', '^machines/', '^src/ids\\.ts$'],
      ['mongodb', 'bson', 'p-retry'],
    ),
    only('bus: its own', '^src/bus/', ['^src/bus/', '^schemas/', '^machines/'], ['nats', 'p-retry']),
    only('outbound: its own', '^src/outbound/', ['^src/outbound/', '^schemas/'], ['undici', 'ipaddr\\.js']),
    only(
      'embedded: its own',
      '^src/embedded/',
      ['^src/embedded/', '^schemas/'],
      ['mongodb', 'zod', 'p-retry'],
    ),
    only(
      'providers, media: schemas, outbound',
      '^src/(providers|media)/',
      ['^src/(providers|media|outbound)/', '^schemas/', '^src/random\\.ts$'],
      ['sharp', 'mp4box', '@fastify/busboy', 'zod', 'lru-cache', 'aws4fetch', 'undici', 'p-retry'],
    ),
    only(
      'auth, mail, quota, brand, webhooks, sse: schemas, store, bus, outbound',
      '^src/(auth|mail|quota|brand|webhooks|sse)/',
      ['^src/(auth|mail|quota|brand|webhooks|sse|store|bus|outbound)/', '^schemas/'],
      [
        '@node-rs/argon2',
        'piscina',
        'uWebSockets\\.js',
        '@trufflesuite',
        'lru-cache',
        'ipaddr\\.js',
        'zod',
        'nodemailer',
        'openid-client',
        'css-tree',
        'css-select',
        'css-what',
        'parse5',
        'culori',
        'playwright-core',
      ],
    ),
    only('operator: schemas, machines, store, quota, bus', '^src/operator/', [
      '^src/(operator|store|quota|bus)/',
      '^(schemas|machines)/',
    ]),
    only(
      'care: schemas, store, bus, media',
      '^src/care/',
      ['^src/(care|store|bus|media)/', '^schemas/'],
      ['zod'],
    ),
    only('effects: schemas, machines, the providers’ interface', '^src/effects/', [
      '^src/effects/',
      '^src/providers/provider\\.ts$',
      '^(schemas|machines)/',
    ]),
    only(
      'actors: machines, effects, store, bus',
      '^src/actors/',
      ['^src/(actors|effects|store|bus)/', '^(schemas|machines)/'],
      ['xstate'],
    ),
    only('simulation: the runtime, and the types of what it runs on', '^src/simulation/', [
      '^src/(simulation|actors|effects|store|bus|webhooks)/',
      '^src/random\\.ts$',
      '^(schemas|machines)/',
    ]),
    only('embed: nothing', '^src/embed/', ['^src/embed/']),
    only(
      'dashboard: types of schemas, and the rule of origins',
      '^src/dashboard/',
      [
        '^src/dashboard/',
        '^schemas/',
        '^src/auth/origins\\.ts$',
        '^src/charts/chart\\.css$',
        '^dist/src/charts/',
      ],
      ['preact', '@xstate/store', 'vite', '@fontsource-variable/instrument-sans'],
    ),
    {
      name: 'dashboard: no zod in the page',
      severity: 'error',
      from: { path: '^src/dashboard/' },
      to: { path: '^schemas/', dependencyTypesNot: ['type-only'] },
    },
    only('fake providers: their own', '^src/fake-providers/', ['^src/fake-providers/']),
    only(
      'charts: machines, schemas',
      '^src/charts/',
      ['^src/charts/', '^(schemas|machines)/'],
      ['xstate', 'elkjs'],
    ),
    only('client: schemas', '^src/client/', ['^src/client/', '^schemas/']),
    only('erasure: what keeps something of assets and users', '^src/erasure/', [
      '^src/(erasure|store|bus|media|sse)/',
      '^src/actors/clock\\.ts$',
      '^schemas/',
    ]),
    only(
      'http: no effects, no providers',
      '^src/http/',
      [
        '^src/(http|actors|sse|auth|quota|operator|brand|webhooks|media|store|bus|outbound|docs|metrics)/',
        '^(schemas|machines)/',
      ],
      ['uWebSockets\\.js', '@trufflesuite', 'zod', 'lru-cache', 'prom-client', 'pino'],
    ),
    only('metrics: schemas', '^src/metrics/', ['^src/metrics/', '^schemas/']),
    only('tracing: its own', '^src/tracing/', ['^src/tracing/']),
    only('observe: what is watched', '^src/observe/', [
      '^src/(observe|metrics|tracing|actors|effects|providers|outbound|store|bus|sse|brand|mail|http)/',
      '^(schemas|machines)/',
    ]),
    only(
      'docs: schemas, drawings',
      '^src/docs/',
      ['^src/docs/', '^src/charts/read\\.ts$', '^schemas/'],
      ['markdown-it'],
    ),
    {
      name: 'nobody imports the tops',
      severity: 'error',
      from: { path: '^(src|machines|schemas)/', pathNot: [tops, '^src/(bench|demo)/'] },
      to: { path: tops },
    },
    spokenIn('mongodb in store', '^src/(store|embedded|bench)/', ['mongodb']),
    spokenIn('nats in bus', '^src/bus/', ['nats']),
    spokenIn('uWebSockets.js in http and sse', '^src/(http|sse|bench)/', ['uWebSockets\\.js']),
    spokenIn('argon2 in auth', '^src/auth/', ['@node-rs/argon2', 'piscina']),
    spokenIn('nodemailer in mail', '^src/mail/', ['nodemailer']),
    spokenIn('aws4fetch in one file', '^src/media/s3-client\\.ts$', ['aws4fetch']),
    spokenIn('openid-client in one file', '^src/auth/oauth-providers\\.ts$', ['openid-client']),
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
  },
};
