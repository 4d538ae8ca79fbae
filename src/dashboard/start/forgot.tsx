/** Asking for a mail to reset the password. The answer is the same for every address. */
import { useState } from 'preact/hooks';
import { post } from '../api.ts';
import { paths } from '../paths.ts';
import { Button } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { Notice, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { Card } from './card.tsx';

export function Page() {
  const [email, setEmail] = useState('');
  const [sentTo, setSentTo] = useState<string>();
  const { send, isBusy, error } = useSend(async () => {
    await post('/api/user/password/forgot', { email }, { isSignIn: true });
    setSentTo(email);
  });
  return (
    <Card
      title="Reset your password"
      lead="We send you a link that works once, for an hour."
      below={<a href={paths.signIn}>Back to signing in</a>}
    >
      <Form onSubmit={() => void send()}>
        <Field
          label="E-mail"
          type="email"
          value={email}
          onInput={setEmail}
          autoComplete="username"
          required
          autoFocus
        />
        <Problem error={error} />
        {sentTo && (
          <Notice tone="good">
            If there is an account for {sentTo}, a mail is on its way. Look into the spam folder too.
          </Notice>
        )}
        <Button type="submit" look="main" isBusy={isBusy}>
          {sentTo ? 'Send it again' : 'Send the link'}
        </Button>
      </Form>
    </Card>
  );
}
