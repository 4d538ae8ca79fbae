/** Whom mails come from. */

/** An e-mail address, or a name and the address in angle brackets; nothing that could begin another header. */
export function isSender(text: string): boolean {
  const [, address = text] = /^[^<>\p{Cc}]{0,200}<([^<>]*)>$/u.exec(text) ?? [];
  return /^[^\s<>@,;:"\\\p{Cc}]{1,64}@[A-Za-z0-9.[\]:-]{1,255}$/u.test(address);
}

/** The part behind the @, for Message-IDs. */
export function hostOf(sender: string): string {
  return sender.slice(sender.lastIndexOf('@') + 1).replace('>', '');
}
