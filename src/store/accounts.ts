/** Changes of an account that touch more than one collection: all of it happens, or nothing. */
import type { MongoClient } from 'mongodb';
import type { MailOutbox, NewMail } from './mail-outbox.ts';
import type { MailTokenStore } from './mail-tokens.ts';
import { type createProjectStore, inTransaction, type NewProject } from './projects.ts';
import type { SessionStore } from './sessions.ts';
import type { TokenStore } from './tokens.ts';
import type { EmailChange, NewUser, PasswordChange, UserStore } from './users.ts';

export type AccountParts = {
  users: UserStore;
  projects: ReturnType<typeof createProjectStore>;
  sessions: SessionStore;
  tokens: TokenStore;
  mailTokens: MailTokenStore;
  outbox: MailOutbox;
};

export function createAccountStore(client: MongoClient, parts: AccountParts) {
  const { users, projects, sessions, tokens, mailTokens, outbox } = parts;

  return {
    /** Adds a user with a first project, and a mail that greets them. @throws isTaken when the e-mail is taken. */
    async create(user: NewUser, project: NewProject, mail?: NewMail): Promise<void> {
      await inTransaction(client, async (session) => {
        await users.insert(user, session);
        await projects.insert(project, session);
        if (mail) await outbox.add(mail, user.createdTs, session);
      });
    },

    /**
     * Sets a password, which ends every session but `keptSessionId`, revokes API tokens and what was sent by
     * mail, and tells the user.
     *
     * @returns false, with nothing changed, when the user's epoch is no longer the one that was read.
     */
    async setPassword(
      change: PasswordChange & { keptSessionId?: string; email: string },
      now: number,
    ): Promise<boolean> {
      const { id, epoch, keptSessionId, email } = change;
      return inTransaction(client, async (session) => {
        if (!(await users.setPassword(change, session))) return false;
        await sessions.removeOthers(id, keptSessionId, epoch + 1, session);
        await tokens.removeAll(id, session);
        await mailTokens.removeOf(id, ['reset', 'email'], { session });
        await outbox.add({ kind: 'password-changed', userId: id, to: email }, now, session);
        return true;
      });
    },

    /**
     * Gives an account whose e-mail nobody had proven to whoever has: password, sessions, API tokens and what was
     * sent by mail are worth nothing any more.
     *
     * @returns false, with nothing changed, when it was proven already.
     */
    async takeOver(userId: string): Promise<boolean> {
      return inTransaction(client, async (session) => {
        if (!(await users.takeOver(userId, session))) return false;
        await sessions.removeAll(userId, session);
        await tokens.removeAll(userId, session);
        await mailTokens.removeOf(userId, ['verify', 'reset', 'email'], { session });
        return true;
      });
    },

    /**
     * Gives the user a proven e-mail, takes back what was sent to the old one, and tells that one.
     *
     * @returns false, with nothing changed, when the user has changed since it was asked for
     * @throws isTaken when somebody else has the e-mail
     */
    async changeEmail(change: EmailChange & { tokenHash: string }, now: number): Promise<boolean> {
      const { id, email, fromEmail, tokenHash } = change;
      return inTransaction(client, async (session) => {
        if (!(await users.changeEmail(change, session))) return false;
        await mailTokens.removeOf(id, ['verify', 'reset', 'email'], { session, exceptHash: tokenHash });
        await outbox.add({ kind: 'email-changed', userId: id, newEmail: email, to: fromEmail }, now, session);
        return true;
      });
    },
  };
}
