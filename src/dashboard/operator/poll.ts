/** Reads a path again and again while the tab is looked at; what was read last stays, with how old it is. */
import { useCallback, useEffect, useState } from 'preact/hooks';
import { type ApiError, get } from '../api.ts';
import { now } from '../clock.ts';

export type Polled<Answer> = {
  data: Answer | undefined;
  error: ApiError | undefined;
  /** When `data` was received (unix ms). */
  at: number;
  /** Since when nothing was heard any more. */
  unknownSince: number | undefined;
  reload(): void;
};

type Heard<Answer> = {
  path?: string | undefined;
  data?: Answer | undefined;
  error?: ApiError | undefined;
  at: number;
  unknownSince?: number | undefined;
};

export const pollMs = 2_000;

export function usePoll<Answer>(path: string, everyMs = pollMs): Polled<Answer> {
  const [heard, setHeard] = useState<Heard<Answer>>({ at: 0 });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const read = async () => {
      try {
        const data = await get<Answer>(path, { signal });
        setHeard({ path, data, at: now() });
      } catch (cause) {
        if (!signal.aborted) setHeard((before) => failed(before, path, cause as ApiError));
      }
    };
    const loop = async () => {
      while (!signal.aborted) {
        await read();
        await pause(everyMs, signal);
        if (document.hidden) await untilSeen(signal);
      }
    };
    void loop();
    return () => leaving.abort();
  }, [path, everyMs, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  const isSame = heard.path === path;
  return {
    data: isSame ? heard.data : undefined,
    error: isSame ? heard.error : undefined,
    at: heard.at,
    unknownSince: isSame ? heard.unknownSince : undefined,
    reload,
  };
}

function failed<Answer>(before: Heard<Answer>, path: string, error: ApiError): Heard<Answer> {
  if (before.path !== path) return { path, error, at: 0, unknownSince: now() };
  return { ...before, error, unknownSince: before.unknownSince ?? now() };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
  });
}

function untilSeen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look, { once: true });
  });
}
