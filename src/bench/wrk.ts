/** wrk as the client: it costs a fraction of what it measures, so that the server is never out of work. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { checkInstalled } from './nginx.ts';

export const connections = 50;

/**
 * Asks for a path on 50 connections, one request each under way.
 *
 * @returns how many requests were answered.
 * @throws when wrk is missing.
 */
export async function askFor(
  port: number,
  path: string,
  headers: Record<string, string>,
  seconds: number,
): Promise<number> {
  checkInstalled('wrk', 'wrk');
  const more = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const url = `http://127.0.0.1:${port}${path}`;
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', ...more, url];
  const { stdout } = await promisify(execFile)('wrk', args);
  return Number(/(\d+) requests in/.exec(stdout)?.[1] ?? 0);
}
