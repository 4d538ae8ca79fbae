/** A durable reader of a stream: what ends it, a lost server say, makes it open again and go on where it was. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerConfig, ConsumerMessages } from 'nats';
import type { Server } from './bus.ts';
import { patiently } from './patient.ts';

export type Reading = {
  stream: string;
  /** Of the consumer, which is made when it is not there and belongs to all who read under its name. */
  config: Partial<ConsumerConfig> & { durable_name: string };
  /** Another consumer has taken the place of the one that was read, which was lost with its stream. */
  onReplaced?(): void;
  /** Messages that the client holds for the reader. */
  maxMessages: number;
  /** Takes messages until they end; it must return when `signal` is aborted. */
  take(messages: ConsumerMessages): Promise<void>;
  onInterrupted(cause: unknown): void;
  signal: AbortSignal;
};

/** Each request for messages lives this long; after trouble the client waits about as long to ask again. */
const pullMs = 3_000;
const heartbeatMs = 1_000;
export const reopenMs = 200;

/** Messages of a consumer, `maxMessages` held by the client. They end with the bus, or with an error when it is lost. */
export async function pull(
  { stream, readers, isClosed }: Server,
  streamName: string,
  consumerName: string,
  maxMessages: number,
): Promise<ConsumerMessages> {
  const consumer = await stream.consumers.get(streamName, consumerName);
  const messages = await consumer.consume({
    max_messages: maxMessages,
    expires: pullMs,
    idle_heartbeat: heartbeatMs,
    abort_on_missing_resource: true,
  });
  readers.add(messages);
  // Closed meanwhile: the bus found nothing to end.
  if (isClosed()) void messages.close();
  return messages;
}

/** @throws when it cannot be opened at first, in half a minute; what fails afterwards is tried again until `signal` is aborted. */
export async function consume(
  server: Server,
  { stream: name, config, maxMessages, take, onInterrupted, onReplaced, signal }: Reading,
): Promise<{ close(): void; ended: Promise<void> }> {
  const { manager, restore, readers, isClosed } = server;
  let madeAt: string | undefined;

  /** The consumer, made when it is not there. Of several processes that make it, one is first. */
  const ensure = async (): Promise<void> => {
    const find = () => manager.consumers.info(name, config.durable_name);
    const make = () => manager.consumers.add(name, config);
    const { created } = await find().catch(() =>
      make().catch((cause: unknown) => find().catch(() => Promise.reject(cause))),
    );
    if (madeAt !== undefined && created !== madeAt) onReplaced?.();
    madeAt = created;
  };

  const open = async (): Promise<ConsumerMessages> => {
    await ensure();
    return pull(server, name, config.durable_name, maxMessages);
  };
  let messages: ConsumerMessages | undefined = await patiently(open);

  const hasEnded = () => signal.aborted || isClosed();
  const forget = (): void => {
    if (messages) readers.delete(messages);
    messages = undefined;
  };

  const run = async (): Promise<void> => {
    while (!hasEnded()) {
      try {
        messages ??= await open();
        // Closed meanwhile: `close` found nothing to end.
        if (hasEnded()) void messages.close();
        else await take(messages);
      } catch (err) {
        if (hasEnded()) return;
        onInterrupted(err);
        await restore(err);
      }
      forget();
      if (!hasEnded()) await delay(reopenMs);
    }
  };
  const ended = run();

  return {
    /** Ends the messages that are being taken. Not waited for: that ends only for somebody who still iterates. */
    close(): void {
      void messages?.close();
    },
    ended,
  };
}
