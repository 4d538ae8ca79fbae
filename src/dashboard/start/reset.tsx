/** A new password, by the link of a mail. */
import { useState } from 'preact/hooks';
import { post } from '../api.ts';
import { paths } from '../paths.ts';
import { place } from '../router.ts';
import { leave } from '../session.ts';
import { useStore } from '../store.ts';
import { Button, ButtonLink } from '../ui/button.tsx';
import { Form } from '../ui/field.tsx';
import { issueOf, Notice, Problem } from '../ui/messages.tsx';
import { NewPassword } from '../ui/new-password.tsx';
import { useSend } from '../ui/use-request.ts';
import { Card } from './card.tsx';

export function Page() {
  const token = useStore(place, ({ query }) => query.get('token') ?? '');
  const [password, setPassword] = useState('');
  const [isDone, done] = useState(false);
  const { send, isBusy, error } = useSend(async () => {
    await post('/api/user/password/reset', { token, password }, { isSignIn: true });
    // Every session has ended, one in this browser too.
    leave();
    done(true);
  });
  if (isDone) {
    return (
      <Card title="Your password is changed">
        <Notice tone="good">All sessions have ended, and API tokens no longer work.</Notice>
        <ButtonLink look="main" href={paths.signIn}>
          Sign in with it
        </ButtonLink>
      </Card>
    );
  }
  return (
    <Card title="Choose a new password" below={<a href={paths.forgot}>Ask for another link</a>}>
      <Form onSubmit={() => void send()}>
        <NewPassword
          label="New password"
          value={password}
          onInput={setPassword}
          hint="All sessions and API tokens end with the old one."
          error={issueOf(error, 'password')}
          autoFocus
        />
        <Problem error={error} />
        <Button type="submit" look="main" isBusy={isBusy}>
          Set the password
        </Button>
      </Form>
    </Card>
  );
}
