/**
 * A model of NATS as the runtime uses it: three streams that store a message once by its id, readers in stream order,
 * a queue of work that comes again, plain messages that may be lost.
 *
 * What a process sends arrives in the order in which it was sent, late or never; between processes there is no order.
 */
import { webhookFacts } from '../../schemas/envelope.ts';
import type { Bus, Subscription } from '../bus/bus.ts';
import type { Outgoing, Stored } from '../bus/publisher.ts';
import type { Command } from '../bus/read.ts';
import { createSubjects } from '../bus/subjects.ts';
import type { WorkItem } from '../bus/work.ts';
import type { Audit } from './audit.ts';
import type { Faults } from './faults.ts';
import { type Host, startTs, type World } from './world.ts';

export type LoggedCommand = Omit<Command, 'message' | 'pending'> & { text: string; messageId: string };

/** What of the bus the runtime is given. */
export type ModelConnection = Pick<
  Bus,
  | 'subjects'
  | 'publish'
  | 'publishAll'
  | 'readCommands'
  | 'lastCommand'
  | 'lastCommandOf'
  | 'trimCommands'
  | 'takeWork'
  | 'reclaimWork'
  | 'onFacts'
  | 'followFacts'
  | 'send'
  | 'listen'
  | 'onReconnect'
  | 'streamsMade'
>;

const publishTimeoutMs = 1_000;
const maxLateMs = 2_500;
const maxDelayMs = 800;
const ackWaitMs = 2_500;
const followWaitMs = 2_000;
const followAgainMs = 500;
const readAtOnce = 512;
/** Streams that are made anew begin so far above every position. */
const restartGap = 1_000;
const maxStreamsGoneMs = 1_500;

type Link = {
  host: Host;
  isCut: boolean;
  isDeaf: boolean;
  isClosed: boolean;
  /** When the last message that was sent arrives: the next ones come after it. */
  arrival: number;
  /** What is sent in this moment is lost. */
  lostAt: number;
  buffered: (() => void)[];
  reconnects: Set<() => void>;
};

type Reader = { link: Link; wake(): void };
type Listener = { link: Link; onMessage(body: unknown): void };
type FactListener = { link: Link; event: string; onFact(fact: unknown): void };
type Taker = { link: Link; effect: string; held: number; count: number; onWork(item: WorkItem): void };
type Piece = { seq: number; effect: string; text: string; deliveries: number; taker: Taker | undefined };
type Member = { link: Link; onFacts(facts: unknown[]): Promise<void> };
type Told = { text: string; times: number; member: Member | undefined };

export type ModelBus = ReturnType<typeof createModelBus>;

export type ModelBusOptions = {
  partitions: number;
  /** Highest stored position: the streams begin above it when they are made anew. */
  lastPosition(): number;
  /** What becomes of a command on its way to its reader. */
  onRead(command: Omit<LoggedCommand, 'text' | 'messageId'>, message: Command['message']): Command['message'];
  onLost(lastSeq: number): void;
};

export function createModelBus(
  world: World,
  faults: Faults,
  audit: Audit,
  { partitions, lastPosition, onRead, onLost }: ModelBusOptions,
) {
  const subjects = createSubjects('', partitions);
  const commands: LoggedCommand[] = [];
  let lastSeq = 0;
  let known = new Map<string, number>();
  let areGone = false;
  let made = 1;
  /** Every start so far: streams that are made twice from the same positions must not share sequences. */
  let startedAt = 0;
  let readers: Reader[] = [];
  const listeners = new Map<string, Listener[]>();
  let factListeners: FactListener[] = [];
  let takers: Taker[] = [];
  const pieces = new Map<number, Piece>();
  let members: Member[] = [];
  let told = new Map<number, Told>();
  let factSeq = 0;
  let workSeq = 0;

  const latency = (): number =>
    faults.strikes('delayed') ? world.between(20, maxDelayMs) : world.between(1, 3);

  const isReachable = ({ host, isCut, isClosed }: Link): boolean => !isCut && !isClosed && !host.isDead;

  // ── Streams ───────────────────────────────────────────────────────────────────────────────────

  const store = (message: Outgoing, text: string): Stored => {
    const [first = '', second = '', third = '', fourth = ''] = message.subject.split('.');
    if (first === 'evt') for (const one of factListeners) tellLive(one, fourth || third, text);
    const before = known.get(message.id);
    const isAgain = before !== undefined;
    if (before !== undefined && !faults.strikes('duplicated')) return { seq: before, duplicate: true };
    world.note(`${message.subject} ${message.id}`);
    const seq = first === 'c' ? addCommand(message, text) : addOther(first, second, message, text, isAgain);
    known.set(message.id, seq);
    return { seq, duplicate: false };
  };

  const addCommand = ({ subject, id: messageId }: Outgoing, text: string): number => {
    const [, project = '', kind = '', id = ''] = subject.split('.');
    lastSeq += 1;
    const command = {
      seq: lastSeq,
      ts: startTs + world.now,
      partition: partitionOf(project, partitions),
      project,
      kind,
      id,
      text,
      messageId,
    };
    commands.push(command);
    audit.onCommand(command);
    for (const reader of readers) reader.wake();
    return lastSeq;
  };

  const addOther = (
    first: string,
    effect: string,
    message: Outgoing,
    text: string,
    isAgain: boolean,
  ): number => {
    if (first === 'work') {
      audit.onWork(message);
      workSeq += 1;
      pieces.set(workSeq, { seq: workSeq, effect, text, deliveries: 0, taker: undefined });
      offerWork();
      return workSeq;
    }
    audit.onFact(message, isAgain);
    factSeq += 1;
    const event = message.subject.split('.')[3] ?? '';
    if (webhookFacts.includes(event)) told.set(factSeq, { text, times: 0, member: undefined });
    tellFollowers();
    return factSeq;
  };

  const partOf = (of: ReadonlySet<number>, after: number): LoggedCommand[] => {
    const found: LoggedCommand[] = [];
    for (let place = commands.length - 1; place >= 0; place -= 1) {
      const command = commands[place];
      if (!command || command.seq <= after) break;
      if (of.has(command.partition)) found.push(command);
    }
    return found.reverse();
  };

  // ── Work ──────────────────────────────────────────────────────────────────────────────────────

  const offerWork = (): void => {
    const waiting = [...pieces.values()].filter(({ taker }) => taker === undefined);
    if (faults.strikes('workReordered')) waiting.reverse();
    for (const piece of waiting) {
      const free = takers.filter(
        ({ effect, count, held, link }) => effect === piece.effect && count < held && isReachable(link),
      );
      const taker = world.pick(free);
      if (taker) giveWork(piece, taker);
    }
  };

  const giveWork = (piece: Piece, taker: Taker): void => {
    piece.taker = taker;
    piece.deliveries += 1;
    taker.count += 1;
    const { deliveries } = piece;
    let keptAt = world.now;
    let isHeld = true;
    const isMine = () =>
      pieces.get(piece.seq) === piece && piece.deliveries === deliveries && piece.taker === taker;
    const letGo = () => {
      if (isHeld) taker.count -= 1;
      isHeld = false;
    };
    const putBack = () => {
      if (!isMine()) return;
      piece.taker = undefined;
      offerWork();
    };
    const look = () => {
      if (!isMine()) return;
      if (world.now - keptAt >= ackWaitMs) putBack();
      else world.after(keptAt + ackWaitMs - world.now, undefined, look);
    };
    world.after(ackWaitMs, undefined, look);
    if (faults.strikes('workAgain')) world.after(world.between(10, maxLateMs), undefined, putBack);
    const { link } = taker;
    toServer(link, (isThere) => {
      // Delivered to a process that is gone meanwhile: its wait runs out.
      if (!isThere) return;
      world.after(latency(), link.host, () =>
        taker.onWork({
          body: JSON.parse(piece.text),
          seq: piece.seq,
          deliveries,
          keep: () =>
            toServer(link, () => {
              keptAt = world.now;
            }),
          done() {
            letGo();
            return asked(link, () => {
              if (isMine()) pieces.delete(piece.seq);
              offerWork();
            });
          },
          back() {
            letGo();
            toServer(link, putBack);
          },
          forget: letGo,
        }),
      );
    });
  };

  // ── Facts ─────────────────────────────────────────────────────────────────────────────────────

  const tellLive = ({ link, event, onFact }: FactListener, published: string, text: string): void => {
    if (event !== published || !isReachable(link)) return;
    world.after(latency(), link.host, () => onFact(JSON.parse(text)));
  };

  const tellFollowers = (): void => {
    for (const one of told.values()) {
      if (one.member) continue;
      const member = world.pick(members.filter(({ link }) => isReachable(link)));
      if (member) tell(one, member);
    }
  };

  const tell = (one: Told, member: Member): void => {
    one.member = member;
    one.times += 1;
    const { times } = one;
    const of = told;
    const again = () => {
      if (of !== told || one.times !== times || ![...told.values()].includes(one)) return;
      one.member = undefined;
      tellFollowers();
    };
    const confirm = () => {
      for (const [seq, other] of of) if (other === one) of.delete(seq);
    };
    world.after(followWaitMs, undefined, again);
    const { link } = member;
    world.after(latency(), link.host, () => {
      member.onFacts([JSON.parse(one.text)]).then(
        () => toServer(link, confirm),
        () => world.after(followAgainMs, undefined, again),
      );
    });
  };

  // ── The way to the server ─────────────────────────────────────────────────────────────────────

  /** In the order of sending. What cannot be sent now is sent when the connection is there again. */
  const toServer = (link: Link, effect: (isThere: boolean) => void): void => {
    link.arrival = Math.max(link.arrival, world.now + latency());
    world.after(link.arrival - world.now, undefined, () => {
      if (!link.host.isHeard()) effect(false);
      else if (link.isCut) link.buffered.push(() => effect(true));
      else effect(true);
    });
  };

  /** Sends something and waits for what the server says. */
  const asked = <Answer>(link: Link, effect: () => Answer): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const { host } = link;
      const givenUp = world.after(publishTimeoutMs, host, () => reject(new Error('TIMEOUT')));
      toServer(link, (isThere) => {
        if (!isThere || areGone) return;
        const answer = effect();
        world.after(latency(), host, () => {
          if (link.isCut) return;
          givenUp.isCancelled = true;
          resolve(answer);
        });
      });
    });

  const publish = (link: Link, message: Outgoing): Promise<Stored> =>
    new Promise((resolve, reject) => {
      const { host } = link;
      if (link.isClosed) {
        reject(new Error('CONNECTION_CLOSED'));
        return;
      }
      const text = JSON.stringify(message.body);
      const givenUp = world.after(publishTimeoutMs, host, () => reject(new Error('TIMEOUT')));
      // What was sent behind it in the same moment goes the same way.
      if (faults.strikes('publishLost')) link.lostAt = world.now;
      if (link.lostAt === world.now) return;
      if (faults.strikes('publishLate'))
        link.arrival = Math.max(link.arrival, world.now + world.between(publishTimeoutMs, maxLateMs));
      const isUnconfirmed = faults.strikes('publishUnconfirmed');
      toServer(link, (isThere) => {
        if (!isThere || areGone) return;
        const stored = store(message, text);
        world.after(latency(), host, () => {
          if (isUnconfirmed || link.isCut) return;
          givenUp.isCancelled = true;
          resolve(stored);
        });
      });
    });

  const send = (link: Link, name: string, body: unknown): void => {
    if (!isReachable(link)) return;
    for (const { link: to, onMessage } of listeners.get(name) ?? []) {
      if (!isReachable(to) || (to.isDeaf && to !== link) || faults.strikes('heartbeatLost')) continue;
      world.after(latency(), to.host, () => onMessage(body));
    }
  };

  const read = (
    link: Link,
    of: ReadonlySet<number>,
    after: number,
    onCommand: (command: Command) => boolean,
  ) => {
    let cursor = after;
    let isPaused = false;
    let isScheduled = false;
    let isStopped = false;
    const take = () => {
      isScheduled = false;
      if (isStopped || isPaused || !isReachable(link)) return;
      const waiting = partOf(of, cursor);
      for (const [n, { text, messageId: _, ...rest }] of waiting.slice(0, readAtOnce).entries()) {
        cursor = rest.seq;
        const message = onRead(rest, JSON.parse(text));
        isPaused = !onCommand({ ...rest, message, pending: waiting.length - n - 1 });
        if (isPaused) return;
      }
      if (waiting.length > readAtOnce) wake();
    };
    const wake = () => {
      if (isScheduled || isStopped) return;
      isScheduled = true;
      world.after(latency(), link.host, take);
    };
    const reader = { link, wake };
    readers.push(reader);
    wake();
    return {
      resume() {
        isPaused = false;
        wake();
      },
      async stop() {
        isStopped = true;
        readers = readers.filter((one) => one !== reader);
      },
    };
  };

  const listen = (link: Link, name: string, onMessage: (body: unknown) => void): Subscription => {
    const listener = { link, onMessage };
    listeners.set(name, [...(listeners.get(name) ?? []), listener]);
    const stop = () => {
      listeners.set(name, listeners.get(name)?.filter((one) => one !== listener) ?? []);
    };
    return { stop };
  };

  const forgetLink = (link: Link): void => {
    const isOther = (one: { link: Link }) => one.link !== link;
    takers = takers.filter(isOther);
    members = members.filter(isOther);
    factListeners = factListeners.filter(isOther);
    for (const [name, those] of listeners) listeners.set(name, those.filter(isOther));
    readers = readers.filter(isOther);
  };

  const loseStreams = (): void => {
    if (areGone) return;
    areGone = true;
    world.note('streams lost');
    onLost(lastSeq);
    commands.length = 0;
    pieces.clear();
    known = new Map();
    told = new Map();
    world.after(world.between(100, maxStreamsGoneMs), undefined, () => {
      areGone = false;
      made += 1;
      startedAt = Math.max(startedAt, lastPosition()) + restartGap;
      lastSeq = startedAt;
      world.note(`streams made again from ${lastSeq}`);
    });
  };

  return {
    subjects,
    loseStreams,

    connect(host: Host) {
      const link: Link = {
        host,
        isCut: false,
        isDeaf: false,
        isClosed: false,
        arrival: 0,
        lostAt: -1,
        buffered: [],
        reconnects: new Set(),
      };
      const bus: ModelConnection = {
        subjects,
        publish: (message) => publish(link, message),
        async publishAll(messages) {
          await Promise.all(messages.map((message) => publish(link, message)));
        },
        async readCommands(of, after, onCommand) {
          await asked(link, () => undefined);
          return read(link, new Set(of), after, onCommand);
        },
        lastCommand: () => asked(link, () => lastSeq),
        lastCommandOf: (partition) =>
          asked(link, () => commands.findLast((one) => one.partition === partition)?.seq ?? 0),
        trimCommands: (before) =>
          asked(link, () => {
            const from = commands.findIndex(({ seq }) => seq >= before);
            commands.splice(0, from < 0 ? commands.length : from);
          }),
        async takeWork(effect, held, onWork) {
          const taker: Taker = { link, effect, held, count: 0, onWork };
          await asked(link, () => {
            takers.push(taker);
            offerWork();
          });
          return {
            async stop() {
              takers = takers.filter((one) => one !== taker);
            },
          };
        },
        reclaimWork: (effects) =>
          asked(link, () => {
            for (const piece of pieces.values()) if (effects.includes(piece.effect)) piece.taker = undefined;
            offerWork();
          }),
        onFacts(_project, _id, event, onFact) {
          const listener: FactListener = { link, event, onFact: (fact) => onFact(fact, '') };
          factListeners.push(listener);
          return {
            stop() {
              factListeners = factListeners.filter((one) => one !== listener);
            },
          };
        },
        async followFacts(_name, _events, onFacts) {
          const member = { link, onFacts };
          await asked(link, () => {
            members.push(member);
            tellFollowers();
          });
          return {
            async stop() {
              members = members.filter((one) => one !== member);
            },
          };
        },
        send: (name, body) => send(link, name, body),
        listen: (name, onMessage) => listen(link, name, onMessage),
        onReconnect(call) {
          link.reconnects.add(call);
          return { stop: () => link.reconnects.delete(call) };
        },
        streamsMade: () => asked(link, () => String(made)),
      };
      const wakeAll = () => {
        for (const reader of readers) if (reader.link === link) reader.wake();
        offerWork();
        tellFollowers();
      };
      return {
        bus,
        setDeaf(isDeaf: boolean) {
          link.isDeaf = isDeaf;
        },
        cut() {
          link.isCut = true;
        },
        heal() {
          link.isCut = false;
          const late = link.buffered;
          link.buffered = [];
          for (const arrive of late) arrive();
          for (const call of link.reconnects) call();
          wakeAll();
        },
        /** The process has ended. */
        close() {
          link.isClosed = true;
          forgetLink(link);
        },
      };
    },

    /** Whether nothing waits any more. */
    isIdle: (): boolean => !areGone && pieces.size === 0 && told.size === 0,
    lastSeq: () => lastSeq,
    /** Which streams there are: others after a loss. */
    streamsMade: () => String(made),
    /** Whether a partition has commands beyond a position. */
    hasBeyond: (partition: number, position: number): boolean =>
      commands.some((one) => one.partition === partition && one.seq > position),
  };
}

/** The partition that nats-server computes for a token: FNV-1a. */
function partitionOf(project: string, partitions: number): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(project)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash % partitions;
}
