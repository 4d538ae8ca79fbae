/** The topics of this process: made for the first stream of a project, dropped some seconds after the last. */
import type { Clock } from './clock.ts';
import { fillGap, type GapPorts, openGap } from './gap.ts';
import { createLimiter } from './limiter.ts';
import type { Listener } from './listener.ts';
import { readGap } from './replay.ts';
import { type ReplayPorts, within } from './stored.ts';
import { addFrame, listenersOf, openTopic, type Topic, type TopicPorts } from './topic.ts';

export type TopicsPorts = TopicPorts &
  ReplayPorts & {
    onNew(topic: Topic): void;
    /** What a topic missed cannot be read: its streams must end, so that they resume. */
    onLost(topic: Topic, cause: unknown): void;
    /** Aborted when the hub stops. */
    stopping: AbortSignal;
  };

const keptMs = 5_000;
const maxFills = 32;
const maxFillMs = 60_000;

export function createTopics(ports: TopicsPorts, clock: Clock) {
  const topics = new Map<string, Topic>();
  /** How many are about to listen, by topic, and what drops a topic that nobody listens to. */
  const joining = new Map<Topic, number>();
  const idle = new Map<Topic, () => void>();
  const fills = createLimiter(maxFills, Number.POSITIVE_INFINITY);

  const drop = (topic: Topic): void => {
    idle.get(topic)?.();
    idle.delete(topic);
    topic.stop();
    if (topics.get(topic.projectId) === topic) topics.delete(topic.projectId);
  };

  const isUsed = (topic: Topic) => topic.groups.size > 0 || joining.has(topic);

  const release = (topic: Topic): void => {
    if (isUsed(topic) || topics.get(topic.projectId) !== topic) return;
    idle.get(topic)?.();
    idle.set(
      topic,
      clock.after(keptMs, () => {
        if (!isUsed(topic)) drop(topic);
      }),
    );
  };

  const giveUp = (topic: Topic, cause: unknown): void => {
    drop(topic);
    ports.onLost(topic, cause);
  };

  /** From here on the topic's facts wait: some before them may have been missed. */
  const lookForMissed = (topic: Topic): void => {
    if (topic.gap) {
      topic.gap.isWider = true;
      return;
    }
    const gap = openGap();
    const gapPorts: GapPorts = {
      read: (onHidden) => readGap(ports, clock, topic, ports.stopping, onHidden),
      lastTs: () => topic.lastTs,
      add: (frame) => addFrame(topic, frame, clock, ports.onNew),
      close() {
        topic.gap = undefined;
        topic.isReady = true;
      },
    };
    topic.gap = gap;
    topic.isReady = false;
    topic.ready = fills.run(() => within(fillGap(gap, gapPorts, clock), maxFillMs, clock));
    topic.ready.catch((cause: unknown) => giveUp(topic, cause));
  };

  return {
    /** The project's topic, to be left again: made when there is none, or when it cannot become ready. */
    join(projectId: string): Topic {
      const topic = topics.get(projectId) ?? openTopic(projectId, ports, clock, ports.onNew, lookForMissed);
      topics.set(projectId, topic);
      joining.set(topic, (joining.get(topic) ?? 0) + 1);
      return topic;
    },

    leave(topic: Topic): void {
      const left = (joining.get(topic) ?? 1) - 1;
      if (left > 0) joining.set(topic, left);
      else joining.delete(topic);
      // One that nobody got to use may never become ready: the next stream tries anew.
      if (!topic.isReady && !isUsed(topic)) drop(topic);
      else release(topic);
    },

    /** A topic has lost its last listener. */
    release,
    has: (topic: Topic) => topics.get(topic.projectId) === topic,
    listeners: (): Listener[] => [...topics.values()].flatMap((topic) => [...listenersOf(topic)]),

    listenersOf(projectId: string): Listener[] {
      const topic = topics.get(projectId);
      return topic ? [...listenersOf(topic)] : [];
    },

    /** Facts of any project may have been missed: every topic reads what is stored. */
    fillGaps(): void {
      for (const topic of [...topics.values()]) lookForMissed(topic);
    },

    get size() {
      return topics.size;
    },

    close(): void {
      for (const topic of [...topics.values()]) drop(topic);
    },
  };
}
