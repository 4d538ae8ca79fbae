/** The group commit by itself: what an owner takes for true, and what it does not. */
import t from 'tap';
import { type BatchMemory, type BatchPorts, processBatch } from '../../src/actors/batch.ts';
import { newDocument } from '../../src/actors/kind.ts';
import type { Command } from '../../src/bus/read.ts';
import { createBareKind } from '../../src/simulation/bare-kind.ts';
import type { ActorDocument } from '../../src/store/actors.ts';

const noMemory = (): BatchMemory => ({
  documents: new Map(),
  lastTs: new Map(),
  boundTs: new Map(),
  passed: new Map(),
});

/** A door that is opened when it is closed, and takes no notice of it when it is open; and where it is stored. */
function createDoor() {
  const stored = new Map<string, ActorDocument>();
  let loads = 0;
  const kind = createBareKind(
    'door',
    {
      initial: () => ({ snapshot: { value: 'closed', context: {} }, actions: [], timers: [] }),
      step: ({ value, context }, { type }) => ({
        snapshot: { value: type === 'OPEN' ? 'open' : type === 'CLOSE' ? 'closed' : value, context },
        actions: [],
        timers: [],
      }),
    },
    {
      async load(ids) {
        loads += 1;
        return ids.flatMap((id) => stored.get(id) ?? []).map((one) => structuredClone(one));
      },
      async write(writes) {
        const isFenced = writes.some(({ before, next }) => stored.get(next._id)?.version !== before.version);
        for (const { next } of isFenced ? [] : writes) stored.set(next._id, structuredClone(next));
        return !isFenced;
      },
      due: async () => [],
      unstarted: async () => [],
      async *touchedSince() {
        // Nobody asks.
      },
    },
  );
  stored.set('d1', newDocument(kind, { id: 'd1', project: 'p1', input: undefined, ts: 1 }));
  const ports: BatchPorts = {
    kinds: new Map([[kind.name, kind]]),
    publishAll: async () => undefined,
    subjects: { fact: () => 'fact', work: () => 'work' },
    now: () => 1_000,
    onTimers: () => undefined,
    onRefused: (_, cause) => t.fail('no message is refused', { cause }),
  };
  return { stored, ports, state: () => stored.get('d1')?.state, loads: () => loads };
}

let seq = 0;
function message(type: string): Command {
  seq += 1;
  return {
    seq,
    ts: 1_000,
    partition: 0,
    project: 'p1',
    kind: 'door',
    id: 'd1',
    message: { type },
    pending: 0,
  };
}

t.test('a document that was moved on behind its owner is believed for one message at most', async (t) => {
  const { stored, ports, state } = createDoor();
  const memory = noMemory();
  await processBatch([message('OPEN')], memory, ports);
  t.equal(state(), 'open');
  // What its former owner had under way arrives only now; its message is lost with the stream it came from.
  const before = stored.get('d1');
  if (before) stored.set('d1', { ...before, version: before.version + 1, state: 'closed' });
  const closed = stored.get('d1');
  if (closed) closed.machine = { ...closed.machine, value: 'closed' };

  await processBatch([message('OPEN')], memory, ports);
  t.equal(state(), 'closed', 'its owner takes it to be open');
  await processBatch([message('OPEN')], memory, ports);
  t.equal(state(), 'open', 'and looks before it says so again');
});

t.test('a document is loaded once for all the messages that change it', async (t) => {
  const { ports, state, loads } = createDoor();
  const memory = noMemory();
  await processBatch([message('OPEN'), message('OPEN'), message('CLOSE')], memory, ports);
  await processBatch([message('OPEN'), message('OPEN')], memory, ports);
  await processBatch([message('LOCK'), message('CLOSE')], memory, ports);
  t.equal(state(), 'closed');
  t.equal(loads(), 1, 'its writes have compared it with what is stored');
  await processBatch([message('CLOSE')], memory, ports);
  await processBatch([message('OPEN')], memory, ports);
  t.equal(state(), 'open');
  t.equal(loads(), 2);
});
