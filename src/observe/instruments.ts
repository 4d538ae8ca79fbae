/** Every number that is counted as things happen, by name. What is looked up when somebody reads is in sources.ts. */
import { ErrorCode } from '../../schemas/errors.ts';
import { DeliveryFailure } from '../../schemas/events.ts';
import type { Registry } from '../metrics/registry.ts';

/** Seconds: of a commit, of what a request waits for, of work. */
const shortBounds = [0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2, 10];
const workBounds = [0.05, 0.25, 1, 2.5, 5, 15, 60, 300];
const stateBounds = [0.1, 1, 5, 15, 60, 300, 1_800, 7_200];
const sizeBounds = [1, 4, 16, 64, 256, 512];

export type Instruments = ReturnType<typeof createInstruments>;

/** What is counted rarely is told of from the start: a rise from nothing to one is seen only by who was told of nothing. */
export function createInstruments(registry: Registry) {
  const instruments = createAll(registry);
  for (const outcome of ['delivered', ...DeliveryFailure.options]) instruments.webhookAttempts.of(outcome);
  for (const outcome of ['ready', 'cancelled']) instruments.runsEnded.of(outcome, '');
  for (const code of ErrorCode.options) instruments.runsEnded.of('failed', code);
  return instruments;
}

function createAll(registry: Registry) {
  return {
    steps: registry
      .counter({ name: 'assets_steps_total', help: 'Steps of machines that were stored and published.' })
      .of(),
    stepLatency: registry
      .histogram({
        name: 'assets_step_latency_seconds',
        help: 'Time from the arrival of a command until its step was stored and published.',
        bounds: shortBounds,
      })
      .of(),
    batchSize: registry
      .histogram({
        name: 'assets_batch_commands',
        help: 'Commands that were committed in one group.',
        bounds: sizeBounds,
      })
      .of(),
    batchDuration: registry
      .histogram({
        name: 'assets_batch_duration_seconds',
        help: 'Time that a group took to be stored and published.',
        bounds: shortBounds,
      })
      .of(),
    transitions: registry.counter({
      name: 'assets_transitions_total',
      help: 'Machines that entered a state.',
      labels: ['kind', 'state'],
    }),
    stateDuration: registry.histogram({
      name: 'assets_state_duration_seconds',
      help: 'Time that machines spent in a state, when they left it.',
      labels: ['kind', 'state'],
      bounds: stateBounds,
    }),
    runsEnded: registry.counter({
      name: 'assets_runs_ended_total',
      help: 'Runs that ended, by outcome and error code.',
      labels: ['outcome', 'error_code'],
    }),
    effects: registry.counter({
      name: 'assets_effects_total',
      help: 'Effects that ended, by outcome: done, cancelled, or the error code.',
      labels: ['effect', 'outcome'],
    }),
    effectDuration: registry.histogram({
      name: 'assets_effect_duration_seconds',
      help: 'Time that effects took, without their wait for a slot.',
      labels: ['effect'],
      bounds: workBounds,
    }),
    slotWait: registry.histogram({
      name: 'assets_effect_wait_seconds',
      help: 'Time that effects waited for a slot, by class of slots.',
      labels: ['slot'],
      bounds: workBounds,
    }),
    providerRequests: registry.counter({
      name: 'assets_provider_requests_total',
      help: 'Requests to model providers, by outcome: ok, aborted, or why it failed.',
      labels: ['provider', 'operation', 'outcome'],
    }),
    providerDuration: registry.histogram({
      name: 'assets_provider_request_duration_seconds',
      help: 'Time that model providers took to answer.',
      labels: ['provider', 'operation'],
      bounds: workBounds,
    }),
    clipDuration: registry.histogram({
      name: 'assets_provider_clip_seconds',
      help: 'Time from the submit of a clip until it was seen to be ready.',
      labels: ['provider'],
      bounds: workBounds,
    }),
    providerCost: registry.counter({
      name: 'assets_provider_cost_cents_total',
      help: 'What clips cost at their providers, in cents.',
      labels: ['provider'],
    }),
    webhookAttempts: registry.counter({
      name: 'assets_webhook_attempts_total',
      help: 'Attempts at webhook deliveries: delivered, or why it failed.',
      labels: ['outcome'],
    }),
    webhookDuration: registry
      .histogram({
        name: 'assets_webhook_attempt_duration_seconds',
        help: 'Time that endpoints took, whatever came of it.',
        bounds: workBounds,
      })
      .of(),
    crawls: registry.counter({
      name: 'assets_crawls_total',
      help: 'Brand detections and deep crawls that were asked for, by outcome.',
      labels: ['kind', 'outcome'],
    }),
    mails: registry.counter({
      name: 'assets_mails_total',
      help: 'Attempts to send a mail: sent or failed.',
      labels: ['outcome'],
    }),
  };
}
