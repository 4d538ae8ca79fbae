/** What an operator has given to read sites with, beside the rules: a browser, a language model. Both may be missing. */
import type { BrowserLog, BrowserOptions } from './browser.ts';
import { createBrowser, findBrowser } from './browser.ts';
import type { ModelOptions } from './choose.ts';
import type { CrawlerOptions } from './thread-crawler.ts';

export type EngineSettings = {
  browser: string | undefined;
  searchPath: string;
  model: ModelOptions | undefined;
};

/** The options of a crawler. What is set and is not there is told once, and done without. */
export function withEngines(
  { browser, searchPath, model }: EngineSettings,
  reach: Pick<BrowserOptions, 'allow' | 'denyPorts'>,
  log: BrowserLog,
): CrawlerOptions {
  const path = browser === undefined ? undefined : findBrowser(browser, searchPath);
  const isReady = path !== undefined && hasDriver();
  if (browser !== undefined && !isReady) {
    const missing = path === undefined ? 'there is no browser' : 'playwright-core is not installed';
    log.warn({ browser }, `pages made by scripts are read as they come: ${missing}`);
  }
  return { ...reach, model, ...(isReady ? { draw: createBrowser({ path, log, ...reach }) } : {}) };
}

function hasDriver(): boolean {
  try {
    return import.meta.resolve('playwright-core') !== '';
  } catch {
    // It is an optional package.
    return false;
  }
}
