/** Making an account; a project comes with it, and the dashboard opens at once. */
import { useState } from 'preact/hooks';
import { paths } from '../paths.ts';
import { signUp } from '../session.ts';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { issueOf, Problem } from '../ui/messages.tsx';
import { NewPassword } from '../ui/new-password.tsx';
import { useSend } from '../ui/use-request.ts';
import { Card, Providers } from './card.tsx';

export function Page() {
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const { send, isBusy, error } = useSend(() => signUp({ name, email, password }));
  return (
    <Card
      title="Create an account"
      lead={`${settings.plans.free.generationsPerMonth} animations a month are free. No card needed.`}
      below={
        <>
          You have one? <a href={`${paths.signIn}${location.search}`}>Sign in</a>
        </>
      }
    >
      <Providers />
      <Form onSubmit={() => void send()}>
        <Field
          label="Name"
          name="name"
          value={name}
          onInput={setName}
          autoComplete="name"
          required
          maxLength={settings.limits.personNameMaxChars}
          error={issueOf(error, 'name')}
          autoFocus
        />
        <Field
          label="E-mail"
          type="email"
          name="email"
          value={email}
          onInput={setEmail}
          autoComplete="username"
          required
          error={issueOf(error, 'email')}
        />
        <NewPassword
          label="Password"
          value={password}
          onInput={setPassword}
          hint="A few words are better than a few signs."
          error={issueOf(error, 'password')}
        />
        <Problem error={error} />
        <Button type="submit" look="main" isBusy={isBusy}>
          Create the account
        </Button>
      </Form>
    </Card>
  );
}
