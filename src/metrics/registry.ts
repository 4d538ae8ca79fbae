/**
 * Numbers that Prometheus reads: counters, histograms with fixed buckets, and values that are looked up when they are
 * asked for.
 *
 * Of our own, since counting must cost next to nothing: a counter is a number in an object that its user holds, and
 * labels are made into text only when somebody reads them. Sets of labels are bounded: what comes after the last that
 * fits is counted under `other`.
 */

export class Counter {
  value = 0;

  add(count = 1): void {
    this.value += count;
  }
}

export class Histogram {
  readonly bounds: readonly number[];
  /** By bucket, not added up; the last one is for what is above all bounds. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
  }
}

/** A value with the values of its labels, in the order of their names. */
export type Sample = readonly [labels: readonly string[], value: number];

type About = { name: string; help: string; labels?: readonly string[] };

/** Counters or histograms of one name, one for each set of labels. */
export class Family<Child> {
  readonly children = new Map<string, { labels: readonly string[]; child: Child }>();
  private readonly names: readonly string[];
  private readonly make: () => Child;

  constructor(names: readonly string[], make: () => Child) {
    this.names = names;
    this.make = make;
    if (names.length === 0) this.of();
  }

  /** The one with these values of its labels. To be kept by who counts often. */
  of(...labels: string[]): Child {
    const key = labels.join('\n');
    const known = this.children.get(key);
    if (known) return known.child;
    if (this.children.size >= maxChildren && labels.some((label) => label !== other))
      return this.of(...this.names.map(() => other));
    const child = this.make();
    this.children.set(key, { labels, child });
    return child;
  }
}

const maxChildren = 1_000;
const other = 'other';

/** How numbers are written: `openMetrics` is what newer readers ask for. */
export type Format = 'text' | 'openMetrics';

export const contentTypes: Record<Format, string> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openMetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** Looks values up before they are read. */
type Preparation = { name: string; run: () => Promise<void>; running: boolean; failures: number };

type Metric = About & {
  type: 'counter' | 'gauge' | 'histogram';
  write(lines: string[], metric: Metric): void;
};

export type Registry = ReturnType<typeof createRegistry>;

export function createRegistry() {
  const metrics = new Map<string, Metric>();
  const preparations: Preparation[] = [];

  const add = (metric: Metric): void => {
    if (metrics.has(metric.name)) throw new TypeError(`the metric ${metric.name} is there twice`);
    metrics.set(metric.name, metric);
  };

  /** `read` answers undefined for what nobody knows: it is left out then. */
  const addRead = (
    type: 'counter' | 'gauge',
    about: About,
    read: () => number | Iterable<Sample> | undefined,
  ) =>
    add({
      ...about,
      type,
      write(lines, metric) {
        const found = read();
        if (found === undefined) return;
        const samples: Iterable<Sample> = typeof found === 'number' ? [[[], found]] : found;
        for (const [labels, value] of samples) writeSample(lines, metric, '', labels, value);
      },
    });

  return {
    /** Names of counters end in `_total`. */
    counter(about: About): Family<Counter> {
      const family = new Family(about.labels ?? [], () => new Counter());
      addRead('counter', about, () =>
        [...family.children.values()].map(({ labels, child }): Sample => [labels, child.value]),
      );
      return family;
    },

    histogram({ bounds, ...about }: About & { bounds: readonly number[] }): Family<Histogram> {
      const family = new Family(about.labels ?? [], () => new Histogram(bounds));
      add({
        ...about,
        type: 'histogram',
        write(lines, metric) {
          for (const { labels, child } of family.children.values())
            writeHistogram(lines, metric, labels, child);
        },
      });
      return family;
    },

    /** Histograms that are kept elsewhere. */
    histograms(about: About, read: () => Iterable<readonly [readonly string[], Histogram]>): void {
      add({
        ...about,
        type: 'histogram',
        write(lines, metric) {
          for (const [labels, one] of read()) writeHistogram(lines, metric, labels, one);
        },
      });
    },

    /** A value of now. */
    gauge(about: About, read: () => number | Iterable<Sample> | undefined): void {
      addRead('gauge', about, read);
    },

    /** A count that is kept elsewhere, and only grows. */
    total(about: About, read: () => number | Iterable<Sample> | undefined): void {
      addRead('counter', about, read);
    },

    /** Runs before numbers are read; what fails or takes too long leaves the values of before. */
    prepare(name: string, run: () => Promise<void>): void {
      preparations.push({ name, run, running: false, failures: 0 });
    },

    /** Names of all metrics, as they are declared. */
    names: (): string[] => [...metrics.keys()],

    /** Failed looks, by name. */
    failures: (): Sample[] => preparations.map(({ name, failures }) => [[name], failures]),

    async render(format: Format = 'text'): Promise<string> {
      await Promise.all(preparations.map(prepareOne));
      const lines: string[] = [];
      for (const metric of metrics.values()) {
        const declared = format === 'openMetrics' ? metric.name.replace(/_total$/, '') : metric.name;
        lines.push(
          `# HELP ${declared} ${metric.help.replace(/[\\\n]/g, ' ')}`,
          `# TYPE ${declared} ${metric.type}`,
        );
        metric.write(lines, metric);
      }
      if (format === 'openMetrics') lines.push('# EOF');
      return `${lines.join('\n')}\n`;
    },
  };
}

/** Longest wait for values that are looked up: who reads waits for ten seconds, and wants the rest all the same. */
const prepareMs = 2_500;

/** One look at a time: a store that hangs is asked once, however often somebody reads. */
async function prepareOne(preparation: Preparation): Promise<void> {
  if (preparation.running) {
    preparation.failures += 1;
    return;
  }
  preparation.running = true;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((_, reject) => {
    timer = setTimeout(() => reject(new Error('too late')), prepareMs);
  });
  const looked = preparation.run().finally(() => {
    preparation.running = false;
  });
  await Promise.race([looked, late]).catch(() => {
    preparation.failures += 1;
  });
  clearTimeout(timer);
  looked.catch(() => undefined);
}

function writeSample(
  lines: string[],
  { name, labels: names = [] }: Metric,
  suffix: string,
  labels: readonly string[],
  value: number,
  more = '',
): void {
  if (Number.isNaN(value)) return;
  const pairs = names.map((label, n) => `${label}="${escaped(labels[n] ?? '')}"`);
  if (more !== '') pairs.push(more);
  const shown = value === Number.POSITIVE_INFINITY ? '+Inf' : String(value);
  lines.push(`${name}${suffix}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${shown}`);
}

function writeHistogram(
  lines: string[],
  metric: Metric,
  labels: readonly string[],
  { bounds, counts, sum }: Histogram,
): void {
  let below = 0;
  for (const [n, count] of counts.entries()) {
    below += count;
    const bound = n < bounds.length ? String(bounds[n]) : '+Inf';
    writeSample(lines, metric, '_bucket', labels, below, `le="${bound}"`);
  }
  writeSample(lines, metric, '_count', labels, below);
  writeSample(lines, metric, '_sum', labels, sum);
}

const escapes: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' };
const escaped = (text: string): string => text.replace(/[\\"\n]/g, (one) => escapes[one] ?? one);
