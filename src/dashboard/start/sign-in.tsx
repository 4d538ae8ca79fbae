/** Signing in. */
import { useState } from 'preact/hooks';
import { paths } from '../paths.ts';
import { place } from '../router.ts';
import { signIn } from '../session.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { Card, Providers } from './card.tsx';

export function Page() {
  const failure = useStore(place, ({ query }) => query.get('error'));
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const { send, isBusy, error } = useSend(() => signIn(email, password));
  return (
    <Card
      title="Sign in"
      below={
        <>
          New here? <a href={`${paths.signUp}${location.search}`}>Create an account</a>
        </>
      }
    >
      {failure && (
        <Notice tone="bad">{failures[failure] ?? 'Signing in did not work. Please try again.'}</Notice>
      )}
      <Providers />
      <Form onSubmit={() => void send()}>
        <Field
          label="E-mail"
          type="email"
          name="email"
          value={email}
          onInput={setEmail}
          autoComplete="username"
          required
          autoFocus
        />
        <Field
          label="Password"
          type="password"
          name="password"
          value={password}
          onInput={setPassword}
          autoComplete="current-password"
          required
        />
        <Problem error={error} />
        <Button type="submit" look="main" isBusy={isBusy}>
          Sign in
        </Button>
        <p class="note">
          <a href={paths.forgot}>Forgot your password?</a>
        </p>
      </Form>
    </Card>
  );
}

/** Why a provider did not let somebody in (decisions 1, OAuth failures). */
const failures: Record<string, string> = {
  oauth_denied: 'You did not allow it there. Nothing happened here; sign in in any way you like.',
  oauth_state: 'That took too long, or began in another browser. Please try again.',
  oauth_email_unverified:
    'Your e-mail address is not confirmed there. Confirm it with the provider first, or sign in with a password.',
  oauth_provider: 'The provider did not answer as it should. Please try again in a moment.',
  oauth_not_configured: 'This way of signing in is not set up here.',
};
