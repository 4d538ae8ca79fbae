/** A client of server-sent events that takes nothing on trust: every chunk and every frame is checked. */
import { connect, type Socket } from 'node:net';

export type SeenEvent = { id: number; event: string; data: Record<string, unknown> };

/** Opens a stream over a socket of its own. `isPaused` leaves everything unread until `resume`. */
export function openStream(
  port: number,
  path: string,
  headers: Record<string, string> = {},
  isPaused = false,
) {
  const socket: Socket = connect(port, '127.0.0.1');
  const events: SeenEvent[] = [];
  const comments: string[] = [];
  const waiting = new Set<() => void>();
  const state = { head: '', status: 0, text: '', isEnded: false, isClosed: false, retryMs: 0, fault: '' };
  let bytes = Buffer.alloc(0);
  let next: 'size' | 'data' | 'end' = 'size';
  let left = 0;

  const lines = Object.entries({ host: 'test', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  if (isPaused) socket.pause();
  socket.on('data', (data) => {
    bytes = Buffer.concat([bytes, data]);
    takeHead();
    if (state.head !== '') takeChunks();
    for (const call of waiting) call();
  });
  socket.on('close', () => {
    state.isClosed = true;
    for (const call of waiting) call();
  });
  // A cut connection is a close to a client.
  socket.on('error', () => socket.destroy());

  const takeHead = () => {
    const end = bytes.indexOf('\r\n\r\n');
    if (state.head !== '' || end === -1) return;
    state.head = bytes.subarray(0, end).toString('latin1');
    state.status = Number(state.head.split(' ')[1]);
    bytes = bytes.subarray(end + 4);
  };

  const takeChunks = () => {
    if (!/transfer-encoding: chunked/i.test(state.head)) return;
    while (!state.isEnded && state.fault === '' && takePart());
  };

  /** Answers whether a whole part was there. What ends a chunk may come as late as the next one. */
  const takePart = (): boolean => {
    if (next === 'data') return takeData();
    const end = bytes.indexOf('\r\n');
    if (end === -1) return false;
    const line = bytes.subarray(0, end).toString('latin1');
    bytes = bytes.subarray(end + 2);
    if (next === 'size') takeSize(line);
    else takeEnd(line);
    return true;
  };

  const takeSize = (line: string) => {
    if (!/^[0-9a-f]+$/i.test(line)) state.fault = `not a chunk size: ${JSON.stringify(line.slice(0, 40))}`;
    left = Number.parseInt(line, 16);
    next = left === 0 ? 'end' : 'data';
  };

  const takeEnd = (line: string) => {
    if (line !== '') state.fault = 'a chunk does not end where it says';
    state.isEnded = left === 0;
    next = 'size';
  };

  const takeData = (): boolean => {
    if (bytes.length < left) return false;
    state.text += bytes.subarray(0, left).toString();
    bytes = bytes.subarray(left);
    next = 'end';
    takeFrames();
    return true;
  };

  const takeFrames = () => {
    const frames = state.text.split('\n\n');
    state.text = frames.pop() ?? '';
    for (const frame of frames) takeFrame(frame);
  };

  const takeFrame = (frame: string) => {
    if (frame.startsWith(':')) {
      comments.push(frame);
      return;
    }
    const [, retry] = /^retry: (\d+)$/.exec(frame) ?? [];
    if (retry !== undefined) {
      state.retryMs = Number(retry);
      return;
    }
    const [, id, event, data] = /^id: (\d+)\nevent: (\w+)\ndata: (\{.*\})$/.exec(frame) ?? [];
    if (id === undefined || event === undefined || data === undefined) {
      state.fault = `not a frame: ${JSON.stringify(frame.slice(0, 80))}`;
      return;
    }
    events.push({ id: Number(id), event, data: JSON.parse(data) });
  };

  return {
    state,
    events,
    comments,
    get ids() {
      return events.map(({ id }) => id);
    },
    /** The answer's body when it is not a stream. */
    get body() {
      return bytes.toString();
    },
    resume: () => socket.resume(),
    pause: () => socket.pause(),
    leave: () => socket.destroy(),
    /** Waits until something is so. @throws after `ms`. */
    until(isSo: () => boolean, ms = 10_000): Promise<void> {
      return new Promise((resolve, reject) => {
        const check = () => {
          if (!isSo()) return;
          done();
          resolve();
        };
        const done = () => {
          clearTimeout(timer);
          waiting.delete(check);
        };
        const timer = setTimeout(() => {
          done();
          reject(
            new Error(`waited in vain; ${events.length} events, ${JSON.stringify(state).slice(0, 300)}`),
          );
        }, ms);
        waiting.add(check);
        check();
      });
    },
  };
}
