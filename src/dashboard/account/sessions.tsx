/** Where the account is signed in; each can be ended from here. */
import type { SessionSummary } from '../../../schemas/user.ts';
import { remove } from '../api.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Problem, Skeleton } from '../ui/messages.tsx';
import { useRead, useSend } from '../ui/use-request.ts';
import { Time } from '../ui/value.tsx';

export function Sessions() {
  const { data, error, reload } = useRead<{ sessions: SessionSummary[] }>('/api/user/sessions');
  const end = useSend(async (ids: string[]) => {
    for (const id of ids) await remove(`/api/user/sessions/${id}`);
    reload();
  });
  const others = data?.sessions.filter(({ current }) => !current) ?? [];
  return (
    <>
      <Problem error={error} onRetry={reload} />
      {data === undefined && error === undefined && <Skeleton lines={2} />}
      <ul class="sessions">
        {data?.sessions.map((one) => (
          <li key={one.id}>
            <div>
              <strong>{browserOf(one.user_agent)}</strong>{' '}
              {one.current && <Badge tone="accent">This one</Badge>}
              <p class="note">
                {one.address && <>{one.address} · </>}since <Time at={one.created_at} />, last seen{' '}
                <Time at={one.last_seen_at} />
              </p>
            </div>
            {!one.current && (
              <Button look="quiet" isBusy={end.isBusy} onClick={() => void end.send([one.id])}>
                End
              </Button>
            )}
          </li>
        ))}
      </ul>
      <Problem error={end.error} />
      {others.length > 1 && (
        <div>
          <Button isBusy={end.isBusy} onClick={() => void end.send(others.map(({ id }) => id))}>
            End all others
          </Button>
        </div>
      )}
    </>
  );
}

/** In a few words what a browser says of itself at length. */
function browserOf(agent: string | null): string {
  if (!agent) return 'Unknown';
  const find = (names: [RegExp, string][]) => names.find(([form]) => form.test(agent))?.[1];
  const browser = find([
    [/Edg\//, 'Edge'],
    [/OPR\//, 'Opera'],
    [/Firefox\//, 'Firefox'],
    [/Chrom(e|ium)\//, 'Chrome'],
    [/Safari\//, 'Safari'],
  ]);
  const system = find([
    [/iPhone|iPad/, 'iOS'],
    [/Android/, 'Android'],
    [/Windows/, 'Windows'],
    [/Mac OS X/, 'macOS'],
    [/Linux/, 'Linux'],
  ]);
  if (!browser) return agent.slice(0, 60);
  return system ? `${browser} on ${system}` : browser;
}
