/** What the page of the dashboard is told of its service before it asks anything: see src/http/dashboard.ts. */
import type { Plan, PlanName } from './plans.ts';

/** Providers that people can sign in with, when the operator has configured them. */
export type SignInProvider = 'google' | 'github';

export type PageSettings = {
  /** Public address of the service without a slash at its end. */
  baseUrl: string;
  oauth: SignInProvider[];
  plans: Record<PlanName, Plan>;
  limits: { uploadBytes: number; minSeconds: number; maxSeconds: number; defaultSeconds: number };
};
