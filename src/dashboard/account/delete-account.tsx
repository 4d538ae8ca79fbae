/** The end of an account. */
import { useState } from 'preact/hooks';
import type { UserProfile } from '../../../schemas/user.ts';
import { remove } from '../api.ts';
import { leave } from '../session.ts';
import { Button } from '../ui/button.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field } from '../ui/field.tsx';
import { issueOf, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';

export function DeleteAccount({ profile }: { profile: UserProfile }) {
  const [isAsking, ask] = useState(false);
  const [typed, type] = useState('');
  const [current, setCurrent] = useState('');
  const { send, isBusy, error } = useSend(async () => {
    await remove('/api/user', profile.hasPassword ? { current } : {});
    leave();
  });
  return (
    <>
      <div>
        <Button look="danger" icon="bin" onClick={() => ask(true)}>
          Delete the account
        </Button>
      </div>
      <Confirm
        title="Delete the account?"
        isOpen={isAsking}
        action="Delete everything"
        isBusy={isBusy}
        disabled={typed.trim().toLowerCase() !== profile.email || (profile.hasPassword && current === '')}
        onConfirm={() => void send()}
        onClose={() => ask(false)}
      >
        <p>
          Every page that shows one of your animations goes blank, and nobody can bring anything back: not
          you, not us.
        </p>
        <Field
          label={`Type ${profile.email} to go on`}
          value={typed}
          onInput={type}
          autoComplete="off"
          spellcheck={false}
        />
        {profile.hasPassword && (
          <Field
            label="Your password"
            type="password"
            value={current}
            onInput={setCurrent}
            autoComplete="current-password"
            error={issueOf(error, 'current')}
          />
        )}
        <Problem error={error} />
      </Confirm>
    </>
  );
}
