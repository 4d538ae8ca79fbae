/** Waits for a page from outside: what Playwright polls with inside it, the content policy forbids. */
import type { Page } from 'playwright-core';
import { until as untilSeen } from '../fixtures/until.ts';

/** Evaluates an expression again and again until it is true. */
export async function until(page: Page, expression: string): Promise<void> {
  await untilSo(() => page.evaluate<boolean>(expression), expression);
}

/** Asks until the answer is neither nothing nor false, and answers it. `what` names it when it never is. */
export async function untilSo<Answer>(ask: () => Promise<Answer | undefined | false>, what: string) {
  try {
    return await untilSeen(ask);
  } catch (cause) {
    throw new Error(`waited for: ${what}`, { cause });
  }
}
