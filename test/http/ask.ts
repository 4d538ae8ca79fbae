/**
 * Requests with any header, answered with the bytes as they came and held against the document of the product; and
 * readers that behave badly.
 */
import { request } from 'node:http';
import { connect } from 'node:net';
import { createContract } from '../fixtures/contract.ts';
import { productDocument } from '../fixtures/product.ts';

export type Asked = {
  status: number;
  headers: Record<string, string | undefined>;
  body: Buffer;
  /** The body as JSON; empty for anything else. */
  json: Record<string, unknown>;
};

export type AskOptions = { method?: string; headers?: Record<string, string> };

// Made before any test: a pause in the middle of one would make its readers slow.
const contract = createContract(productDocument());

export async function ask(port: number, path: string, options: AskOptions = {}): Promise<Asked> {
  const asked = await send(port, path, options);
  const { status, headers, body } = asked;
  contract.check(options.method ?? 'GET', path, { status, body, header: (name) => headers[name] });
  return asked;
}

function send(port: number, path: string, { method = 'GET', headers = {} }: AskOptions = {}): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => {
        const body = Buffer.concat(chunks);
        const { 'content-type': type, 'content-encoding': encoding } = answer.headers;
        const isJson = type?.startsWith('application/json') && encoding === undefined && body.length > 0;
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers as Record<string, string | undefined>,
          body,
          json: isJson ? JSON.parse(body.toString()) : {},
        });
      });
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** A reader on a socket of its own that reads only when it is told to. */
export function openReader(port: number, path: string, headers: Record<string, string> = {}) {
  const socket = connect(port, '127.0.0.1');
  const lines = Object.entries({ host: 'test', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  const reader = { bytes: 0, isClosed: false };
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => {
      reader.isClosed = true;
      resolve();
    });
  });
  const chunks: Buffer[] = [];
  socket.on('data', (data) => {
    reader.bytes += data.length;
    chunks.push(data);
  });
  socket.on('error', () => socket.destroy());
  socket.pause();
  return Object.assign(reader, {
    closed,
    resume: () => socket.resume(),
    pause: () => socket.pause(),
    leave: () => socket.destroy(),
    /** What followed the head. */
    body(): Buffer {
      const all = Buffer.concat(chunks);
      return all.subarray(all.indexOf('\r\n\r\n') + 4);
    },
  });
}

/** Waits until something is so. @throws after `ms`. */
export async function until(isSo: () => boolean, ms = 5_000): Promise<void> {
  const end = Date.now() + ms;
  while (!isSo()) {
    if (Date.now() > end) throw new Error('waited in vain');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
