/**
 * What this process knows of sessions and API tokens: a small cache in front of the store that answers again
 * for a second, so that what was ended elsewhere is refused within that second, and what was ended here at once.
 */
import { LRUCache } from 'lru-cache';

/**
 * Found for a secret. `expiresTs` is unix ms; null: it does not expire. `once`: what they get in its place who
 * have asked for it while it was read.
 */
export type Found<Value> = { value: Value; expiresTs: number | null; once?: Value };

const keptMs = 1_000;

export type KnownOptions<Value> = {
  now(): number;
  max: number;
  /** Reads from the store. */
  load(secret: string, ts: number): Promise<Found<Value> | undefined>;
};

export function createKnown<Value extends object>({ now, max, load }: KnownOptions<Value>) {
  const cache = new LRUCache<string, { value: Value; expiresTs: number | null; readTs: number }>({ max });
  /** Reads under way, one per secret. Forgetting takes a read away: what it finds is not kept. */
  const loading = new Map<string, Promise<Value | undefined>>();

  const read = async (secret: string, isOurs: () => boolean): Promise<Value | undefined> => {
    const readTs = now();
    const found = await load(secret, readTs);
    if (!found) return undefined;
    const { value, expiresTs, once = value } = found;
    if (isOurs()) cache.set(secret, { value, expiresTs, readTs });
    return once;
  };

  return {
    /** The value of a secret; from memory where it can, and then at once. */
    find(secret: string): Value | undefined | Promise<Value | undefined> {
      const ts = now();
      const known = cache.get(secret);
      if (known && ts < known.readTs + keptMs && ts < (known.expiresTs ?? Number.POSITIVE_INFINITY)) {
        return known.value;
      }
      const running = loading.get(secret);
      if (running) return running;
      const isOurs = () => loading.get(secret) === reading;
      const reading: Promise<Value | undefined> = read(secret, isOurs).finally(() => {
        if (isOurs()) loading.delete(secret);
      });
      loading.set(secret, reading);
      return reading;
    },

    forget(secret: string): void {
      loading.delete(secret);
      cache.delete(secret);
    },

    /** Forgets all values that are so. Looks at every one: for rare changes. */
    forgetWhere(isSo: (value: Value) => boolean): void {
      // What is being read is not known yet, so none of it is kept.
      loading.clear();
      for (const [secret, { value }] of cache.entries()) if (isSo(value)) cache.delete(secret);
    },
  };
}
