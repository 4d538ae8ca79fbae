/** What the operator console is made of, each part of which takes what it needs. */
import type { ProviderStatus } from '../../schemas/operator.ts';
import type { Bus } from '../bus/bus.ts';
import type { Store } from '../store/client.ts';
import type { MachineTimes } from './states.ts';
import type { Workers } from './workers.ts';

export type ConsolePorts = {
  store: Pick<
    Store,
    | 'operatorViews'
    | 'bulkJobs'
    | 'audit'
    | 'predictions'
    | 'modelProviders'
    | 'partitions'
    | 'projects'
    | 'users'
    | 'webhooks'
  >;
  bus: Pick<
    Bus,
    'publish' | 'publishAll' | 'subjects' | 'connected' | 'lastCommand' | 'lastCommandOf' | 'describeStreams'
  >;
  workers: Workers;
  times: MachineTimes;
  /** Names of the model providers that are configured. */
  providers: readonly string[];
  providerStatus(): Promise<ProviderStatus[]>;
  newId(prefix: string): string;
  now(): number;
};
