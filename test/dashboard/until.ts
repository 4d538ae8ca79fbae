/** Waits for a page from outside: what Playwright polls with inside it, the content policy forbids. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'playwright-core';

const lookMs = 50;
const givenUpMs = 60_000;

/** Evaluates an expression again and again until it is true. */
export async function until(page: Page, expression: string): Promise<void> {
  await untilSo(() => page.evaluate<boolean>(expression), expression);
}

/** Asks again and again until the answer is neither nothing nor false, and answers it. `what` names it when it never is. */
export async function untilSo<Answer>(
  ask: () => Promise<Answer | undefined | false>,
  what: string,
): Promise<Answer> {
  const endsAt = performance.now() + givenUpMs;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (performance.now() > endsAt) throw new Error(`never true: ${what}`);
    await delay(lookMs);
  }
}
