/** Stores of @xstate/store in components. */
import { useEffect, useRef, useState } from 'preact/hooks';

/** Any store of @xstate/store. */
export type Source<Context> = {
  getSnapshot(): { context: Context };
  subscribe(listener: (snapshot: { context: Context }) => void): { unsubscribe(): void };
};

/** What `select` makes of a store's context; draws again when that is another value, and only then. */
export function useStore<Context, Value>(
  source: Source<Context>,
  select: (context: Context) => Value,
): Value {
  const [, redraw] = useState(0);
  const value = select(source.getSnapshot().context);
  const latest = useRef({ select, value });
  latest.current = { select, value };
  useEffect(() => {
    const look = () => {
      const { select, value } = latest.current;
      if (!Object.is(select(source.getSnapshot().context), value)) redraw((count) => count + 1);
    };
    const subscription = source.subscribe(look);
    // It may have changed between drawing and listening.
    look();
    return () => subscription.unsubscribe();
  }, [source]);
  return value;
}
