/** Confirming an e-mail address, by the link of a mail. */
import { useEffect } from 'preact/hooks';
import { post } from '../api.ts';
import { paths } from '../paths.ts';
import { place } from '../router.ts';
import { useStore } from '../store.ts';
import { ButtonLink } from '../ui/button.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { Card } from './card.tsx';

export function Page() {
  const token = useStore(place, ({ query }) => query.get('token') ?? '');
  const { send, isBusy, error } = useSend(() =>
    post('/api/user/email/verify', { token }, { isSignIn: true }),
  );
  useEffect(() => void send(), [token]);
  const isDone = !isBusy && error === undefined;
  return (
    <Card title="Confirm your e-mail">
      <div aria-live="polite" class="stack">
        {isBusy && <p>Confirming …</p>}
        {isDone && <Notice tone="good">Your e-mail address is confirmed. Thank you.</Notice>}
        <Problem error={error} onRetry={() => void send()} />
      </div>
      <ButtonLink look="main" href={paths.home}>
        Go to the dashboard
      </ButtonLink>
    </Card>
  );
}
