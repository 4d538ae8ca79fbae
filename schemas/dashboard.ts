/** What the page of the dashboard is told of its service before it asks anything: see src/http/dashboard.ts. */
import type { Plan, PlanName } from './plans.ts';

/** Providers that people can sign in with, when the operator has configured them. */
export type SignInProvider = 'google' | 'github';

export type PageSettings = {
  /** Public address of the service without a slash at its end. */
  baseUrl: string;
  oauth: SignInProvider[];
  plans: Record<PlanName, Plan>;
  /** Of limits.ts, what forms must know: that file itself would come along whole. */
  limits: {
    uploadBytes: number;
    minSeconds: number;
    maxSeconds: number;
    defaultSeconds: number;
    maxSeed: number;
    promptMaxChars: number;
    sourceMaxChars: number;
    passwordMinChars: number;
    passwordMaxChars: number;
    personNameMaxChars: number;
    tokenNameMaxChars: number;
    projectNameMaxChars: number;
    domainMaxChars: number;
    reasonMaxChars: number;
  };
};
