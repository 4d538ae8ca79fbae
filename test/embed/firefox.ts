/**
 * Firefox without a driver: it opens a page, each page says by itself what became of it and goes on to the next.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pageOf, type World } from './world.ts';

export const firefoxPath = ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find((path) => existsSync(path));

/** A page, and the body of an async function that runs in it and answers what is to be reported. */
export type Visit = { html: string; look: string; headers?: Record<string, string> };

/**
 * Visits pages one after the other; answers their reports by name.
 *
 * @param settings of the profile, beside those that keep it quiet.
 * @throws when a page has not reported in time, with its name.
 */
export async function visitAll<Name extends string>(
  world: World,
  visits: Record<Name, Visit>,
  settings: Record<string, number> = {},
): Promise<Record<Name, unknown>> {
  const reports = {} as Record<Name, unknown>;
  const names = Object.keys(visits) as Name[];
  for (const [n, name] of names.entries()) {
    const { html, headers = {}, look } = visits[name];
    const next = names[n + 1];
    const page = `${pageOf(world, html)}<script>${reporter(name, look, next)}</script>`;
    world.pages.set(`/${name}.html`, { html: page, headers });
  }
  const browser = startFirefox(`${world.site}/${names[0]}.html`, settings);
  let waiting = names[0];
  try {
    await new Promise<void>((resolve, reject) => {
      const late = () => reject(new Error(`Firefox has not reported of ${waiting}`));
      let timer = setTimeout(late, visitMs);
      world.onReport = (name, body) => {
        clearTimeout(timer);
        reports[name as Name] = JSON.parse(body);
        waiting = names[names.indexOf(name as Name) + 1];
        if (waiting === undefined) resolve();
        else timer = setTimeout(late, visitMs);
      };
    });
  } finally {
    await browser.stop();
  }
  return reports;
}

/** Its first start makes a profile. */
const visitMs = 40_000;

const reporter = (name: string, look: string, next: string | undefined) => `
  const all = [...document.querySelectorAll('animated-asset')];
  const [asset] = all;
  const states = () => all.map((one) => one.getAttribute('state')).join();
  const video = () => asset.shadowRoot.querySelector('video');
  const poster = () => asset.shadowRoot.querySelector('img');
  const until = async (isSo) => { while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 20)); };
  addEventListener('load', async () => {
    const report = await (async () => { ${look} })().catch((cause) => ({ cause: String(cause) }));
    await fetch('/report/${name}', { method: 'POST', body: JSON.stringify(report) });
    ${next === undefined ? '' : `location.href = '/${next}.html';`}
  });`;

function startFirefox(url: string, settings: Record<string, number>) {
  const home = mkdtempSync(join(tmpdir(), 'firefox-'));
  const lines = Object.entries({ ...quiet, ...settings }).map(
    ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`,
  );
  writeFileSync(join(home, 'user.js'), lines.join('\n'));
  const child = spawn(firefoxPath ?? '', ['--headless', '--no-remote', '--profile', home, url], {
    env: { PATH: process.env.PATH, HOME: home },
    stdio: 'ignore',
    // A group of its own: its content processes go with it.
    detached: true,
  });
  return {
    async stop() {
      if (child.exitCode === null && child.pid !== undefined) {
        process.kill(-child.pid, 'SIGKILL');
        await once(child, 'exit');
      }
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Nothing is asked of the network, and nobody is greeted. */
const quiet = {
  'app.normandy.enabled': false,
  'browser.aboutwelcome.enabled': false,
  'browser.safebrowsing.malware.enabled': false,
  'browser.safebrowsing.phishing.enabled': false,
  'browser.shell.checkDefaultBrowser': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'extensions.update.enabled': false,
  'media.gmp-manager.updateEnabled': false,
  'network.captive-portal-service.enabled': false,
  'network.connectivity-service.enabled': false,
  'network.dns.disablePrefetch': true,
  'services.settings.server': 'data:,',
  'toolkit.telemetry.enabled': false,
};
