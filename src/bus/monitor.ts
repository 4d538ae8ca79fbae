/**
 * What a client of NATS cannot see: whether each message is on disk before it is confirmed. The server tells it at its
 * monitoring address.
 */

const askMs = 3_000;

/**
 * Asks servers at their monitoring addresses whether they sync each message. Answers one line on the first that does
 * not, or that cannot be asked.
 */
export async function judgeSync(urls: readonly string[]): Promise<string | undefined> {
  for (const url of urls) {
    const answer = await ask(url);
    if (typeof answer === 'string') return answer;
    if (answer.config?.sync_always !== true)
      return `the nats-server at ${url} confirms messages before they are on disk: set sync_interval: always`;
  }
  return undefined;
}

type Answer = { config?: { sync_always?: boolean } };

async function ask(url: string): Promise<Answer | string> {
  try {
    const answer = await fetch(`${url}/jsz?config=true`, { signal: AbortSignal.timeout(askMs) });
    if (answer.ok) return (await answer.json()) as Answer;
    return `NATS_MONITOR_URL: ${url} answers ${answer.status}`;
  } catch (cause) {
    return `NATS_MONITOR_URL: ${url} cannot be asked (${cause instanceof Error ? cause.message : cause})`;
  }
}
