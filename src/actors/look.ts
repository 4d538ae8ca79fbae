/** Answers operators who ask what this worker does: who holds its slots, and who waits for one. */
import type { Bus, Subscription } from '../bus/bus.ts';
import type { Slots } from './slots.ts';

/** Subjects of the question and of its answers. */
export type LookSubjects = { look: string; seen(ask: string): string };

export function answerLooks(
  bus: Pick<Bus, 'listen' | 'send'>,
  { look, seen }: LookSubjects,
  workerId: string,
  slots: Pick<Slots, 'look'>,
): Subscription {
  return bus.listen(look, (body) => {
    const { ask } = body as { ask?: unknown };
    // It becomes part of a subject.
    if (typeof ask === 'string' && /^[\w-]{1,64}$/.test(ask))
      bus.send(seen(ask), { worker: workerId, slots: slots.look() });
  });
}
