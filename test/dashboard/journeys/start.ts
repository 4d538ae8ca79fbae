/** The way in: signing up, the first animation, signing in again, coming from another provider. */
import type { Test } from 'tap';
import type { Store } from '../../../src/store/client.ts';
import type { startGithubLike } from '../../fixtures/github-like.ts';
import { uniqueName } from '../../fixtures/servers.ts';
import { checkBothThemes, type Dashboard, signUpInPage, smallPhoto, takeScreenshots } from '../browser.ts';
import { until, untilSo } from '../until.ts';

const minuteMs = 60_000;

/** `github` is where the service sends people to sign in with GitHub. */
export async function comeIn(
  t: Test,
  dashboard: Dashboard,
  github: Awaited<ReturnType<typeof startGithubLike>>,
): Promise<void> {
  t.test('from signing up to a playing animation it takes at most five clicks', async (t) => {
    const page = await dashboard.open(t);
    await page.waitForURL('**/dashboard/signin');
    await checkBothThemes(t, page, 'sign-in');
    await takeScreenshots(page, 'signin');
    await page.getByRole('link', { name: 'Create an account' }).click();
    await page.getByRole('heading', { name: 'Create an account' }).waitFor();
    await until(page, `document.title.startsWith('Create an account · ')`);
    await checkBothThemes(t, page, 'sign-up');
    await takeScreenshots(page, 'signup');
    await signUpInPage(page, dashboard.base);
    const projectId = new URL(page.url()).pathname.split('/').at(-1);
    // A short one: what is tested is the way, not the renderer.
    await page.request.put(`${dashboard.base}/api/projects/${projectId}/proxy-config`, {
      data: { default_mode: 'animate-in', default_dur_seconds: 2 },
    });

    await page.evaluate(
      'window.clicks = 0; addEventListener("click", (event) => event.isTrusted && window.clicks++)',
    );
    // It may last for a moment alone.
    await page.evaluate(`window.isMaking = false; new MutationObserver(() => {
      isMaking ||= document.querySelector('.making [data-state]') !== null;
    }).observe(document, { subtree: true, childList: true })`);
    const choosing = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Drop a photo here' }).click();
    const chooser = await choosing;
    await checkBothThemes(t, page, 'first steps');
    await takeScreenshots(page, 'first-steps');
    await chooser.setFiles({ name: 'bay.jpg', mimeType: 'image/jpeg', buffer: await smallPhoto() });
    const video = page.locator('video');
    await video.waitFor({ timeout: 2 * minuteMs });
    t.ok(await page.evaluate('window.isMaking'), 'it was seen being made');
    t.ok(Number(await page.evaluate('window.clicks')) + 1 <= 5, 'with the one of the sign-up');
    t.match(await video.getAttribute('src'), /\/media\/ast_/);
    // Who asked for less motion presses play.
    await page.evaluate('document.querySelector("video").play()');
    await until(page, 'document.querySelector("video").currentTime > 0');
    await page.getByText('Make a first animation (done)').waitFor();
    await checkBothThemes(t, page, 'overview with an animation');
    await takeScreenshots(page, 'overview');
  });

  t.test('a file that is no image is refused at once, in words', async (t) => {
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user });
    const input = page.locator('input[type=file]').first();
    await input.waitFor({ state: 'attached' });
    await input.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('no image') });
    await page.getByText('notes.txt is no png, jpeg or webp image.').waitFor();
    // By its name alone it is one: the service looks at the content.
    await input.setInputFiles({ name: 'fake.png', mimeType: 'image/png', buffer: Buffer.from('no image') });
    const problem = page.getByRole('alert').filter({ hasText: 'About this error' });
    await problem.waitFor();
    t.match(await problem.textContent(), /Request req_[0-9a-f]{8}/);
  });

  t.test('a session that ends asks again, and what was typed is saved by the same click', async (t) => {
    const user = await dashboard.signUp();
    const page = await dashboard.open(t, { user, path: '/dashboard/account' });
    // The stream would notice first.
    await page.route('**/activity', (route) => route.abort());
    await page.goto(`${dashboard.base}/dashboard/projects/${user.projectId}/settings`);
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Seaside');
    const { body } = await user.call<{ sessions: { id: string }[] }>('GET', '/api/user/sessions');
    await user.call('DELETE', `/api/user/sessions/${body.sessions[0]?.id}`);
    await page.getByRole('button', { name: 'Save the name' }).click();
    const dialog = page.getByRole('dialog', { name: 'Sign in again' });
    await dialog.waitFor();
    await checkBothThemes(t, page, 'sign in again');
    t.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue(), 'Seaside');
    await dialog.getByLabel('Password', { exact: true }).fill('wrong password');
    await dialog.getByRole('button', { name: 'Sign in' }).click();
    await dialog.getByText('Invalid credentials').waitFor();
    await dialog.getByLabel('Password', { exact: true }).fill('correct horse battery');
    await dialog.getByRole('button', { name: 'Sign in' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Project: Seaside' }).waitFor();
  });

  t.test('GitHub lets somebody in; who says no there is told so', async (t) => {
    const unique = uniqueName('octo');
    github.person = { id: Date.now(), login: unique, name: 'Mona' };
    github.emails = [{ email: `${unique}@example.com`, primary: true, verified: true }];
    const page = await dashboard.open(t, { path: '/dashboard/signin' });
    await page.getByRole('link', { name: 'Continue with GitHub' }).click();
    await page.waitForURL(/\/dashboard\/projects\/prj_/);
    await page.getByRole('button', { name: /^Account: Mona/ }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.waitForURL('**/dashboard/signin');
    await page.goto(`${dashboard.base}/dashboard/signin?error=oauth_denied`);
    await page.getByText('You did not allow it there.').waitFor();
    await checkBothThemes(t, page, 'sign-in with a provider and a failure');
  });

  t.test('a forgotten password is reset by the link of the mail, and a link works once', async (t) => {
    const email = `${uniqueName('forgetful')}@example.com`;
    await dashboard.signUp(email);
    const page = await dashboard.open(t, { path: '/dashboard/forgot' });
    await page.getByLabel('E-mail').fill(email);
    await page.getByRole('button', { name: 'Send the link' }).click();
    await page.getByText(`If there is an account for ${email}`).waitFor();
    await checkBothThemes(t, page, 'forgot');
    const link = await untilMail(dashboard.service.store, email, /http\S+\/dashboard\/reset\?token=[\w-]+/);
    for (const outcome of ['Your password is changed', 'The link is not valid, or no longer.']) {
      await page.goto(link);
      await page.getByLabel('New password', { exact: true }).fill('another horse battery');
      await page.getByRole('button', { name: 'Set the password' }).click();
      await page.getByText(outcome).waitFor();
    }
    const verify = await untilMail(
      dashboard.service.store,
      email,
      /http\S+\/dashboard\/verify\?token=[\w-]+/,
    );
    await page.goto(verify);
    await page.getByText(/Your e-mail address is confirmed|The link is not valid/).waitFor();
    await page.goto(`${dashboard.base}/dashboard/signin`);
    await page.getByLabel('E-mail').fill(email);
    await page.getByLabel('Password', { exact: true }).fill('another horse battery');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(/\/dashboard\/projects\/prj_/);
  });

  t.test('a computer whose clock is an hour ahead shows the right times', async (t) => {
    const user = await dashboard.signUp();
    await user.call('POST', '/api/user/tokens', { name: 'clock' });
    const page = await dashboard.open(t, { path: '/dashboard/signin' });
    await page.clock.install({ time: Date.now() + 60 * minuteMs });
    await page.context().addCookies([
      {
        name: user.cookie.slice(0, user.cookie.indexOf('=')),
        value: user.cookie.slice(user.cookie.indexOf('=') + 1),
        url: dashboard.base,
      },
    ]);
    await page.goto(`${dashboard.base}/dashboard/account`);
    const since = page.locator('.sessions time').first();
    await since.waitFor();
    t.match(await since.textContent(), /^now$|second/);
  });
}

/** What a mail to this address holds that has this form; mails are sent within a second or two. */
function untilMail(store: Store, to: string, form: RegExp): Promise<string> {
  return untilSo(async () => {
    const mails = (await store.mailbox.list(200)).filter((mail) => mail.to === to);
    return mails.map(({ text }) => form.exec(text)?.[0]).find((link) => link !== undefined);
  }, `a mail to ${to}`);
}
