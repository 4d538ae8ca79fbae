/** Times, money, counts and sizes as people read them. */
import { now, useNow } from '../clock.ts';

/** A time: how long ago or until, by the service's clock; its title has the local time and UTC. */
export function Time(props: {
  /** Unix ms, or ISO 8601. */
  at: number | string;
  as?: 'relative' | 'local' | 'date' | undefined;
}) {
  const { at, as = 'relative' } = props;
  const ts = typeof at === 'number' ? at : Date.parse(at);
  useNow(Math.abs(now() - ts) < 90_000 ? 1_000 : 30_000);
  const text = { relative: relative, local: formatLocal, date: formatDate }[as](ts);
  return (
    <time
      dateTime={new Date(ts).toISOString()}
      title={`${formatLocal(ts)} · ${formatUtc(ts)}`}
      class="number"
    >
      {text}
    </time>
  );
}

/** Time that is left until then, to the second; nothing once it has passed. */
export function Countdown({ to }: { to: number }) {
  const ts = useNow(1_000);
  return <span class="number">{to > ts ? formatDuration(to - ts) : 'now'}</span>;
}

export function Money({ cents }: { cents: number }) {
  return <span class="number">{formatMoney(cents)}</span>;
}

export function Count({ value }: { value: number }) {
  return <span class="number">{formatCount(value)}</span>;
}

/** Integer cents; whole sums without their noughts. */
export const formatMoney = (cents: number) => (cents % 100 === 0 ? whole : exact)().format(cents / 100);

const dollars = { style: 'currency', currency: 'USD' } as const;
const exact = lazily(() => new Intl.NumberFormat('en', dollars));
const whole = lazily(() => new Intl.NumberFormat('en', { ...dollars, maximumFractionDigits: 0 }));
const counts = lazily(() => new Intl.NumberFormat('en'));
export const formatCount = (value: number) => counts().format(value);

/** `850 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, '0')} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48
    ? `${hours} h ${String(minutes % 60).padStart(2, '0')} min`
    : `${Math.floor(hours / 24)} d`;
}

/** `512 B`, `4.3 KB`, `12 MB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB'];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const steps: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 365 * 86_400_000],
  ['month', 30 * 86_400_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];
const words = lazily(() => new Intl.RelativeTimeFormat('en', { numeric: 'auto' }));

function relative(ts: number): string {
  const away = ts - now();
  if (Math.abs(away) < 5_000) return 'now';
  const [unit, ms] = steps.find(([, ms]) => Math.abs(away) >= ms) ?? ['second', 1_000];
  return words().format(Math.round(away / ms), unit);
}

const local = lazily(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }));
const date = lazily(() => new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' }));
const formatLocal = (ts: number) => local().format(ts);
export const formatDate = (ts: number) => date().format(ts);
const formatUtc = (ts: number) => `${new Date(ts).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Makes what nearly every page needs, each in a task of its own: to be called when there is nothing else to do. */
export function prepareFormats(): void {
  for (const make of [counts, words, local]) setTimeout(make);
}

/** Made when it is first used: the first formatter of a page may take as long as all else of its start. */
function lazily<Made>(make: () => Made): () => Made {
  let made: Made | undefined;
  return () => {
    made ??= make();
    return made;
  };
}
