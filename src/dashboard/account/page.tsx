/** What people set of themselves: name, address, password, sessions, tokens, and the end of it all. */
import type { UserProfile } from '../../../schemas/user.ts';
import { session } from '../session.ts';
import { useStore } from '../store.ts';
import { Skeleton } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Appearance } from './appearance.tsx';
import { DeleteAccount } from './delete-account.tsx';
import { Email, Name, Password } from './profile.tsx';
import { Sessions } from './sessions.tsx';
import { Tokens } from './tokens.tsx';
import './account.css';

export function Page() {
  const profile = useStore(session, (context) => context.profile);
  return (
    <>
      <PageHead title="Account">{profile?.email}</PageHead>
      {profile ? <Parts profile={profile} /> : <Skeleton lines={12} />}
    </>
  );
}

function Parts({ profile }: { profile: UserProfile }) {
  return (
    <>
      <Section title="Name">
        <Name profile={profile} />
      </Section>
      <Section title="E-mail" about="A new address counts once the mail to it was answered.">
        <Email profile={profile} />
      </Section>
      <Section title="Password" about="Changing it ends all other sessions and revokes every API token.">
        <Password profile={profile} />
      </Section>
      <Section title="Appearance">
        <Appearance />
      </Section>
      <Section
        title="API tokens"
        id="tokens"
        about={
          <>
            For your servers: sent as <code>Authorization: Bearer sat_…</code>. A token may do what you may,
            but not change the account.
          </>
        }
      >
        <Tokens />
      </Section>
      <Section title="Sessions" about="Browsers that are signed in to this account.">
        <Sessions />
      </Section>
      <Section
        title="Delete the account"
        about="Projects, animations, their files and webhooks go with it, at once and for good."
      >
        <DeleteAccount profile={profile} />
      </Section>
    </>
  );
}
