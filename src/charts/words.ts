/** The machines' messages, delays and stages in the words that their drawings use. */
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import type { DeliveryMessage } from '../../schemas/delivery-messages.ts';

/** What a transition is to a reader: work going on, something gone wrong, a wait that is over. */
export type LineKind = 'step' | 'failure' | 'wait';

/** `where`: told beneath the drawing, as a rule for those states, instead of as lines in it. */
type Told = { words: string; kind?: LineKind; where?: string };

/** `guards`: names of the transition's guards. An earlier transition of the same message had another. */
type Telling = string | ((guards: readonly string[]) => Told);

export type ChartWords = {
  title: string;
  messages: Record<string, Telling>;
  /** By the name of the machine's delay. */
  delays: Record<string, (guards: readonly string[]) => Told>;
  /** What a composite state is for, by its path. */
  states: Record<string, string>;
};

export const assetWords: ChartWords = {
  title: 'The life of an asset',
  messages: {
    START: 'start',
    REGENERATE: 'regenerate',
    CANCEL: 'cancel',
    FAIL: () => ({ words: 'given up by an operator', where: 'Until it has ended' }),
    HURRY: () => ({ words: 'hurried by an operator, who need not wait', where: 'While retrying' }),
    ERASE: 'erase',
    WORK_STARTED: 'a worker began',
    SOURCE_FETCHED: (guards) =>
      guards.includes('hasVision')
        ? { words: 'an image described before', where: 'From source' }
        : { words: 'image fetched' },
    VISION_COMPLETED: (guards) => ({ words: guards.includes('isLoop') ? 'described: a loop' : 'not a loop' }),
    SUBMITTED: (guards) => ({
      words: guards.includes('isCurrent') ? 'submitted' : 'late submission, called off or followed',
    }),
    OUTPUT_READY: 'output there',
    CLIP_COMPLETED: 'clip kept',
    STORED: 'stored',
    WORK_FAILED: (guards) => ({
      words: guards.includes('mayRetry') ? 'failed, may pass' : 'failed for good',
      kind: 'failure',
    }),
    RESUME: 'asked again when its worker died',
    RECONCILE: 'checked on, and asked again',
  } satisfies Record<AssetMessage['type'], Telling>,
  delays: {
    retryDelay: () => ({ words: 'after the wait', kind: 'wait' }),
    stallAfter: () => ({ words: 'stalled', kind: 'failure' }),
    visionTimeout: outOfTime,
    videoTimeout: outOfTime,
    mergeTimeout: outOfTime,
  },
  states: {
    'pending.source': 'get the image',
    'pending.vision': 'look at it',
    'pending.stage1': 'the way out',
    'pending.stage2': 'the way back',
    'pending.single': 'one clip',
    'pending.merge': 'join both',
    'pending.storing': 'keep it',
  },
};

export const deliveryWords: ChartWords = {
  title: 'The life of a webhook delivery',
  messages: {
    START: 'start',
    DELIVERED: 'answered 2xx',
    ATTEMPT_FAILED: (guards) => ({
      words: guards.includes('mayRetry') ? 'failed, attempts left' : 'failed, none left',
      kind: 'failure',
    }),
    REDELIVER: 'redeliver',
    FORWARD: 'a new URL',
    CANCEL: 'cancel',
  } satisfies Record<DeliveryMessage['type'], Telling>,
  delays: { retryDelay: () => ({ words: 'after the wait', kind: 'wait' }) },
  states: {},
};

/** @throws {Error} for a message or delay that nobody has put into words */
export function tell(
  words: ChartWords,
  event: string,
  guards: readonly string[],
): Told & Required<Pick<Told, 'kind'>> {
  const delay = /^xstate\.after\.([^.]+)\./.exec(event)?.[1];
  const telling = delay === undefined ? words.messages[event] : words.delays[delay];
  if (telling === undefined) throw new Error(`no words for ${event}`);
  const told = typeof telling === 'string' ? { words: telling } : telling(guards);
  return { kind: 'step', ...told };
}

function outOfTime(guards: readonly string[]): Told {
  return { words: guards.includes('mayRepeat') ? 'out of time, may repeat' : 'out of time', kind: 'failure' };
}
