/** Doctor: settings that are accepted, and that somebody will be sorry for. */
import { stat } from 'node:fs/promises';
import { type Check, type Finding, ok, trouble, warning } from './doctor.ts';

export type SafetySettings = {
  isDevelopment: boolean;
  isSafetyNeeded: boolean;
  isEmbedded: { mongodb: boolean; nats: boolean };
  host: string;
  baseUrl: string;
  mediaBaseUrl: string;
  mongodbUrl: string | undefined;
  natsUrl: string | undefined;
  trustedProxies: readonly string[];
  outboundAllow: readonly string[];
  operatorEmails: readonly string[];
  metricsToken: string | undefined;
  logLevel: string;
  secretsKey: string | undefined;
  /** Files that only this user should be able to read. */
  secretFiles: readonly string[];
  /** Effective user id; undefined where there is none. */
  uid: number | undefined;
};

/** Others may read it, or write it; a group may read it, as that of a pod does. */
const othersMay = 0o027;

export function settingsChecks(settings: SafetySettings): Check[] {
  return [
    {
      name: 'settings',
      cure: 'npm start -- --help says what is accepted',
      async look() {
        if (settings.isDevelopment) {
          return [
            warning(
              'development mode: http webhooks and sources on loopback are allowed',
              'NODE_ENV=production, and a BASE_URL that is not loopback, for a real deployment',
            ),
          ];
        }
        const findings = [...judgeSafety(settings), ...(await judgeFiles(settings.secretFiles))];
        return findings.length > 0 ? findings : [ok('production, and nothing unsafe')];
      },
    },
  ];
}

const privateRange =
  /^(10\.|127\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.|192\.168\.|0\.|::1|f[cd]|fe80)|localhost/i;
const isLoopbackHost = /^(127\.|::1|localhost)/;

/** Each row: when it is so, what is wrong with it, and what to do. */
export function judgeSafety(settings: SafetySettings): Finding[] {
  const { isSafetyNeeded, isEmbedded, host, baseUrl, mediaBaseUrl, mongodbUrl, natsUrl } = settings;
  const rows: [isSo: boolean, finding: Finding][] = [
    [
      !isSafetyNeeded,
      warning('one machine: what its disk loses is lost', 'back up often: npm run admin -- backup <folder>'),
    ],
    [
      isEmbedded.mongodb || isEmbedded.nats,
      warning('embedded servers, made for development', 'set MONGODB_URL and NATS_URL'),
    ],
    [
      settings.trustedProxies.length === 0 && baseUrl.startsWith('https:'),
      warning(
        'TRUSTED_PROXIES is empty: behind a proxy all clients share one address, and its limits for sign-in',
        'TRUSTED_PROXIES=<address range of the proxy>',
      ),
    ],
    [
      settings.trustedProxies.some((range) => range.endsWith('/0')),
      trouble('TRUSTED_PROXIES trusts everybody: any client may name any address', 'name the proxies alone'),
    ],
    [
      settings.outboundAllow.some((range) => privateRange.test(range) || range.endsWith('/0')),
      trouble(
        'OUTBOUND_ALLOW lets users make this service ask hosts of your own network',
        'leave it empty unless every user is trusted',
      ),
    ],
    [
      settings.operatorEmails.length === 0,
      warning('OPERATOR_EMAILS is empty: nobody sees the operator page', 'OPERATOR_EMAILS=you@example.com'),
    ],
    [
      settings.secretsKey !== undefined,
      warning(
        'SECRETS_KEY is in the environment, which every child and crash report has',
        'use SECRETS_KEY_FILE',
      ),
    ],
    [
      settings.metricsToken === undefined && !isLoopbackHost.test(host),
      warning('METRICS_TOKEN is not set: only loopback may read /metrics', 'set it for your Prometheus'),
    ],
    [
      /^(debug|trace)$/.test(settings.logLevel),
      warning(`LOG_LEVEL is ${settings.logLevel}: it costs disk and speed`, 'LOG_LEVEL=info'),
    ],
    [
      baseUrl.startsWith('https:') && !mediaBaseUrl.startsWith('https:'),
      trouble('MEDIA_BASE_URL is http: browsers refuse it within pages of https', 'use an https address'),
    ],
    [
      mongodbUrl !== undefined && isSafetyNeeded && !hasPassword(mongodbUrl),
      warning('MONGODB_URL has no user: whoever reaches the port reads everything', 'turn on authentication'),
    ],
    [
      natsUrl !== undefined && isSafetyNeeded && !hasPassword(natsUrl) && !natsUrl.startsWith('tls:'),
      warning(
        'NATS_URL has no user: whoever reaches the port can command the workers',
        'turn on authentication',
      ),
    ],
    [settings.uid === 0, warning('it runs as root', 'run it as a user of its own: see deploy/systemd')],
  ];
  return rows.filter(([isSo]) => isSo).map(([, finding]) => finding);
}

const hasPassword = (url: string): boolean => /\/\/[^/]*@/.test(url) || /authMechanism=/i.test(url);

async function judgeFiles(files: readonly string[]): Promise<Finding[]> {
  const findings = await Promise.all(
    files.map(async (file): Promise<Finding[]> => {
      const found = await stat(file).catch((cause: NodeJS.ErrnoException) => cause);
      if (found instanceof Error)
        return [
          trouble(`${file} cannot be read (${found.code})`, 'is the path right, and may this user read it?'),
        ];
      if ((found.mode & othersMay) === 0) return [];
      return [warning(`${file} can be read by other users of this machine`, `chmod 600 ${file}`)];
    }),
  );
  return findings.flat();
}
