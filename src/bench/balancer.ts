/** One address in front of several processes: a connection goes, in turn, to one that accepts it. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Balancer = {
  url: string;
  /** Cuts every connection, and refuses new ones while it is true. */
  cut(isCut: boolean): void;
  close(): void;
};

/** @param ports of 127.0.0.1; of one process it makes a link that can be cut */
export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  const open = new Set<Socket>();
  let turn = 0;
  let isCut = false;
  const keep = (socket: Socket) => {
    open.add(socket);
    socket.setNoDelay(true);
    socket.once('close', () => open.delete(socket));
  };

  const server = createServer({ allowHalfOpen: true }, (incoming) => {
    if (isCut) return void incoming.destroy();
    keep(incoming);
    incoming.on('error', () => incoming.destroy());
    turn += 1;
    const forward = (tries: number): void => {
      const outgoing = connect({
        port: ports[(turn + tries) % ports.length] ?? 0,
        host: '127.0.0.1',
        allowHalfOpen: true,
      });
      let isConnected = false;
      keep(outgoing);
      outgoing.once('connect', () => {
        isConnected = true;
        incoming.pipe(outgoing).pipe(incoming);
        incoming.once('close', () => outgoing.destroy());
        outgoing.once('close', () => incoming.destroy());
      });
      outgoing.on('error', () => {
        if (isConnected || tries + 1 >= ports.length) incoming.destroy();
        else forward(tries + 1);
      });
    };
    forward(0);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  const destroyAll = () => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut(now) {
      isCut = now;
      if (now) destroyAll();
    },
    close() {
      server.close();
      destroyAll();
    },
  };
}
