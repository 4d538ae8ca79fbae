/** The way in: signing up, and what is seen first. */
import t from 'tap';
import { checkBothThemes, signUpInPage, skip, startDashboard, takeScreenshots } from './browser.ts';

t.test('the way into the dashboard', { skip, timeout: 120_000 }, async (t) => {
  const dashboard = await startDashboard(t);

  t.test('a visitor signs up and lands in the dashboard', async (t) => {
    const page = await dashboard.open(t);
    await page.waitForURL('**/dashboard/signin');
    await checkBothThemes(t, page, 'sign-in');
    await takeScreenshots(page, 'signin');
    await page.getByRole('link', { name: 'Create an account' }).click();
    await page.getByRole('heading', { name: 'Create an account' }).waitFor();
    t.match(await page.title(), /^Create an account · /);
    await checkBothThemes(t, page, 'sign-up');
    await takeScreenshots(page, 'signup');
    await signUpInPage(page, dashboard.base);
    await page.getByRole('heading', { level: 1, name: 'Default' }).waitFor();
    await checkBothThemes(t, page, 'overview');
    await takeScreenshots(page, 'overview-new');
  });
});
