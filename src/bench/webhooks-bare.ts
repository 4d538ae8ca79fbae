/**
 * The baseline of `bench webhooks`: the least that a delivery which is not lost can do, without machine, order,
 * schedule, fairness or recovery.
 *
 * A fact is read from the stream, its record written (majority, journalled), signed, sent over kept connections,
 * written as delivered, and told as a fact of its own; all in groups as large as they come.
 */
import { Pool } from 'undici';
import type { Bus } from '../bus/bus.ts';
import type { ActorDocument } from '../store/actors.ts';
import type { Store } from '../store/client.ts';
import { signedHeaders } from '../webhooks/sign.ts';

/** Facts of this name go to the baseline alone. */
export const bareEvent = 'bare_ready';

type Fact = { asset_id: string; project_id: string; ts: number };

const durably = { ordered: false, writeConcern: { w: 'majority', journal: true } } as const;
const connections = 10;

/** Posts to `url` with the project as the last part of its path, until it is stopped. */
export async function startBareDeliveries({ store, bus }: { store: Store; bus: Bus }, url: string) {
  const { collection } = store.deliveries.actors;
  const { pathname, origin } = new URL(url);
  const pools = new Map<string, Pool>();
  const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;

  const post = async ({ asset_id, project_id }: Fact, body: string): Promise<void> => {
    const pool = pools.get(project_id) ?? new Pool(origin, { connections });
    pools.set(project_id, pool);
    const path = `${pathname}/${project_id}`;
    const headers = signedHeaders([secret], `evt_${asset_id}`, body, Date.now());
    const answer = await pool.request({ method: 'POST', path, headers, body });
    await answer.body.dump();
  };

  const deliver = async (facts: Fact[]): Promise<void> => {
    const made = facts.map(toRecord);
    await collection.bulkWrite(
      made.map((document) => ({ insertOne: { document } })),
      durably,
    );
    await Promise.all(facts.map((fact) => post(fact, JSON.stringify(fact))));
    const delivered = facts.map(({ asset_id }) => ({
      updateOne: {
        filter: { _id: `bare_${asset_id}`, version: 1 },
        update: {
          $set: { version: 2, state: 'delivered', 'machine.value': 'delivered', updatedTs: Date.now() },
        },
      },
    }));
    await collection.bulkWrite(delivered, durably);
    await bus.publishAll(
      facts.map(({ asset_id, project_id }) => ({
        subject: bus.subjects.fact(project_id, asset_id, 'webhook_delivered'),
        id: `bare_${asset_id}`,
        body: { event: 'webhook_delivered', ts: Date.now(), asset_id, project_id, attempt: 1 },
      })),
    );
  };

  const following = await bus.followFacts('bare', [bareEvent], (facts) => deliver(facts as Fact[]));
  return async () => {
    await following.stop();
    await Promise.all([...pools.values()].map((pool) => pool.close()));
  };
}

function toRecord(fact: Fact): ActorDocument {
  return {
    _id: `bare_${fact.asset_id}`,
    project: fact.project_id,
    partition: 0,
    version: 1,
    seq: 0,
    machine: { version: 1, value: 'sending', context: { body: JSON.stringify(fact), made: 1 } },
    state: 'sending',
    enteredTs: fact.ts,
    timers: [],
    dueTs: null,
    facts: [{ seq: 0, n: 0, ts: fact.ts, event: 'webhook_sent', attempt: 1 }],
    work: [],
    createdTs: fact.ts,
    updatedTs: fact.ts,
    index: { assetId: fact.asset_id },
  };
}
