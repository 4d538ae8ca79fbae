/**
 * The transition table of the asset machine: every state meets every message, once as the answer to the present
 * work and once as one that is too old.
 */
import t from 'tap';
import type { StateValueFrom } from 'xstate';
import { createAssetMachine } from '../../machines/asset.ts';
import type { AssetMessage } from '../../schemas/asset-messages.ts';
import {
  createWalk,
  loopPath,
  type MessageType,
  messageOf,
  options,
  type Walk,
} from '../fixtures/asset-messages.ts';

type Path<Value> = Value extends string
  ? Value
  : Value extends object
    ? { [Key in keyof Value & string]: `${Key}.${Path<Value[Key]>}` }[keyof Value & string]
    : never;
/** `pending` and `pending.vision` count as values, too: only what has nothing inside is a state of its own. */
type Leaf<One extends string, All extends string = One> = One extends string
  ? [Extract<All, `${One}.${string}`>] extends [never]
    ? One
    : never
  : never;
type State = Leaf<Path<StateValueFrom<ReturnType<typeof createAssetMachine>>>>;

// A new state or message does not compile until it is decided here.
const table: Record<State, Record<MessageType, State>> = {
  'new': {
    START: 'pending.source.fetching',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'new',
    ERASE: 'erased',
    WORK_STARTED: 'new',
    SOURCE_FETCHED: 'new',
    VISION_COMPLETED: 'new',
    SUBMITTED: 'new',
    OUTPUT_READY: 'new',
    CLIP_COMPLETED: 'new',
    STORED: 'new',
    WORK_FAILED: 'new',
    RESUME: 'new',
    RECONCILE: 'new',
  },
  'pending.source.fetching': {
    START: 'pending.source.fetching',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.source.fetching',
    ERASE: 'erased',
    WORK_STARTED: 'pending.source.fetching',
    SOURCE_FETCHED: 'pending.vision.asked',
    VISION_COMPLETED: 'pending.source.fetching',
    SUBMITTED: 'pending.source.fetching',
    OUTPUT_READY: 'pending.source.fetching',
    CLIP_COMPLETED: 'pending.source.fetching',
    STORED: 'pending.source.fetching',
    WORK_FAILED: 'pending.source.retrying',
    RESUME: 'pending.source.fetching',
    RECONCILE: 'pending.source.fetching',
  },
  'pending.source.retrying': {
    START: 'pending.source.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.source.fetching',
    ERASE: 'erased',
    WORK_STARTED: 'pending.source.retrying',
    SOURCE_FETCHED: 'pending.source.retrying',
    VISION_COMPLETED: 'pending.source.retrying',
    SUBMITTED: 'pending.source.retrying',
    OUTPUT_READY: 'pending.source.retrying',
    CLIP_COMPLETED: 'pending.source.retrying',
    STORED: 'pending.source.retrying',
    WORK_FAILED: 'pending.source.retrying',
    RESUME: 'pending.source.retrying',
    RECONCILE: 'pending.source.retrying',
  },
  'pending.vision.asked': {
    START: 'pending.vision.asked',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.vision.asked',
    ERASE: 'erased',
    WORK_STARTED: 'pending.vision.describing',
    SOURCE_FETCHED: 'pending.vision.asked',
    VISION_COMPLETED: 'pending.vision.asked',
    SUBMITTED: 'pending.vision.asked',
    OUTPUT_READY: 'pending.vision.asked',
    CLIP_COMPLETED: 'pending.vision.asked',
    STORED: 'pending.vision.asked',
    WORK_FAILED: 'pending.vision.retrying',
    RESUME: 'pending.vision.asked',
    RECONCILE: 'pending.vision.asked',
  },
  'pending.vision.describing': {
    START: 'pending.vision.describing',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.vision.describing',
    ERASE: 'erased',
    WORK_STARTED: 'pending.vision.describing',
    SOURCE_FETCHED: 'pending.vision.describing',
    VISION_COMPLETED: 'pending.stage1.submitting',
    SUBMITTED: 'pending.vision.describing',
    OUTPUT_READY: 'pending.vision.describing',
    CLIP_COMPLETED: 'pending.vision.describing',
    STORED: 'pending.vision.describing',
    WORK_FAILED: 'pending.vision.retrying',
    RESUME: 'pending.vision.describing',
    RECONCILE: 'pending.vision.describing',
  },
  'pending.vision.retrying': {
    START: 'pending.vision.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.vision.asked',
    ERASE: 'erased',
    WORK_STARTED: 'pending.vision.retrying',
    SOURCE_FETCHED: 'pending.vision.retrying',
    VISION_COMPLETED: 'pending.vision.retrying',
    SUBMITTED: 'pending.vision.retrying',
    OUTPUT_READY: 'pending.vision.retrying',
    CLIP_COMPLETED: 'pending.vision.retrying',
    STORED: 'pending.vision.retrying',
    WORK_FAILED: 'pending.vision.retrying',
    RESUME: 'pending.vision.retrying',
    RECONCILE: 'pending.vision.retrying',
  },
  'pending.stage1.submitting': {
    START: 'pending.stage1.submitting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage1.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage1.submitting',
    SOURCE_FETCHED: 'pending.stage1.submitting',
    VISION_COMPLETED: 'pending.stage1.submitting',
    SUBMITTED: 'pending.stage1.waiting',
    OUTPUT_READY: 'pending.stage1.submitting',
    CLIP_COMPLETED: 'pending.stage1.submitting',
    STORED: 'pending.stage1.submitting',
    WORK_FAILED: 'pending.stage1.retrying',
    RESUME: 'pending.stage1.submitting',
    RECONCILE: 'pending.stage1.submitting',
  },
  'pending.stage1.waiting': {
    START: 'pending.stage1.waiting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage1.waiting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage1.waiting',
    SOURCE_FETCHED: 'pending.stage1.waiting',
    VISION_COMPLETED: 'pending.stage1.waiting',
    SUBMITTED: 'pending.stage1.waiting',
    OUTPUT_READY: 'pending.stage1.copying',
    CLIP_COMPLETED: 'pending.stage2.submitting',
    STORED: 'pending.stage1.waiting',
    WORK_FAILED: 'pending.stage1.retrying',
    RESUME: 'pending.stage1.waiting',
    RECONCILE: 'pending.stage1.waiting',
  },
  'pending.stage1.copying': {
    START: 'pending.stage1.copying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage1.copying',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage1.copying',
    SOURCE_FETCHED: 'pending.stage1.copying',
    VISION_COMPLETED: 'pending.stage1.copying',
    SUBMITTED: 'pending.stage1.copying',
    OUTPUT_READY: 'pending.stage1.copying',
    CLIP_COMPLETED: 'pending.stage2.submitting',
    STORED: 'pending.stage1.copying',
    WORK_FAILED: 'pending.stage1.retrying',
    RESUME: 'pending.stage1.copying',
    RECONCILE: 'pending.stage1.copying',
  },
  'pending.stage1.retrying': {
    START: 'pending.stage1.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage1.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage1.retrying',
    SOURCE_FETCHED: 'pending.stage1.retrying',
    VISION_COMPLETED: 'pending.stage1.retrying',
    SUBMITTED: 'pending.stage1.retrying',
    OUTPUT_READY: 'pending.stage1.retrying',
    CLIP_COMPLETED: 'pending.stage1.retrying',
    STORED: 'pending.stage1.retrying',
    WORK_FAILED: 'pending.stage1.retrying',
    RESUME: 'pending.stage1.retrying',
    RECONCILE: 'pending.stage1.retrying',
  },
  'pending.stage2.submitting': {
    START: 'pending.stage2.submitting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage2.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage2.submitting',
    SOURCE_FETCHED: 'pending.stage2.submitting',
    VISION_COMPLETED: 'pending.stage2.submitting',
    SUBMITTED: 'pending.stage2.waiting',
    OUTPUT_READY: 'pending.stage2.submitting',
    CLIP_COMPLETED: 'pending.stage2.submitting',
    STORED: 'pending.stage2.submitting',
    WORK_FAILED: 'pending.stage2.retrying',
    RESUME: 'pending.stage2.submitting',
    RECONCILE: 'pending.stage2.submitting',
  },
  'pending.stage2.waiting': {
    START: 'pending.stage2.waiting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage2.waiting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage2.waiting',
    SOURCE_FETCHED: 'pending.stage2.waiting',
    VISION_COMPLETED: 'pending.stage2.waiting',
    SUBMITTED: 'pending.stage2.waiting',
    OUTPUT_READY: 'pending.stage2.copying',
    CLIP_COMPLETED: 'pending.merge.asked',
    STORED: 'pending.stage2.waiting',
    WORK_FAILED: 'pending.stage2.retrying',
    RESUME: 'pending.stage2.waiting',
    RECONCILE: 'pending.stage2.waiting',
  },
  'pending.stage2.copying': {
    START: 'pending.stage2.copying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage2.copying',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage2.copying',
    SOURCE_FETCHED: 'pending.stage2.copying',
    VISION_COMPLETED: 'pending.stage2.copying',
    SUBMITTED: 'pending.stage2.copying',
    OUTPUT_READY: 'pending.stage2.copying',
    CLIP_COMPLETED: 'pending.merge.asked',
    STORED: 'pending.stage2.copying',
    WORK_FAILED: 'pending.stage2.retrying',
    RESUME: 'pending.stage2.copying',
    RECONCILE: 'pending.stage2.copying',
  },
  'pending.stage2.retrying': {
    START: 'pending.stage2.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.stage2.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.stage2.retrying',
    SOURCE_FETCHED: 'pending.stage2.retrying',
    VISION_COMPLETED: 'pending.stage2.retrying',
    SUBMITTED: 'pending.stage2.retrying',
    OUTPUT_READY: 'pending.stage2.retrying',
    CLIP_COMPLETED: 'pending.stage2.retrying',
    STORED: 'pending.stage2.retrying',
    WORK_FAILED: 'pending.stage2.retrying',
    RESUME: 'pending.stage2.retrying',
    RECONCILE: 'pending.stage2.retrying',
  },
  'pending.single.submitting': {
    START: 'pending.single.submitting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.single.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.single.submitting',
    SOURCE_FETCHED: 'pending.single.submitting',
    VISION_COMPLETED: 'pending.single.submitting',
    SUBMITTED: 'pending.single.waiting',
    OUTPUT_READY: 'pending.single.submitting',
    CLIP_COMPLETED: 'pending.single.submitting',
    STORED: 'pending.single.submitting',
    WORK_FAILED: 'pending.single.retrying',
    RESUME: 'pending.single.submitting',
    RECONCILE: 'pending.single.submitting',
  },
  'pending.single.waiting': {
    START: 'pending.single.waiting',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.single.waiting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.single.waiting',
    SOURCE_FETCHED: 'pending.single.waiting',
    VISION_COMPLETED: 'pending.single.waiting',
    SUBMITTED: 'pending.single.waiting',
    OUTPUT_READY: 'pending.single.copying',
    CLIP_COMPLETED: 'pending.storing.writing',
    STORED: 'pending.single.waiting',
    WORK_FAILED: 'pending.single.retrying',
    RESUME: 'pending.single.waiting',
    RECONCILE: 'pending.single.waiting',
  },
  'pending.single.copying': {
    START: 'pending.single.copying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.single.copying',
    ERASE: 'erased',
    WORK_STARTED: 'pending.single.copying',
    SOURCE_FETCHED: 'pending.single.copying',
    VISION_COMPLETED: 'pending.single.copying',
    SUBMITTED: 'pending.single.copying',
    OUTPUT_READY: 'pending.single.copying',
    CLIP_COMPLETED: 'pending.storing.writing',
    STORED: 'pending.single.copying',
    WORK_FAILED: 'pending.single.retrying',
    RESUME: 'pending.single.copying',
    RECONCILE: 'pending.single.copying',
  },
  'pending.single.retrying': {
    START: 'pending.single.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.single.submitting',
    ERASE: 'erased',
    WORK_STARTED: 'pending.single.retrying',
    SOURCE_FETCHED: 'pending.single.retrying',
    VISION_COMPLETED: 'pending.single.retrying',
    SUBMITTED: 'pending.single.retrying',
    OUTPUT_READY: 'pending.single.retrying',
    CLIP_COMPLETED: 'pending.single.retrying',
    STORED: 'pending.single.retrying',
    WORK_FAILED: 'pending.single.retrying',
    RESUME: 'pending.single.retrying',
    RECONCILE: 'pending.single.retrying',
  },
  'pending.merge.asked': {
    START: 'pending.merge.asked',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.merge.asked',
    ERASE: 'erased',
    WORK_STARTED: 'pending.merge.merging',
    SOURCE_FETCHED: 'pending.merge.asked',
    VISION_COMPLETED: 'pending.merge.asked',
    SUBMITTED: 'pending.merge.asked',
    OUTPUT_READY: 'pending.merge.asked',
    CLIP_COMPLETED: 'pending.merge.asked',
    STORED: 'pending.merge.asked',
    WORK_FAILED: 'pending.merge.retrying',
    RESUME: 'pending.merge.asked',
    RECONCILE: 'pending.merge.asked',
  },
  'pending.merge.merging': {
    START: 'pending.merge.merging',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.merge.merging',
    ERASE: 'erased',
    WORK_STARTED: 'pending.merge.merging',
    SOURCE_FETCHED: 'pending.merge.merging',
    VISION_COMPLETED: 'pending.merge.merging',
    SUBMITTED: 'pending.merge.merging',
    OUTPUT_READY: 'pending.merge.merging',
    CLIP_COMPLETED: 'pending.storing.writing',
    STORED: 'pending.merge.merging',
    WORK_FAILED: 'pending.merge.retrying',
    RESUME: 'pending.merge.merging',
    RECONCILE: 'pending.merge.merging',
  },
  'pending.merge.retrying': {
    START: 'pending.merge.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.merge.asked',
    ERASE: 'erased',
    WORK_STARTED: 'pending.merge.retrying',
    SOURCE_FETCHED: 'pending.merge.retrying',
    VISION_COMPLETED: 'pending.merge.retrying',
    SUBMITTED: 'pending.merge.retrying',
    OUTPUT_READY: 'pending.merge.retrying',
    CLIP_COMPLETED: 'pending.merge.retrying',
    STORED: 'pending.merge.retrying',
    WORK_FAILED: 'pending.merge.retrying',
    RESUME: 'pending.merge.retrying',
    RECONCILE: 'pending.merge.retrying',
  },
  'pending.storing.writing': {
    START: 'pending.storing.writing',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.storing.writing',
    ERASE: 'erased',
    WORK_STARTED: 'pending.storing.writing',
    SOURCE_FETCHED: 'pending.storing.writing',
    VISION_COMPLETED: 'pending.storing.writing',
    SUBMITTED: 'pending.storing.writing',
    OUTPUT_READY: 'pending.storing.writing',
    CLIP_COMPLETED: 'pending.storing.writing',
    STORED: 'ready',
    WORK_FAILED: 'pending.storing.retrying',
    RESUME: 'pending.storing.writing',
    RECONCILE: 'pending.storing.writing',
  },
  'pending.storing.retrying': {
    START: 'pending.storing.retrying',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'failed',
    HURRY: 'pending.storing.writing',
    ERASE: 'erased',
    WORK_STARTED: 'pending.storing.retrying',
    SOURCE_FETCHED: 'pending.storing.retrying',
    VISION_COMPLETED: 'pending.storing.retrying',
    SUBMITTED: 'pending.storing.retrying',
    OUTPUT_READY: 'pending.storing.retrying',
    CLIP_COMPLETED: 'pending.storing.retrying',
    STORED: 'pending.storing.retrying',
    WORK_FAILED: 'pending.storing.retrying',
    RESUME: 'pending.storing.retrying',
    RECONCILE: 'pending.storing.retrying',
  },
  ready: {
    START: 'ready',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'ready',
    FAIL: 'ready',
    HURRY: 'ready',
    ERASE: 'erased',
    WORK_STARTED: 'ready',
    SOURCE_FETCHED: 'ready',
    VISION_COMPLETED: 'ready',
    SUBMITTED: 'ready',
    OUTPUT_READY: 'ready',
    CLIP_COMPLETED: 'ready',
    STORED: 'ready',
    WORK_FAILED: 'ready',
    RESUME: 'ready',
    RECONCILE: 'ready',
  },
  failed: {
    START: 'failed',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'failed',
    FAIL: 'failed',
    HURRY: 'failed',
    ERASE: 'erased',
    WORK_STARTED: 'failed',
    SOURCE_FETCHED: 'failed',
    VISION_COMPLETED: 'failed',
    SUBMITTED: 'failed',
    OUTPUT_READY: 'failed',
    CLIP_COMPLETED: 'failed',
    STORED: 'failed',
    WORK_FAILED: 'failed',
    RESUME: 'failed',
    RECONCILE: 'failed',
  },
  cancelled: {
    START: 'cancelled',
    REGENERATE: 'pending.source.fetching',
    CANCEL: 'cancelled',
    FAIL: 'cancelled',
    HURRY: 'cancelled',
    ERASE: 'erased',
    WORK_STARTED: 'cancelled',
    SOURCE_FETCHED: 'cancelled',
    VISION_COMPLETED: 'cancelled',
    SUBMITTED: 'cancelled',
    OUTPUT_READY: 'cancelled',
    CLIP_COMPLETED: 'cancelled',
    STORED: 'cancelled',
    WORK_FAILED: 'cancelled',
    RESUME: 'cancelled',
    RECONCILE: 'cancelled',
  },
  erased: {
    START: 'erased',
    REGENERATE: 'erased',
    CANCEL: 'erased',
    FAIL: 'erased',
    HURRY: 'erased',
    ERASE: 'erased',
    WORK_STARTED: 'erased',
    SOURCE_FETCHED: 'erased',
    VISION_COMPLETED: 'erased',
    SUBMITTED: 'erased',
    OUTPUT_READY: 'erased',
    CLIP_COMPLETED: 'erased',
    STORED: 'erased',
    WORK_FAILED: 'erased',
    RESUME: 'erased',
    RECONCILE: 'erased',
  },
};

const stage1 = loopPath.slice(0, 4);
const stage2 = loopPath.slice(0, 7);
const merge = loopPath.slice(0, 10);
const storing = loopPath.slice(0, 12);
const single = { options: { ...options, mode: 'animate-in', loopMode: 'none' } } as const;

/** How each state is reached; attempt 1 everywhere but in `retrying`, where the second is to come. */
const at: Record<State, () => Walk> = {
  new: () => createWalk(),
  'pending.source.fetching': () => createWalk().follow('START'),
  'pending.source.retrying': () => createWalk().follow('START', 'WORK_FAILED'),
  'pending.vision.asked': () => createWalk().follow('START', 'SOURCE_FETCHED'),
  'pending.vision.describing': () => createWalk().follow('START', 'SOURCE_FETCHED', 'WORK_STARTED'),
  'pending.vision.retrying': () => createWalk().follow('START', 'SOURCE_FETCHED', 'WORK_FAILED'),
  'pending.stage1.submitting': () => createWalk().follow(...stage1),
  'pending.stage1.waiting': () => createWalk().follow(...stage1, 'SUBMITTED'),
  'pending.stage1.copying': () => createWalk().follow(...stage1, 'SUBMITTED', 'OUTPUT_READY'),
  'pending.stage1.retrying': () => createWalk().follow(...stage1, 'WORK_FAILED'),
  'pending.stage2.submitting': () => createWalk().follow(...stage2),
  'pending.stage2.waiting': () => createWalk().follow(...stage2, 'SUBMITTED'),
  'pending.stage2.copying': () => createWalk().follow(...stage2, 'SUBMITTED', 'OUTPUT_READY'),
  'pending.stage2.retrying': () => createWalk().follow(...stage2, 'WORK_FAILED'),
  'pending.single.submitting': () => createWalk(single).follow(...stage1),
  'pending.single.waiting': () => createWalk(single).follow(...stage1, 'SUBMITTED'),
  'pending.single.copying': () => createWalk(single).follow(...stage1, 'SUBMITTED', 'OUTPUT_READY'),
  'pending.single.retrying': () => createWalk(single).follow(...stage1, 'WORK_FAILED'),
  'pending.merge.asked': () => createWalk().follow(...merge),
  'pending.merge.merging': () => createWalk().follow(...merge, 'WORK_STARTED'),
  'pending.merge.retrying': () => createWalk().follow(...merge, 'WORK_FAILED'),
  'pending.storing.writing': () => createWalk().follow(...storing),
  'pending.storing.retrying': () => createWalk().follow(...storing, 'WORK_FAILED'),
  ready: () => createWalk().follow(...loopPath),
  failed: () => {
    const walk = createWalk().follow('START');
    walk.fail({ retry: 'permanent', code: 'source_too_large' });
    return walk;
  },
  cancelled: () => createWalk().follow('START', 'CANCEL'),
  erased: () => createWalk().follow('START', 'ERASE'),
};

const states = Object.keys(table) as State[];
const types = Object.keys(messageOf) as MessageType[];

t.test('the table knows every state of the machine', async (t) => {
  const leaves = [...leavesOf(createAssetMachine().root)].map((path) => path.join('.'));
  t.strictSame(leaves.sort(), [...states].sort());
});

t.test('every state meets every message', async (t) => {
  for (const state of states) {
    for (const type of types) {
      const walk = at[state]();
      t.equal(walk.state, state, `reaches ${state}`);
      walk.send(type);
      t.equal(walk.state, table[state][type], `${state} meets ${type}`);
    }
  }
});

t.test('an answer to older work changes nothing, sets no timer and publishes nothing', async (t) => {
  const isAnswer = (type: MessageType) =>
    'attempt' in messageOf[type]({ run: 1, stage: 'vision', attempt: 1 }, 1);
  for (const state of states) {
    for (const type of types.filter(isAnswer)) {
      for (const [name, make] of Object.entries(outdated)) {
        const walk = at[state]();
        const before = JSON.stringify(walk.snapshot);
        const change = walk.apply(make(walk, type));
        t.equal(JSON.stringify(walk.snapshot), before, `${state} passes over ${type} of another ${name}`);
        t.strictSame([change.facts, change.set, change.cancelled], [[], [], []]);
        // A prediction that nobody follows is cancelled, whenever it is heard of.
        t.strictSame(
          change.work.map(({ effect }) => effect),
          type === 'SUBMITTED' ? ['cancelVideo'] : [],
        );
      }
    }
  }
});

t.test(
  'a message that repeats, or has come too early, publishes nothing where it changes nothing',
  async (t) => {
    const asksAgain: MessageType[] = ['RESUME', 'RECONCILE', 'SUBMITTED'];
    for (const state of states) {
      for (const type of types) {
        if (table[state][type] !== state || asksAgain.includes(type) || type === 'REGENERATE') continue;
        const walk = at[state]();
        const before = JSON.stringify(walk.snapshot);
        const change = walk.send(type);
        t.equal(JSON.stringify(walk.snapshot), before, `${state}, ${type}`);
        t.strictSame([change.facts, change.work, change.set], [[], [], []], `${state}, ${type}`);
      }
    }
  },
);

t.test('a regenerate of any run but the next is passed over in every state', async (t) => {
  for (const state of states) {
    for (const run of [-1, 0, 2]) {
      const walk = at[state]();
      const before = JSON.stringify(walk.snapshot);
      const change = walk.send('REGENERATE', { run: walk.context.run + run });
      t.equal(JSON.stringify(walk.snapshot), before, state);
      t.strictSame([change.facts, change.work, change.set], [[], [], []]);
    }
  }
});

const outdated: Record<string, (walk: Walk, type: MessageType) => AssetMessage> = {
  run: (walk, type) => messageOf[type]({ ...walk.ref(), run: walk.context.run - 1 }, walk.now + 1),
  stage: (walk, type) => {
    const stage = walk.context.stage === 'vision' ? 'merge' : 'vision';
    return messageOf[type]({ ...walk.ref(), stage }, walk.now + 1);
  },
  attempt: (walk, type) =>
    messageOf[type]({ ...walk.ref(), attempt: walk.context.attempt + 1 }, walk.now + 1),
};

type Node = { states: Record<string, Node> };

function* leavesOf(node: Node, path: string[] = []): Generator<string[]> {
  const inner = Object.entries(node.states);
  if (inner.length === 0) yield path;
  for (const [name, child] of inner) yield* leavesOf(child, [...path, name]);
}
