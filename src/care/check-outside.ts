/** Doctor: what others must let us reach (mail server, model providers), and whether we can be reached. */
import { type Check, type Finding, ok, skipped, trouble, warning } from './doctor.ts';

export type OutsideSettings = {
  baseUrl: string;
  isDevelopment: boolean;
  roles: readonly string[];
  /** Signs in at the mail server and says nothing; undefined when none is set. */
  checkMail: (() => Promise<void>) | undefined;
  providers: readonly RemoteProvider[];
};

/** `key`: sent as the provider wants it. */
export type RemoteProvider = { name: string; baseUrl: string; key: string; setting: string };

type Probe = { path: string; headers(key: string): Record<string, string> };

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const nothing = '00000000-0000-0000-0000-000000000000';

/** Addresses that only read, and answer 401 or 403 to a wrong key. */
const probes: Record<string, Probe> = {
  openai: { path: '/models', headers: bearer },
  replicate: { path: '/account', headers: bearer },
  fal: {
    path: `/fal-ai/fast-svd/requests/${nothing}/status`,
    headers: (key) => ({ authorization: `Key ${key}` }),
  },
  runway: {
    path: '/v1/organization',
    headers: (key) => ({ ...bearer(key), 'x-runway-version': '2024-11-06' }),
  },
  luma: { path: '/generations?limit=1', headers: bearer },
};

export function outsideChecks(settings: OutsideSettings): Check[] {
  return [
    {
      name: 'mail',
      cure: 'is SMTP_URL right, with its account, and does a firewall let us through?',
      async look() {
        if (settings.checkMail !== undefined) {
          await settings.checkMail();
          return [ok('the mail server takes our sign-in')];
        }
        if (settings.isDevelopment)
          return [skipped('SMTP_URL is not set: mails stay in the mailbox of operators')];
        return [
          warning(
            'SMTP_URL is not set: nobody can verify an e-mail or reset a password',
            'SMTP_URL=smtps://user:password@mail.example.com',
          ),
        ];
      },
    },
    ...settings.providers.map(providerCheck),
    {
      name: 'BASE_URL',
      cure: 'does the name lead to the proxy, the proxy to this service, and does the service run?',
      look: async (signal) => askOurselves(settings, signal),
    },
  ];
}

function providerCheck({ name, baseUrl, key, setting }: RemoteProvider): Check {
  return {
    name: `provider ${name}`,
    cure: 'does a firewall let us through, and is its base URL right?',
    async look(signal) {
      const probe = probes[name];
      if (probe === undefined) return [skipped('nothing is known that may be asked without paying')];
      const { status } = await fetch(`${baseUrl}${probe.path}`, {
        headers: probe.headers(key),
        redirect: 'manual',
        signal,
      });
      return [judgeProvider(status, setting)];
    },
  };
}

export function judgeProvider(status: number, setting: string): Finding {
  if (status === 401 || status === 403)
    return trouble(`it refuses the key (${status})`, `put a valid key into ${setting}`);
  if (status === 402) return trouble('it wants to be paid first (402)', 'add credit to the account');
  if (status >= 500)
    return warning(`it fails (${status})`, 'look at its status page; others stand in meanwhile');
  return ok(`answers, and knows the key (${status})`);
}

async function askOurselves(
  { baseUrl, isDevelopment, roles }: OutsideSettings,
  signal: AbortSignal,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  if (!isDevelopment && !baseUrl.startsWith('https:'))
    findings.push(
      warning(
        `${baseUrl} is not https: cookies and passwords can be read on the way`,
        'put a TLS terminator in front',
      ),
    );
  const answer = await fetch(`${baseUrl}/readyz`, { redirect: 'manual', signal });
  const body = (await answer.json().catch(() => undefined)) as
    | { ok?: boolean; failing?: string[] }
    | undefined;
  if (answer.status === 503 && body?.failing)
    findings.push(trouble(`the service answers, and cannot reach ${body.failing.join(', ')}`, 'see above'));
  else if (answer.status !== 200 || body?.ok !== true)
    findings.push(
      trouble(
        `${baseUrl}/readyz answers ${answer.status}, and not as this service does`,
        'the proxy in front must pass everything on to this service, without a path of its own',
      ),
    );
  else findings.push(ok(`the service answers at ${baseUrl} and is ready`));
  if (!roles.includes('http'))
    findings.push(skipped('this process itself has no front end: ROLE has no http'));
  return findings;
}
