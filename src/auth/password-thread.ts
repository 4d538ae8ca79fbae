/** What a thread of passwords.ts does: argon2id, in the thread itself. */
import { hashSync, verifySync } from '@node-rs/argon2';
import type { Cost } from './passwords.ts';

export type HashTask = { password: string; cost: Cost };
export type VerifyTask = { stored: string; password: string };

/** @returns PHC form */
export const hash = ({ password, cost }: HashTask): string => hashSync(password, cost);

/** @throws when `stored` is no hash */
export const verify = ({ stored, password }: VerifyTask): boolean => verifySync(stored, password);
