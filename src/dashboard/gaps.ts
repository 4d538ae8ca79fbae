/** The stream for who reads the state itself when listening begins. */
import { listen } from './live.ts';

/** `resync` is called for gaps after this moment alone: what is read now, or later, has all that came before. */
export function listenFromNow(
  listener: Required<Pick<Parameters<typeof listen>[0], 'events' | 'resync'>>,
): () => void {
  let isNow = true;
  const end = listen({
    events: listener.events,
    resync: () => {
      if (!isNow) listener.resync();
    },
  });
  isNow = false;
  return end;
}
