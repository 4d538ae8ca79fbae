/** Hands mails to a mail server by SMTP: a connection for each, encrypted where the server can. */
import { createTransport, type NodemailerError } from 'nodemailer';
import { mail as limits } from '../../schemas/limits.ts';
import { type Deliver, RefusedError } from './mailer.ts';
import { hostOf } from './sender.ts';

/** @param url `smtp://` or `smtps://`, with the account to use. @param from address of the sender, or `Name <address>`. */
export function createSmtp(url: string, from: string): Deliver {
  const transport = openTransport(url, limits.sendMs);
  const host = hostOf(from);

  return async ({ id, to, subject, text, html }, signal) => {
    const message = { from, to: { name: '', address: to }, subject, text, html, signal };
    const headers = { 'Auto-Submitted': 'auto-generated' };
    try {
      await transport.sendMail({ ...message, headers, messageId: `<${id}@${host}>` });
    } catch (cause) {
      if (isFinal(cause)) throw new RefusedError('the mail server refuses this mail', { cause });
      throw cause;
    }
  };
}

/** Connects and signs in, sends nothing. @throws what the mail server or the way to it has against that. */
export async function checkSmtp(url: string): Promise<void> {
  const transport = openTransport(url, checkMs);
  try {
    await transport.verify();
  } finally {
    transport.close();
  }
}

const checkMs = 10_000;

function openTransport(url: string, ms: number) {
  return createTransport({
    url,
    connectionTimeout: ms,
    greetingTimeout: ms,
    socketTimeout: ms,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

const finalFrom = 500;

/**
 * Whether it was this recipient or this text that was refused, for ever. A refusal of our sign-in or of our
 * sender's address is a setting that the operator can put right in the meantime.
 */
function isFinal(cause: unknown): boolean {
  const { command, responseCode = 0 } = cause as NodemailerError;
  return (command === 'RCPT TO' || command === 'DATA') && responseCode >= finalFrom;
}
