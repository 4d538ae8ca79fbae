/** The webhook delivery as a kind of actor: what the durable runtime must know to drive its machine. */
import {
  createDeliveryMachine,
  type DeliveryContext,
  type DeliveryTimes,
  deliveryMachineVersion,
} from '../../machines/delivery.ts';
import { DeliveryMessage, deliveryKind } from '../../schemas/delivery-messages.ts';
import { webhook as limits } from '../../schemas/limits.ts';
import type { DeliveryStatus } from '../../schemas/webhook.ts';
import type { ActorDocument } from '../store/actors.ts';
import { type ActorKind, type ActorStorePort, newDocument } from './kind.ts';
import { createStepper, type StoredSnapshot } from './step.ts';

/**
 * A delivery is made by its first command and by nothing else: that is one message and one write, and a START
 * that comes again finds it there.
 *
 * @param onStored told of every delivery after its step: see sender.ts.
 */
export function createDeliveryKind(
  store: ActorStorePort,
  times: DeliveryTimes,
  onStored: (delivery: ActorDocument) => void = () => undefined,
): ActorKind {
  const kind: ActorKind = {
    name: deliveryKind,
    stepper: createStepper(createDeliveryMachine(times)),
    machineVersion: deliveryMachineVersion,
    migrate: refuseUnknownVersion,
    store,
    startMessage: { type: 'START' },
    create(message, { id, project, ts }) {
      if (message.type !== 'START') return undefined;
      const { input, payload } = Start.parse(message);
      const expiresAt = new Date(ts + limits.keptDays * dayMs);
      return { ...newDocument(kind, { id, project, input, ts }), fixed: { payload, expiresAt } };
    },
    onStored,
    publishedFact: (fact, { id, project }) => ({ ...fact, project_id: project, delivery_id: id }),
    index(snapshot) {
      const { assetId, eventType } = contextOf(snapshot);
      return { assetId, eventType };
    },
    beginsRun: (event) => event === 'webhook_dispatched',
    earlierFactsKept: limits.earlierFactsKept,
    workFields: (snapshot) => ({ plan: '', since: 0, requestId: contextOf(snapshot).requestId }),
  };
  return kind;
}

const dayMs = 86_400_000;
const [StartMessage] = DeliveryMessage.options;
/** As sent: its owner stamps the ts. */
const Start = StartMessage.omit({ ts: true });

export const contextOf = ({ context }: StoredSnapshot): DeliveryContext => context as DeliveryContext;

/** Status as clients see it (decisions 6): what is due or being sent is pending. */
export function deliveryStatusOf(state: string): DeliveryStatus {
  return state === 'sending' ? 'pending' : (state as DeliveryStatus);
}

function refuseUnknownVersion(_: StoredSnapshot, fromVersion: number): never {
  throw new Error(
    `no migration leads from version ${fromVersion} of the delivery machine to ${deliveryMachineVersion}`,
  );
}
