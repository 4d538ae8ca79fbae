/**
 * Sends what is in the outbox, a few mails at once.
 *
 * A mail is claimed before it is sent, so that of several processes one sends it; a process that dies in between
 * leaves it to the others. Failures are tried again, later each time, for a day. A mail can arrive twice when
 * the server's answer to it is lost: both then have one Message-ID.
 */
import { account, mail as limits } from '../../schemas/limits.ts';
import { hashOf, newSecret } from '../auth/secret.ts';
import type { MailOutbox, MailRecord } from '../store/mail-outbox.ts';
import type { MailTokenPurpose, MailTokenStore } from '../store/mail-tokens.ts';
import type { UserRecord, UserStore } from '../store/users.ts';
import {
  type Content,
  emailAsked,
  emailChanged,
  passwordChanged,
  resetPassword,
  verifyEmail,
} from './texts.ts';

/** A mail as it goes out. `id` stays the same when it is sent again. */
export type Letter = Content & { id: string; to: string };

/**
 * Hands a mail over to a mail server or a mailbox.
 *
 * @throws {RefusedError} when it is no use to try again, anything else when it may be.
 */
export type Deliver = (letter: Letter, signal: AbortSignal) => Promise<void>;

/** The server will never take this mail: the address does not exist, or the content is refused. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
}

export type MailerPorts = {
  outbox: MailOutbox;
  users: Pick<UserStore, 'find' | 'findByEmail'>;
  mailTokens: Pick<MailTokenStore, 'insert'>;
  deliver: Deliver;
  /** Public address without a slash at its end. */
  baseUrl: string;
  now(): number;
  /** Longest sending of one mail. */
  sendMs?: number;
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
};

type Outcome = { isOver: boolean; did: string; err?: unknown };

const noLongerNeeded: Outcome = { isOver: true, did: 'no longer needed' };

const hourMs = 3_600_000;

export function createMailer(ports: MailerPorts) {
  const { outbox, deliver, now, log, sendMs = limits.sendMs } = ports;
  const stopping = new AbortController();

  /** A mail that is due, for this process alone. */
  const claim = () => outbox.claim(now(), limits.leaseMs);

  const sendOne = async (mail: MailRecord): Promise<void> => {
    const startedAt = performance.now();
    const letter = await write(mail, ports);
    const outcome = letter ? await send(mail, letter) : noLongerNeeded;
    const { isOver, did, err } = outcome;
    if (isOver) await outbox.remove(mail.id);
    else await outbox.postpone(mail, stopping.signal.aborted ? now() : now() + delayAfter(mail.attempts));

    const { id, kind, attempts: attempt } = mail;
    const fields = { mail: id, kind, attempt, ms: Math.round(performance.now() - startedAt) };
    if (err === undefined) log.info(fields, `mail ${did}`);
    else log.warn({ ...fields, err }, `mail ${did}`);
  };

  const send = async ({ createdTs }: MailRecord, letter: Letter): Promise<Outcome> => {
    try {
      await limited(stopping.signal, sendMs, (signal) => deliver(letter, signal));
      return { isOver: true, did: 'sent' };
    } catch (err) {
      const isOver = err instanceof RefusedError || now() - createdTs >= limits.giveUpAfterMs;
      return { isOver, did: isOver ? 'given up' : 'not sent', err };
    }
  };

  /** Sends one after the other until none is due. */
  const sendAll = async (first: MailRecord | undefined) => {
    for (let mail = first; mail; mail = stopping.signal.aborted ? undefined : await claim())
      await sendOne(mail);
  };

  return {
    /** Sends all mails that are due. */
    async sendDue(): Promise<void> {
      if (stopping.signal.aborted) return;
      // Mostly none is: one look is enough to know.
      const first = await claim();
      if (!first) return;
      const others = Array.from({ length: limits.maxAtOnce - 1 }, async () => sendAll(await claim()));
      const lines = [sendAll(first), ...others];
      // One line's trouble with the store is told once all have come to their end.
      const ends = await Promise.allSettled(lines);
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
    },

    /** Cuts off what is being sent, for another process or start to send again. */
    stop(): void {
      stopping.abort(new Error('the service stops'));
    },
  };
}

/** Wait after attempt n (1-based), in ms: twice as long each time, up to an hour. */
export function delayAfter(attempt: number): number {
  return Math.min(limits.maxRetryMs, limits.firstRetryMs * 2 ** Math.min(attempt - 1, 30));
}

/** Runs with the time limit of a sending. The answer is waited for no longer, whatever the server does. */
async function limited(
  stopping: AbortSignal,
  ms: number,
  run: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const control = new AbortController();
  const cut = (cause: unknown) => control.abort(cause);
  const onStop = () => cut(stopping.reason);
  const timer = setTimeout(() => cut(new Error(`took longer than ${ms} ms`)), ms);
  stopping.addEventListener('abort', onStop, { once: true });
  if (stopping.aborted) onStop();
  const aborted = new Promise<never>((_, reject) => {
    const refuse = () => reject(control.signal.reason);
    if (control.signal.aborted) refuse();
    else control.signal.addEventListener('abort', refuse, { once: true });
  });
  try {
    await Promise.race([run(control.signal), aborted]);
  } finally {
    clearTimeout(timer);
    stopping.removeEventListener('abort', onStop);
  }
}

/** The text of a mail, with a token of its own where it needs one; undefined when it has no reader any more. */
async function write(mail: MailRecord, ports: MailerPorts): Promise<Letter | undefined> {
  const { users } = ports;
  const user = await (mail.kind === 'reset' ? users.findByEmail(mail.to) : users.find(mail.userId));
  if (!user) return undefined;
  const { id, to } = mail;
  switch (mail.kind) {
    case 'verify':
      if (user.email !== to || user.emailVerified) return undefined;
      return withToken(mail, user, { kind: 'verify', email: to }, ports);
    case 'reset':
      return withToken(mail, user, { kind: 'reset', email: to, epoch: user.epoch }, ports);
    case 'confirm-email': {
      const { fromEmail, epoch } = mail;
      if (user.email !== fromEmail || user.epoch !== epoch) return undefined;
      return withToken(mail, user, { kind: 'email', email: to, fromEmail, epoch }, ports);
    }
    case 'email-asked':
      return { id, to, ...emailAsked(mail.newEmail, ports.baseUrl) };
    case 'email-changed':
      return { id, to, ...emailChanged(mail.newEmail, ports.baseUrl) };
    case 'password-changed':
      return { id, to, ...passwordChanged(ports.baseUrl) };
  }
}

/**
 * Stores a new token and writes the mail that carries it. Its time runs from now, not from when it was asked
 * for. Those of earlier attempts stay good: a mail whose sending seemed to fail may have arrived.
 */
async function withToken(
  { id, to }: MailRecord,
  user: UserRecord,
  purpose: MailTokenPurpose,
  { mailTokens, baseUrl, now }: MailerPorts,
): Promise<Letter> {
  const token = newSecret();
  const expiresTs = now() + lifetimeMs[purpose.kind];
  await mailTokens.insert({ hash: hashOf(token), userId: user.id, ...purpose, expiresTs });
  const page = purpose.kind === 'reset' ? 'reset' : 'verify';
  const link = `${baseUrl}/dashboard/${page}?token=${token}`;
  const content = purpose.kind === 'reset' ? resetPassword(link) : verifyEmail(link, to);
  return { id, to, ...content };
}

const lifetimeMs: Record<MailTokenPurpose['kind'], number> = {
  verify: account.verifyDays * 24 * hourMs,
  reset: account.resetMinutes * 60_000,
  email: account.emailChangeHours * hourMs,
};
