/** Proxies that spoil what goes through them, by the HTTP API of toxiproxy. */
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../demo/free-port.ts';
import { pick } from '../random.ts';

export type Spoiler = { stop(): Promise<Record<string, number>> };

const minBetweenMs = 300;
const maxBetweenMs = 2_500;
const minSpoiltMs = 200;
const maxSpoiltMs = 2_500;

/** Puts a proxy in front of a port of 127.0.0.1. Answers the proxy's own port. */
export async function addLink(api: string, name: string, port: number): Promise<number> {
  const listen = await freePort();
  await post(`${api}/proxies`, {
    name,
    listen: `127.0.0.1:${listen}`,
    upstream: `127.0.0.1:${port}`,
    enabled: true,
  });
  return listen;
}

/** What happens to a connection. Nothing that TCP would never do: bytes are late or the connection ends. */
const toxics = {
  late: { type: 'latency', attributes: { latency: 150, jitter: 100 } },
  trickle: { type: 'bandwidth', attributes: { rate: 40 } },
  sliced: { type: 'slicer', attributes: { average_size: 64, size_variation: 32, delay: 200 } },
  hang: { type: 'timeout', attributes: { timeout: 1_500 } },
  reset: { type: 'reset_peer', attributes: { timeout: 100 } },
  cutShort: { type: 'limit_data', attributes: { bytes: 3_000 } },
} as const;
const kinds = ['late', 'trickle', 'sliced', 'hang', 'reset', 'cutShort', 'down'] as const;

/** Spoils one link after the other at random. Its stop leaves all of them well, and answers what was done how often. */
export function spoilAtRandom(
  api: string,
  links: readonly [string, ...string[]],
  random: () => number,
): Spoiler {
  const stopping = new AbortController();
  const counts: Record<string, number> = {};
  const between = (least: number, most: number) => least + random() * (most - least);
  const run = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const link = pick(links, random);
      const kind = pick(kinds, random);
      const proxy = `${api}/proxies/${link}`;
      counts[kind] = (counts[kind] ?? 0) + 1;
      if (kind === 'down') await post(proxy, { enabled: false });
      else {
        const stream = random() < 0.5 ? 'upstream' : 'downstream';
        await post(`${proxy}/toxics`, { name: kind, stream, toxicity: 1, ...toxics[kind] });
      }
      await sleep(between(minSpoiltMs, maxSpoiltMs));
      if (kind === 'down') await post(proxy, { enabled: true });
      else await fetch(`${proxy}/toxics/${kind}`, { method: 'DELETE' });
      await sleep(between(minBetweenMs, maxBetweenMs));
    }
  };
  const running = run();
  // Told by `stop`: what ends everything else first must not be hidden by proxies that end with it.
  running.catch(() => undefined);
  return {
    async stop() {
      stopping.abort();
      await running;
      await post(`${api}/reset`, {});
      return counts;
    },
  };
}

async function post(url: string, body: object): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`toxiproxy: ${url} ${answer.status} ${await answer.text()}`);
}
