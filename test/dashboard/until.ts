/** Waits for a page from outside: what Playwright polls with inside it, the content policy forbids. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Page } from 'playwright-core';

const lookMs = 50;
const givenUpMs = 60_000;

/** Evaluates an expression again and again until it is true. */
export async function until(page: Page, expression: string): Promise<void> {
  const endsAt = performance.now() + givenUpMs;
  while (!(await page.evaluate(expression))) {
    if (performance.now() > endsAt) throw new Error(`never true: ${expression}`);
    await delay(lookMs);
  }
}
