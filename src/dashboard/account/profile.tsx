/** Name, e-mail address and password. */
import { useState } from 'preact/hooks';
import type { UserProfile } from '../../../schemas/user.ts';
import { post, put } from '../api.ts';
import { loadProfile, loadSession } from '../session.ts';
import { settings } from '../settings.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { issueOf, Notice, Problem } from '../ui/messages.tsx';
import { NewPassword } from '../ui/new-password.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';

type Props = { profile: UserProfile };

export function Name({ profile }: Props) {
  const [name, setName] = useState(profile.name);
  const { send, isBusy, error } = useSend(async () => {
    await put('/api/user', { name });
    await Promise.all([loadSession(), loadProfile()]);
    say('Saved');
  });
  return (
    <Form onSubmit={() => void send()} label="Name">
      <Field
        label="Your name"
        value={name}
        onInput={setName}
        autoComplete="name"
        required
        maxLength={settings.limits.personNameMaxChars}
        error={issueOf(error, 'name')}
      />
      <Problem error={error} />
      <Button type="submit" isBusy={isBusy} disabled={name.trim() === profile.name}>
        Save the name
      </Button>
    </Form>
  );
}

export function Email({ profile }: Props) {
  const [email, setEmail] = useState(profile.email);
  const [current, setCurrent] = useState('');
  const [sentTo, setSentTo] = useState<string>();
  const { send, isBusy, error } = useSend(async () => {
    await post('/api/user/email', { email, ...(profile.hasPassword ? { current } : {}) });
    setSentTo(email);
    setCurrent('');
  });
  const isSame = email.trim().toLowerCase() === profile.email;
  return (
    <Form onSubmit={() => void send()} label="E-mail">
      <div>
        {profile.emailVerified ? (
          <Badge tone="good">Confirmed</Badge>
        ) : (
          <Badge tone="wait">Not confirmed yet</Badge>
        )}
      </div>
      <Field
        label="E-mail"
        type="email"
        value={email}
        onInput={setEmail}
        autoComplete="email"
        required
        error={issueOf(error, 'email')}
      />
      {profile.hasPassword && (!isSame || !profile.emailVerified) && (
        <Field
          label="Your password, to be sure it is you"
          type="password"
          value={current}
          onInput={setCurrent}
          autoComplete="current-password"
          required
          error={issueOf(error, 'current')}
        />
      )}
      <Problem error={error} />
      {sentTo && <Notice tone="good">A mail with a link is on its way to {sentTo}.</Notice>}
      <Button type="submit" isBusy={isBusy} disabled={isSame && profile.emailVerified}>
        {isSame ? 'Send the mail again' : 'Change the address'}
      </Button>
    </Form>
  );
}

export function Password({ profile }: Props) {
  const [current, setCurrent] = useState('');
  const [password, setPassword] = useState('');
  const { send, isBusy, error } = useSend(async () => {
    await post('/api/user/password', { password, ...(profile.hasPassword ? { current } : {}) });
    setCurrent('');
    setPassword('');
    await loadProfile();
    say('The password is changed; other sessions have ended');
  });
  return (
    <Form onSubmit={() => void send()} label="Password">
      {profile.hasPassword && (
        <Field
          label="Present password"
          type="password"
          value={current}
          onInput={setCurrent}
          autoComplete="current-password"
          required
          error={issueOf(error, 'current')}
        />
      )}
      <NewPassword
        label="New password"
        value={password}
        onInput={setPassword}
        error={issueOf(error, 'password')}
      />
      <Problem error={error} />
      <Button type="submit" isBusy={isBusy}>
        {profile.hasPassword ? 'Change the password' : 'Set a password'}
      </Button>
    </Form>
  );
}
