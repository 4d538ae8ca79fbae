/**
 * The log: JSON lines, one per finished thing. Secrets are never given to it; what gets there all the same, as a
 * field or within an error's text, is hidden.
 */
import { type DestinationStream, type Logger, pino } from 'pino';

/** A finished request, as its line has it. */
export type RequestLine = {
  requestId: string;
  method: string;
  route: string;
  status: number;
  ms: number;
  userId: string | undefined;
};

export type Log = Logger & {
  /** The line of a request that went well: what `info` would write, put together by hand at a tenth of its cost. */
  request(line: RequestLine): void;
  /** Takes effect at once. @param level as for createLog */
  setLevel(level: string): void;
};

/** Lines are written in groups: one write a line would cost more than most requests. */
const grouped = { sync: false, minLength: 4_096, periodicFlush: 250, contentMode: 'buffer' } as const;

/** @param level pino's names, or `silent` */
export function createLog(level: string, destination?: DestinationStream): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"ts":${Date.now()}`,
    // Over the finished line: pino's own redaction looks only at the depths it is told, and costs four times as much.
    hooks: { streamWrite: hideSecrets },
  };
  const output = destination ? { all: destination, requests: destination } : createOutput();
  const log = pino(options, output.all);
  const answerText = createAnswerTexts();
  let ts = 0;
  let tsText = '';
  const request = ({ requestId, method, route, status, ms, userId }: RequestLine): void => {
    const now = Date.now();
    if (now !== ts) tsText = `{"level":${infoLevel},"ts":${now},"requestId":"`;
    ts = now;
    const id = requestId.length > plainIdChars ? hideSecrets(`"${requestId}"`).slice(1, -1) : requestId;
    const user = userId === undefined ? '' : `,"userId":"${userId}"`;
    output.requests.write(
      `${tsText}${id}${answerText(method, route, status)}${msText(ms)}${user},"msg":"request"}\n`,
    );
  };
  const requestFor = () => (log.isLevelEnabled('info') ? request : () => undefined);
  const own: Log = Object.assign(log, {
    request: requestFor(),
    setLevel(to: string) {
      log.level = to;
      own.request = requestFor();
    },
  });
  return own;
}

/** Hundredths of a millisecond up to ten: to write a fraction anew each time costs as much as the rest of the line. */
const shortTimes = Array.from({ length: 1_000 }, (_, hundredths) => String(hundredths / 100));

/** @param ms in whole hundredths. */
const msText = (ms: number): string => shortTimes[Math.round(ms * 100)] ?? String(ms);

/** Number of pino's level `info`. */
const infoLevel = 30;
/** Longer ids were chosen by a client, and may be something that nobody should read. */
const plainIdChars = 12;
const maxGroupChars = 64_000;
const maxGroupMs = 250;
const maxMethods = 16;

/**
 * What a line says of route and status, kept in one piece: to join a line of many pieces costs more than to write it.
 * There are as many as routes have statuses.
 */
function createAnswerTexts(): (method: string, route: string, status: number) => string {
  const byRoute = new Map<string, Map<string, string[]>>();
  return (method, route, status) => {
    const text = byRoute.get(route)?.get(method)?.[status];
    if (text !== undefined) return text;
    const made = `","method":"${method}","route":"${route}","status":${status},"ms":`;
    const byMethod = byRoute.get(route) ?? new Map<string, string[]>();
    byRoute.set(route, byMethod);
    const texts = byMethod.get(method) ?? [];
    texts[status] = made;
    // What clients make up is no method of a route.
    if (byMethod.size < maxMethods) byMethod.set(method, texts);
    return made;
  };
}

/**
 * The process's standard output: for lines of all kinds, and for those of requests, which are ASCII by what they are
 * made of. These are handed on in groups, and as bytes: to encode a text that was put together costs as much again.
 */
function createOutput(): Record<'all' | 'requests', DestinationStream> {
  let lines = '';
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (lines !== '') output.write(Buffer.from(lines, 'latin1'));
    lines = '';
  };
  // Before the output's own listener, which closes it.
  process.on('exit', flush);
  // Its types know texts alone.
  const output = pino.destination(grouped) as unknown as { write(bytes: Uint8Array): unknown };
  return {
    all: { write: (line) => void output.write(Buffer.from(line)) },
    requests: {
      write(line) {
        lines += line;
        if (lines.length >= maxGroupChars) flush();
        else timer ??= setTimeout(flush, maxGroupMs).unref();
      },
    },
  };
}

/** A line of JSON without the values of secret fields and without what has the form of a secret. */
function hideSecrets(line: string): string {
  return line.replace(secretForms, '$1$2$3$4$5$6$7[hidden]');
}

const secretFields = [
  ...['password', 'passwordHash', 'token', 'sessionToken', 'authorization', 'cookie', 'set-cookie'],
  ...['secret', 'signingSecret', 'signing_secret', 'webhookSecret', 'webhook_secret', 'secretsKey'],
].join('|');

/** Each alternative keeps its first part, which says what was hidden, and ends before what ends its text in JSON. */
const secretForms = new RegExp(
  [
    String.raw`("(?:${secretFields})":\[?")(?:[^"\\]|\\.)*`,
    // JSON within a text.
    String.raw`(\\"(?:${secretFields})\\": ?\\")[^"\\]*`,
    String.raw`((?:sig|signature|token|secret|password)=)[^&;"\\\s]+`,
    String.raw`(\b(?:sk|whsec|sat)_)[\w+/=-]{20,}`,
    String.raw`(\$argon2id?\$)[^"\\\s]+`,
    String.raw`(Bearer )[^"\\\s]+`,
    // The user and password of an address.
    String.raw`(:\/\/)[^/"\\\s@]+(?=@)`,
  ].join('|'),
  'gi',
);
