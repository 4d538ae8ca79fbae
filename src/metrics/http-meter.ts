/**
 * What is counted of requests, route by route. Each route has its counters from the start: a request adds to numbers,
 * and makes no text and no search.
 */
import { Histogram, type Registry, type Sample } from './registry.ts';

/** Seconds. */
const bounds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 10] as const;

const firstStatus = 100;
const lastStatus = 599;

/** Counters of one route and method. */
export class RouteMeter {
  readonly method: string;
  readonly route: string;
  /** By status. */
  readonly answers = new Float64Array(lastStatus - firstStatus + 1);
  readonly durations = new Histogram(bounds);
  /** Of media, as far as they were sent. */
  mediaBytes = 0;
  /** Streams last as long as their reader likes: how long says nothing. */
  private readonly isTimed: boolean;

  constructor(method: string, route: string) {
    this.method = method;
    this.route = route;
    this.isTimed = !/\/(events|activity)(\/|$)/.test(route);
  }

  finished(status: number, ms: number): void {
    this.answers[status - firstStatus] = (this.answers[status - firstStatus] ?? 0) + 1;
    if (this.isTimed) this.durations.observe(ms / msPerSecond);
  }

  /** Answers of some statuses. */
  count(...statuses: number[]): number {
    return statuses.reduce((sum, status) => sum + (this.answers[status - firstStatus] ?? 0), 0);
  }
}

const msPerSecond = 1_000;

/** Counters of one server. */
export class HttpMeter {
  running = 0;
  private readonly routes = new Map<string, RouteMeter>();
  /** Answers with an error, by its code. */
  private readonly errors = new Map<string, number>();

  route(method: string, path: string): RouteMeter {
    const key = `${method} ${path}`;
    const known = this.routes.get(key) ?? new RouteMeter(method.toUpperCase(), path);
    this.routes.set(key, known);
    return known;
  }

  /** `code` is one of schemas/errors.ts, so there are not many. */
  refused(code: string): void {
    this.errors.set(code, (this.errors.get(code) ?? 0) + 1);
  }

  errorsOf = (code: string): number => this.errors.get(code) ?? 0;

  /** Tells of every route, those too that are added later. */
  describe(registry: Registry): void {
    const all = () => [...this.routes.values()];
    registry.total(
      {
        name: 'assets_http_requests_total',
        help: 'Finished requests, by route, status and its class; 499 is a client that went away first.',
        labels: ['method', 'route', 'status', 'code'],
      },
      () => all().flatMap(answersOf),
    );
    registry.histograms(
      {
        name: 'assets_http_request_duration_seconds',
        help: 'Time until a request was answered, by route; without streams of events.',
        labels: ['method', 'route'],
      },
      () =>
        all()
          .filter(({ durations }) => durations.counts.some((count) => count > 0))
          .map(({ method, route, durations }) => [[method, route], durations] as const),
    );
    registry.gauge(
      { name: 'assets_http_requests_running', help: 'Requests being answered, streams among them.' },
      () => this.running,
    );
    registry.total(
      {
        name: 'assets_http_errors_total',
        help: 'Answers with an error, by its code.',
        labels: ['code'],
      },
      () => [...this.errors].map(([code, count]): Sample => [[code], count]),
    );
    registry.total(
      {
        name: 'assets_media_sent_bytes_total',
        help: 'Bytes of media that were sent, by route.',
        labels: ['route'],
      },
      () =>
        all()
          .filter(({ mediaBytes }) => mediaBytes > 0)
          .map(({ route, mediaBytes }): Sample => [[route], mediaBytes]),
    );
  }
}

/** A rise from nothing to one is seen only by who was told of nothing before. */
const toldOfEarly = new Set([500, 503]);

function answersOf({ method, route, answers }: RouteMeter): Sample[] {
  if (answers.every((count) => count === 0)) return [];
  const found: Sample[] = [];
  for (const [n, count] of answers.entries()) {
    const status = n + firstStatus;
    if (count === 0 && !toldOfEarly.has(status)) continue;
    found.push([[method, route, `${Math.floor(status / firstStatus)}xx`, String(status)], count]);
  }
  return found;
}
