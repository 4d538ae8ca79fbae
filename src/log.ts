/**
 * The log: JSON lines, one per finished thing. Secrets are never given to it; what gets there all the same, as a
 * field or within an error's text, is hidden.
 */
import { type DestinationStream, type Logger, pino } from 'pino';

export type Log = Logger;

/** Lines are written in groups: one write a line would cost more than most requests. */
const grouped = { sync: false, minLength: 4_096, periodicFlush: 250 };

/** @param level pino's names, or `silent` */
export function createLog(level: string, destination?: DestinationStream): Log {
  const options = {
    level,
    base: null,
    timestamp: () => `,"ts":${Date.now()}`,
    // Over the finished line: pino's own redaction looks only at the depths it is told, and costs four times as much.
    hooks: { streamWrite: hideSecrets },
  };
  return pino(options, destination ?? pino.destination(grouped));
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
