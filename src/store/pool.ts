/** What the connections to MongoDB are doing, counted by what the driver tells of them. */
import type { MongoClient } from 'mongodb';

/** `waiting`: operations that wait for a connection. The rest are totals. */
export type PoolStats = {
  size: number;
  inUse: number;
  waiting: number;
  created: number;
  failedWaits: number;
  lost: number;
};

/** To be called before the first operation. */
export function watchPool(client: MongoClient): () => PoolStats {
  const stats: PoolStats = { size: 0, inUse: 0, waiting: 0, created: 0, failedWaits: 0, lost: 0 };
  client.on('connectionCreated', () => {
    stats.size += 1;
    stats.created += 1;
  });
  client.on('connectionClosed', ({ reason }) => {
    stats.size -= 1;
    if (reason === 'error') stats.lost += 1;
  });
  client.on('connectionCheckOutStarted', () => {
    stats.waiting += 1;
  });
  client.on('connectionCheckedOut', () => {
    stats.waiting -= 1;
    stats.inUse += 1;
  });
  client.on('connectionCheckOutFailed', () => {
    stats.waiting -= 1;
    stats.failedWaits += 1;
  });
  client.on('connectionCheckedIn', () => {
    stats.inUse -= 1;
  });
  return () => ({ ...stats });
}
