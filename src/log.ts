/** The log: JSON lines, one per finished thing. Secrets are never given to it. */
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
    redact: { paths: ['*.password', '*.authorization', '*.cookie'], censor: '[hidden]' },
  };
  return pino(options, destination ?? pino.destination(grouped));
}
