/**
 * What mails say. No words of users are in them but e-mail addresses: a name could carry somebody else's message
 * to an address that nobody has confirmed.
 */
import { account } from '../../schemas/limits.ts';

export type Content = { subject: string; text: string; html: string };

type Paragraph = string | { link: string; label: string };

export function verifyEmail(link: string, email: string): Content {
  return write('Confirm your e-mail address', [
    `Please confirm that ${email} is your e-mail address:`,
    { link, label: 'Confirm the address' },
    'If you have not asked for this, ignore this mail.',
  ]);
}

export function resetPassword(link: string): Content {
  return write('Reset your password', [
    'Somebody, hopefully you, has asked to reset the password of your account:',
    { link, label: 'Choose a new password' },
    `The link works once, for ${account.resetMinutes} minutes. If it was not you, ignore this mail: nothing changes.`,
  ]);
}

export function emailAsked(newEmail: string, baseUrl: string): Content {
  return write('Your e-mail address is to be changed', [
    `The e-mail address of your account is to become ${newEmail}, once that address is confirmed.`,
    'If it was not you who asked for this, change your password now. That stops it:',
    { link: `${baseUrl}/dashboard`, label: 'Go to your account' },
  ]);
}

export function emailChanged(newEmail: string, baseUrl: string): Content {
  return write('Your e-mail address was changed', [
    `The e-mail address of your account is now ${newEmail}. This address no longer belongs to it.`,
    `If you have not done this, answer whoever runs ${baseUrl} at once.`,
  ]);
}

export function passwordChanged(baseUrl: string): Content {
  return write('Your password was changed', [
    'The password of your account was changed. All other sessions have ended and all API tokens are revoked.',
    'If it was not you, reset it now:',
    { link: `${baseUrl}/dashboard/forgot`, label: 'Reset the password' },
  ]);
}

function write(subject: string, paragraphs: Paragraph[]): Content {
  const text = paragraphs.map((part) => (typeof part === 'string' ? part : part.link)).join('\n\n');
  const html = paragraphs.map((part) => `<p>${toHtml(part)}</p>`).join('\n');
  return {
    subject,
    text: `${text}\n`,
    html: `<!doctype html>\n<html lang="en">\n<body style="font-family: sans-serif; line-height: 1.5">\n${html}\n</body>\n</html>\n`,
  };
}

function toHtml(part: Paragraph): string {
  if (typeof part === 'string') return escapeHtml(part);
  return `<a href="${escapeHtml(part.link)}">${escapeHtml(part.label)}</a>`;
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (one) => entities[one] ?? one);
}
