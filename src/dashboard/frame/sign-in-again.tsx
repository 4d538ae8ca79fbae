/** The session has ended while somebody worked: signing in again in a dialog, and the work goes on where it was. */
import { useEffect, useState } from 'preact/hooks';
import { answerAsked, leave, session, signIn } from '../session.ts';
import { settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Field, Form } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';

export function SignInAgain() {
  const isAsking = useStore(session, (context) => context.isAsking);
  const email = useStore(session, (context) => context.user?.email ?? '');
  const [password, setPassword] = useState('');
  const { send, isBusy, error } = useSend(() => signIn(email, password));
  useEffect(() => setPassword(''), [isAsking]);
  return (
    <Dialog title="Sign in again" isOpen={isAsking} onClose={() => answerAsked(false)} isFirm>
      <p class="note">
        Your session has ended. Sign in, and what you were doing goes on: nothing you typed is lost.
      </p>
      <Form onSubmit={() => void send()}>
        <Field
          label="E-mail"
          type="email"
          value={email}
          onInput={() => undefined}
          disabled
          autoComplete="username"
        />
        <Field
          label="Password"
          type="password"
          value={password}
          onInput={setPassword}
          autoComplete="current-password"
          required
          autoFocus
        />
        <Problem error={error} />
        {settings.oauth.length > 0 && (
          <Notice>
            You sign in with {settings.oauth.map(nameOf).join(' or ')}? Do it{' '}
            <a href="/dashboard/signin" target="_blank" rel="noreferrer">
              in another tab
            </a>
            ; this one notices.
          </Notice>
        )}
        <div class="row">
          <Button type="submit" look="main" isBusy={isBusy}>
            Sign in
          </Button>
          <Button look="quiet" onClick={leave}>
            Leave instead
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}

const nameOf = (provider: string) => (provider === 'github' ? 'GitHub' : 'Google');
