/** Users, sign-up, sign-in, sessions (specification 2 and 4.1, decisions 1). */
import { z } from 'zod';
import { account } from './limits.ts';
import { PlanName } from './plans.ts';

/** E-mail addresses are compared, stored and answered trimmed and in lower case. */
export const Email = z
  .string()
  .trim()
  .toLowerCase()
  .pipe(z.email().max(account.emailMaxChars))
  // The document describes what goes in, of which the pipe's first part says too little.
  .meta({ format: 'email', maxLength: account.emailMaxChars });

/**
 * Any text but control characters, which no name has and logs and mails could not bear. Written out, since the
 * OpenAPI document carries it to clients whose regular expressions know no classes of Unicode.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
export const printable = /^[^\u0000-\u001f\u007f-\u009f]*$/;

/** Beside control characters: line separators, and what turns the direction of the text around a name. */
const plain = /^[^\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]*$/u;
/** Something that can be seen: a name of joiners and blanks is none. */
const visible = /[^\p{Cc}\p{Cf}\p{Z}]/u;

/**
 * Text of a length in characters as people and JSON Schema count them: code points, of which UTF-16 needs two
 * for many.
 */
function lengthOf(text: z.ZodString, minLength: number, maxLength: number) {
  return text
    .refine((value) => isWithin(value, minLength, maxLength), `${minLength} to ${maxLength} characters`)
    .meta({ minLength, maxLength });
}

/** Without counting what is far too long. */
function isWithin(text: string, min: number, max: number): boolean {
  if (text.length > max * 2) return false;
  const count = [...text].length;
  return count >= min && count <= max;
}

const nameOf = (maxChars: number) =>
  lengthOf(
    z.string().trim().regex(plain, 'control characters').regex(visible, 'nothing to be seen'),
    1,
    maxChars,
  );

const NewPassword = lengthOf(z.string(), account.passwordMinChars, account.passwordMaxChars);
const AnyPassword = lengthOf(z.string(), 1, account.passwordMaxChars);

export const SignupRequest = z.object({
  email: Email,
  password: NewPassword,
  name: nameOf(account.nameMaxChars),
});
export type SignupRequest = z.infer<typeof SignupRequest>;

export const SigninRequest = z.object({ email: Email, password: AnyPassword });
export type SigninRequest = z.infer<typeof SigninRequest>;

/** A token that came by mail. */
const MailToken = z.string().min(1).max(200);

export const VerifyEmailRequest = z.object({ token: MailToken });
export const ForgotPasswordRequest = z.object({ email: Email });
export const ResetPasswordRequest = z.object({ token: MailToken, password: NewPassword });

/** `current` is required when the account has a password. */
export const ChangePasswordRequest = z.object({ current: AnyPassword.optional(), password: NewPassword });
export const ChangeEmailRequest = z.object({ email: Email, current: AnyPassword.optional() });
export const UpdateUserRequest = z.object({ name: nameOf(account.nameMaxChars).optional() });

/** DELETE /api/user (decisions 1, Account). `current`: the password, when the account has one. */
export const EraseAccountRequest = z.object({ current: AnyPassword.optional() });

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
  /** Additive: whether the e-mail is confirmed, and whether there is a password to be asked for. */
  emailVerified: z.boolean(),
  hasPassword: z.boolean(),
  /** Additive: whether /api/operator answers this user. */
  isOperator: z.boolean(),
});
export type UserProfile = z.infer<typeof UserProfile>;

/** A session as its user sees it. Times are unix ms; `last_seen_at` is coarse. */
export const SessionSummary = z.object({
  id: z.string(),
  created_at: z.int(),
  last_seen_at: z.int(),
  user_agent: z.string().nullable(),
  address: z.string().nullable(),
  /** Whether it is the one that asks. */
  current: z.boolean(),
});
export type SessionSummary = z.infer<typeof SessionSummary>;
export const SessionList = z.object({ sessions: z.array(SessionSummary) });

/** The last time that a Date can hold. */
const maxTs = 8_640_000_000_000_000;

/** `expires_at`: unix ms, or a time in ISO 8601 with its zone. Without one the token does not expire. */
export const CreateTokenRequest = z.object({
  name: nameOf(account.tokenNameMaxChars),
  expires_at: z
    .union([z.int().max(maxTs), z.iso.datetime({ offset: true }).transform((text) => Date.parse(text))])
    .nullish(),
});

/** An API token as its user sees it. Times are unix ms; `last_used_at` is coarse. */
export const ApiToken = z.object({
  id: z.string(),
  name: z.string(),
  /** The token's first characters and an ellipsis. */
  preview: z.string(),
  created_at: z.int(),
  expires_at: z.int().nullable(),
  last_used_at: z.int().nullable(),
});
export type ApiToken = z.infer<typeof ApiToken>;
export const ApiTokenList = z.object({ tokens: z.array(ApiToken) });
/** The only answer with the token itself. */
export const NewApiToken = ApiToken.extend({ token: z.string() });
