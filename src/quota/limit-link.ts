/** Connects the shared rate limits of this process to those of the others, over plain messages of the bus. */
import { randomBytes } from 'node:crypto';
import type { Bus } from '../bus/bus.ts';
import { tickMs } from './limit-members.ts';
import type { RateLimit } from './rate-limit.ts';
import { createSharedRateLimit, type LimitMessage } from './shared-rate-limit.ts';

const subject = 'stat.limits';

export function linkRateLimit(bus: Pick<Bus, 'send' | 'listen' | 'connected'>): RateLimit & { stop(): void } {
  const limit = createSharedRateLimit({
    id: randomBytes(9).toString('base64url'),
    now: () => performance.now(),
    wallTs: Date.now,
    isConnected: bus.connected,
    send: (message) => bus.send(subject, message),
    defer: setImmediate,
  });
  const subscription = bus.listen(subject, (body) => limit.receive(body as LimitMessage));
  // The first beat at once: until it has come back nothing is known of the others.
  limit.tick();
  const timer = setInterval(limit.tick, tickMs);
  return {
    take: limit.take,
    stop() {
      clearInterval(timer);
      limit.leave();
      subscription.stop();
    },
  };
}
