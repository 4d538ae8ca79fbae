/**
 * The dashboard in a real Chromium, against the real service. Whatever a page writes to its console as an error fails
 * the test, a breach of the content policy included.
 */
import { mkdir, mkdtemp, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import type { Test } from 'tap';
import { launchChromium } from '../fixtures/chromium.ts';
import { photo } from '../fixtures/images.ts';
import { uniqueName } from '../fixtures/servers.ts';
import { startTestService, type TestService, type TestUser } from '../fixtures/service.ts';
import { until } from './until.ts';

export type Dashboard = {
  service: TestService;
  base: string;
  browser: Browser;
  /** A page of a visitor, or of this user; closed when the test ends. Its errors fail the file at its end. */
  open(t: Test, options?: OpenOptions): Promise<Page>;
  signUp: TestService['signUp'];
};

/** Of the account that may see the operator console, where a file says so in its settings. */
export const operatorEmail = 'boss@example.com';

/** An image that takes little time to animate: what journeys show is the way. */
export const smallPhoto = () => photo({ width: 120, height: 80 });

export type OpenOptions = BrowserContextOptions & {
  /** Where to; /dashboard when absent. */
  path?: string;
  user?: TestUser;
  /** Errors on the console that the test brings about. */
  allows?: RegExp;
};

/** One service and one browser for a file. `settings` are environment variables. */
export async function startDashboard(t: Test, settings: Record<string, string> = {}): Promise<Dashboard> {
  const errors: string[] = [];
  // Registered first and so called last: what it throws keeps nothing from being closed.
  t.teardown(() => {
    if (errors.length > 0) throw new Error(`on the console: ${errors.join('; ')}`);
  });
  const service = await startTestService(t, settings);
  const browser = await launchChromium();
  t.teardown(() => browser.close());
  const open: Dashboard['open'] = async (t, { path = '/dashboard', user, allows, ...options } = {}) => {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 800 },
      reducedMotion: 'reduce',
      ...options,
    });
    if (user) await context.addCookies([toCookie(user.cookie, service.base)]);
    const page = await context.newPage();
    watchErrors(page, allows, errors);
    t.teardown(() => context.close());
    await page.goto(service.base + path);
    return page;
  };
  return { service, base: service.base, browser, open, signUp: service.signUp };
}

/** What the page says of itself; answers that are no 2xx are the business of the test. */
export function watchErrors(page: Page, allows?: RegExp, errors: string[] = []): string[] {
  const note = (text: string) => {
    if (!allows?.test(text)) errors.push(text);
  };
  page.on('pageerror', (error) => note(String(error)));
  page.on('console', (message) => {
    const isAnswer = message.text().includes('Failed to load resource');
    if (message.type() === 'error' && !isAnswer) note(message.text());
  });
  return errors;
}

/** Signs a new account up in the page, which then is in the dashboard. */
export async function signUpInPage(
  page: Page,
  base: string,
  email = `${uniqueName('visitor')}@example.com`,
): Promise<string> {
  await page.goto(`${base}/dashboard/signup`);
  await page.getByRole('textbox', { name: 'Name' }).fill('Ada Lovelace');
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await page.getByRole('button', { name: 'Create the account' }).click();
  await page.waitForURL(/\/dashboard\/projects\/prj_/);
  return email;
}

/**
 * Fails for each rule of axe-core that the page breaks, or the dialog that is open: what lies behind one can neither be
 * reached nor read. Samples of colours of customers are as they are.
 */
export async function checkAccessible(
  t: Test,
  page: Page,
  what: string,
  rules: 'all' | 'of colours' = 'all',
): Promise<void> {
  await injectAxe(page);
  const only = rules === 'all' ? '' : "runOnly: ['color-contrast', 'link-in-text-block'],";
  const broken = (await page.evaluate(
    `axe.run({ include: [document.querySelector('dialog[open]') ?? document], exclude: ['.sample'] }, { ${only} resultTypes: ['violations'], preload: false }).then(({ violations }) => violations.map(
      ({ id, nodes }) => id + ': ' + nodes.slice(0, 5).map(({ target, failureSummary }) => target + ' ' + failureSummary).join('; ')))`,
  )) as string[];
  t.strictSame(broken, [], `axe: ${what}`);
}

/** Once for each document. Not as a script element, which the content policy forbids. */
async function injectAxe(page: Page): Promise<void> {
  if (await page.evaluate('"axe" in window')) return;
  axe ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  await page.evaluate(await axe);
}

let axe: Promise<string> | undefined;

/** In both themes, which differ in their colours alone. */
export async function checkBothThemes(t: Test, page: Page, what: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    // Until the new colours are painted, and none is on its way.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
    await until(page, '!document.getAnimations().some((one) => one instanceof CSSTransition)');
    await checkAccessible(t, page, `${what}, ${colorScheme}`, colorScheme === 'light' ? 'all' : 'of colours');
  }
}

/** Pictures of a page in both themes at three widths, where SCREENSHOTS names a folder: they are for people. */
export async function takeScreenshots(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS;
  if (!folder) return;
  await mkdir(folder, { recursive: true });
  const before = page.viewportSize();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    for (const width of [360, 1280, 2560]) {
      await page.setViewportSize({ width, height: width > 2_000 ? 1_440 : 800 });
      await page.evaluate('scrollTo(0, 0)');
      await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
    }
  }
  if (before) await page.setViewportSize(before);
}

/** A folder for what a test downloads or writes. */
export const scratchFolder = () => mkdtemp(join(tmpdir(), 'dashboard-'));

function toCookie(text: string, url: string) {
  const at = text.indexOf('=');
  return { name: text.slice(0, at), value: text.slice(at + 1), url };
}
