/** Requests in components: what is read, and what is sent by a form. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type ApiError, get } from '../api.ts';

export type Reading<Answer> = {
  /** The last answer; kept while it is read again. */
  data: Answer | undefined;
  error: ApiError | undefined;
  isReading: boolean;
  reload(): void;
};

/** Reads a path, and again when it changes; nothing while there is none. */
export function useRead<Answer>(path: string | undefined): Reading<Answer> {
  const [state, setState] = useState<{ path?: string | undefined; data?: Answer; error?: ApiError }>({});
  const [round, setRound] = useState(0);
  const [isReading, setReading] = useState(path !== undefined);
  useEffect(() => {
    if (path === undefined) return undefined;
    const control = new AbortController();
    setReading(true);
    get<Answer>(path, { signal: control.signal }).then(
      (data) => {
        setState({ path, data });
        setReading(false);
      },
      (error: ApiError) => {
        if (control.signal.aborted) return;
        setState((before) => (before.path === path ? { ...before, error } : { path, error }));
        setReading(false);
      },
    );
    return () => control.abort();
  }, [path, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  const isSame = state.path === path;
  return {
    data: isSame ? state.data : undefined,
    error: isSame ? state.error : undefined,
    isReading,
    reload,
  };
}

export type Sending<Args extends unknown[]> = {
  /** Sends unless it is being sent; answers whether it went well. */
  send(...args: Args): Promise<boolean>;
  isBusy: boolean;
  /** Of the last attempt, until the next one. */
  error: unknown;
  clear(): void;
};

/** Something that is sent on a click: once at a time, with what went wrong kept for the page to show. */
export function useSend<Args extends unknown[]>(work: (...args: Args) => Promise<unknown>): Sending<Args> {
  const [state, setState] = useState<{ isBusy: boolean; error?: unknown }>({ isBusy: false });
  const isBusy = useRef(false);
  const latest = useRef(work);
  latest.current = work;
  const send = useCallback(async (...args: Args) => {
    if (isBusy.current) return false;
    isBusy.current = true;
    setState({ isBusy: true });
    try {
      await latest.current(...args);
      setState({ isBusy: false });
      return true;
    } catch (error) {
      setState({ isBusy: false, error });
      return false;
    } finally {
      isBusy.current = false;
    }
  }, []);
  const clear = useCallback(() => setState({ isBusy: false }), []);
  return { send, isBusy: state.isBusy, error: state.error, clear };
}
