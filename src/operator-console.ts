/** The operator console, put together: what front ends answer with, and the jobs that schedulers work off. */
import { every, systemClock } from './actors/clock.ts';
import { loadSubject } from './load.ts';
import { createActions } from './operator/actions.ts';
import { createBulkRunner } from './operator/bulk.ts';
import { createConsole, type OperatorConsole } from './operator/console.ts';
import { createStateTable } from './operator/states.ts';
import { watchWorkers } from './operator/workers.ts';
import type { Parts } from './parts.ts';
import { newId } from './store/ids.ts';

const { now } = systemClock;
const runMs = 1_000;

export function createOperatorConsole({
  config,
  opened,
  store,
  bus,
  models,
}: Pick<Parts, 'config' | 'opened' | 'store' | 'bus' | 'models'>): OperatorConsole {
  const workers = opened(watchWorkers(bus, loadSubject, now), async (one) => one.stop());
  const { pipeline, webhook, providers } = config;
  const names = [...(providers.openai ? ['openai'] : []), ...providers.video];
  return createConsole({
    store,
    bus,
    workers,
    times: { pipeline, webhook },
    providers: names,
    providerStatus: models.status,
    newId,
    now,
  });
}

/** Works off bulk jobs, one page a second; several schedulers take turns. */
export function startBulkRunner({ config, opened, store, bus, log }: Parts): void {
  const { pipeline, webhook } = config;
  const actions = createActions({ store, bus, now, table: createStateTable({ pipeline, webhook }) });
  const runner = createBulkRunner({ store, bus, actions, runnerId: newId('run'), now });
  const onError = (err: unknown) => log.error({ err }, 'a bulk job could not be gone on with');
  opened(every(systemClock, runMs, runner.step, onError), (one) => one.stop());
}
