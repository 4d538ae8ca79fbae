/** What a publisher does with answers that are late, lost or a refusal: played by subscribers of a real server. */
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection } from 'nats';
import t, { type Test } from 'tap';
import { createPublisher } from '../../src/bus/publisher.ts';
import { testServers, uniqueName } from '../fixtures/servers.ts';
import { until } from '../fixtures/until.ts';

const { natsUrl } = await testServers();
const streamOf = () => 'one';
const beingStored =
  '{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"},"stream":"S","seq":0}';

async function raw(t: Test): Promise<NatsConnection> {
  const connection = await connect({ servers: natsUrl });
  t.teardown(() => connection.close());
  return connection;
}

t.test('what is not stored is told of: nobody takes it, it is too large, nobody answers', async (t) => {
  const connection = await raw(t);
  const publisher = createPublisher(connection, { timeoutMs: 300, patienceMs: 0, streamOf });
  t.teardown(publisher.stop);
  const prefix = uniqueName('publisher');
  const message = { subject: `${prefix}.none`, id: 'one', body: {} };
  await t.rejects(publisher.publish(message), { code: '503' });
  await t.rejects(publisher.publishTogether([message, message]), { code: '503' });
  const large = 'x'.repeat(2 * 1024 * 1024);
  await t.rejects(publisher.publish({ ...message, body: large }), { code: 'MAX_PAYLOAD_EXCEEDED' });
  await t.rejects(publisher.publish({ ...message, id: 'two\r\nlines: 1' }), /line break/);

  const silent = connection.subscribe(`${prefix}.silent`, { callback: () => undefined });
  const begun = performance.now();
  await t.rejects(publisher.publish({ ...message, subject: `${prefix}.silent` }), { code: 'TIMEOUT' });
  t.ok(performance.now() - begun >= 300);
  silent.unsubscribe();

  const refusing = connection.subscribe(`${prefix}.refuses`, {
    callback: (_, request) =>
      request.respond('{"error":{"code":400,"description":"no room"},"stream":"S","seq":0}'),
  });
  refusing.unsubscribe(1);
  await t.rejects(publisher.publish({ ...message, subject: `${prefix}.refuses` }), { message: 'no room' });
});

t.test('while nobody takes messages, or answers, they are sent again in order under their ids', async (t) => {
  const connection = await raw(t);
  const publisher = createPublisher(connection, { timeoutMs: 500, patienceMs: 20_000, streamOf });
  t.teardown(publisher.stop);
  const subject = uniqueName('away');
  const [one, two, three] = ['one', 'two', 'three'].map((id) => ({ subject, id, body: { id } }));
  if (!one || !two || !three) throw new Error('three messages are sent');
  const waiting = [publisher.publish(one), publisher.publishTogether([two, three])];
  await connection.flush();
  const ids: string[] = [];
  let isLost = true;
  connection.subscribe(subject, {
    callback: (_, request) => {
      const id = request.headers?.get('Nats-Msg-Id') ?? '';
      ids.push(id);
      // The answer to the first try of one is lost: it and what follows it come again.
      if (id === 'two' && isLost) isLost = false;
      else if (id === 'one' && ids.filter((one) => one === id).length === 1) request.respond(beingStored);
      else request.respond(`{"seq":${ids.length}}`);
    },
  });
  await Promise.all(waiting);
  t.strictSame(
    ids.filter((id) => id !== 'one'),
    ['two', 'three', 'two', 'three'],
  );
  t.strictSame(
    ids.filter((id) => id === 'one'),
    ['one', 'one'],
    'one that a replicated stream is storing already is asked for again',
  );

  const hasty = createPublisher(connection, { timeoutMs: 500, patienceMs: 60, streamOf });
  t.teardown(hasty.stop);
  await t.rejects(hasty.publish({ subject: uniqueName('never'), id: 'four', body: {} }), { code: '503' });
});

t.test(
  'what gathers behind others is one batch, and one without its confirmation goes message by message',
  async (t) => {
    const connection = await raw(t);
    const publisher = createPublisher(connection, { timeoutMs: 500, patienceMs: 0, streamOf });
    t.teardown(publisher.stop);
    const subject = uniqueName('gathers');
    const heard: { id: string; batch: string; place: string; isLast: boolean; answer(): void }[] = [];
    let seq = 0;
    connection.subscribe(subject, {
      callback: (_, request) => {
        const header = (name: string) => request.headers?.get(name) ?? '';
        heard.push({
          id: header('Nats-Msg-Id'),
          batch: header('Nats-Batch-Id'),
          place: header('Nats-Batch-Sequence'),
          isLast: header('Nats-Batch-Commit') === '1',
          answer() {
            seq += 1;
            if (request.reply) request.respond(`{"seq":${seq}}`);
          },
        });
      },
    });
    const publish = (from: number, count: number) =>
      Array.from({ length: count }, (_, n) =>
        publisher.publish({ subject, id: `m${from + n}`, body: { n: from + n } }),
      );
    const ids = (from: number, count: number) => Array.from({ length: count }, (_, n) => `m${from + n}`);
    const first = publish(0, 20);
    await until(() => heard.length === 16);
    const behind = publish(20, 40);
    t.equal(publisher.stats().pending, 60);
    await until(() => heard.length === 16 + 44);
    t.strictSame(
      heard.map(({ id }) => id),
      ids(0, 60),
      'in order',
    );
    const batch = heard.slice(16);
    t.ok(batch[0]?.batch && batch.every(({ batch: one }) => one === batch[0]?.batch), 'one batch');
    t.strictSame(
      batch.map(({ place }) => place),
      ids(1, 44).map((id) => id.slice(1)),
    );
    t.strictSame(
      batch.filter(({ isLast }) => isLast).map(({ id }) => id),
      ['m59'],
    );
    for (const { answer } of heard.splice(0, 16)) answer();
    seq += 43;
    const last = heard.splice(0, 44).at(-1);
    last?.answer();
    const stored = await Promise.all([...first, ...behind]);
    t.strictSame(
      stored.map((one) => one.seq),
      stored.map((_, n) => n + 1),
      'each learns where it is',
    );

    const lost = publish(60, 40);
    await until(() => heard.length === 80);
    const again = heard.splice(0).slice(40);
    t.strictSame(
      again.map(({ id, batch: one }) => ({ id, one })),
      ids(60, 40).map((id) => ({ id, one: '' })),
    );
    for (const { answer } of again) answer();
    await Promise.all(lost);
    t.equal(publisher.stats().pending, 0);

    const left = publish(100, 60).map((one) => t.rejects(one, { code: 'CONNECTION_CLOSED' }));
    await until(() => heard.length === 60);
    left.push(...publish(160, 5).map((one) => t.rejects(one, { code: 'CONNECTION_CLOSED' })));
    publisher.stop();
    await Promise.all(left);
    await delay(50);
    t.equal(heard.length, 60, 'nothing is sent again after the end');
  },
);

t.test('while nobody answers, what waits for its turn is given up as what was sent', async (t) => {
  const connection = await raw(t);
  const publisher = createPublisher(connection, { timeoutMs: 300, patienceMs: 0, streamOf });
  t.teardown(publisher.stop);
  const subject = uniqueName('deaf');
  connection.subscribe(subject, { callback: () => undefined });
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: 30 }, (_, n) =>
      t.rejects(publisher.publish({ subject, id: `d${n}`, body: {} }), { code: 'TIMEOUT' }),
    ),
  );
  t.ok(performance.now() - begun < 2_000);
});

t.test('what waits for its confirmation when the bus is closed fails', async (t) => {
  const connection = await raw(t);
  const publisher = createPublisher(connection, { timeoutMs: 60_000, patienceMs: 60_000, streamOf });
  const subject = uniqueName('closed');
  connection.subscribe(subject, { callback: () => undefined });
  const waiting = publisher.publishTogether([{ subject, id: 'one', body: {} }]);
  const refused = t.rejects(waiting, { code: 'CONNECTION_CLOSED' });
  await connection.flush();
  publisher.stop();
  await refused;
});
