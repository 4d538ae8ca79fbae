/** Users, sign-up, sign-in, sessions (specification 2 and 4.1, decisions 1). */
import { z } from 'zod';
import { account } from './limits.ts';
import { PlanName } from './plans.ts';

/** E-mail addresses are compared, stored and answered trimmed and in lower case. */
const Email = z.string().trim().toLowerCase().pipe(z.email().max(account.emailMaxChars));

/** Any text but control characters, which no name has and logs and mails could not bear. */
export const printable = /^\P{Cc}*$/u;

export const SignupRequest = z.object({
  email: Email,
  password: z.string().min(account.passwordMinChars).max(account.passwordMaxChars),
  name: z.string().trim().min(1).max(account.nameMaxChars).regex(printable, 'control characters'),
});
export type SignupRequest = z.infer<typeof SignupRequest>;

export const SigninRequest = z.object({
  email: Email,
  password: z.string().min(1).max(account.passwordMaxChars),
});
export type SigninRequest = z.infer<typeof SigninRequest>;

export const SessionUser = z.object({ id: z.string(), email: z.string(), name: z.string() });
export type SessionUser = z.infer<typeof SessionUser>;

export const SessionResponse = z.object({ user: SessionUser });
export const MaybeSessionResponse = z.object({ user: SessionUser.nullable() });
export const OkResponse = z.object({ ok: z.boolean() });

/** GET /api/user/me: the profile's fields at the top level. Times are ISO 8601. */
export const UserProfile = z.object({
  id: z.string(),
  email: z.string(),
  name: z.string(),
  plan: PlanName,
  aiGenerationsUsed: z.number(),
  aiGenerationsResetAt: z.string().nullable(),
  compositionCount: z.number(),
  themeCount: z.number(),
  createdAt: z.string().nullable(),
});
export type UserProfile = z.infer<typeof UserProfile>;
