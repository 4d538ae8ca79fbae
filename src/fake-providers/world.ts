/** The predictions of a stand-in: how they go on with time, what they cost, whom they call back. */
import { createHash, createHmac, createPrivateKey, randomUUID, sign } from 'node:crypto';

export type Provider = 'replicate' | 'fal' | 'runway' | 'luma';

export type Prediction = {
  id: string;
  provider: Provider;
  prompt: string;
  model: string;
  input: Record<string, unknown>;
  faults: string[];
  callbackUrl: string | undefined;
  createdTs: number;
  endsTs: number;
  state: 'running' | 'succeeded' | 'failed' | 'cancelled';
  isPaid: boolean;
  reads: number;
};

export const replicateSecret = 'whsec_cmVwbGljYXRlLXRlc3Qtc2VjcmV0LTMyLWJ5dGVzISE=';

/** The private key of callbacks as fal signs them, from a seed of 32 bytes of 7. */
const falKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  format: 'der',
  type: 'pkcs8',
});
export const falPublicKey = {
  kty: 'OKP',
  crv: 'Ed25519',
  x: '6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw',
};

const failing = new Set(['moderated-out', 'internal', 'no-code', 'bad-input']);

/** @param bodyOf what a provider's callback about a prediction holds */
export function createWorld(runMs: number, bodyOf: (prediction: Prediction) => unknown) {
  const predictions: Prediction[] = [];
  const timers = new Set<NodeJS.Timeout>();
  const callbacks: { id: string; status: number }[] = [];
  const later = (ms: number, run: () => void) => {
    const timer = setTimeout(() => {
      timers.delete(timer);
      run();
    }, ms);
    timers.add(timer);
  };

  const post = async (prediction: Prediction, kind = ''): Promise<void> => {
    if (prediction.callbackUrl === undefined) return;
    const body = JSON.stringify(bodyOf(prediction));
    const headers = signedHeaders(prediction, body, kind);
    const sent = kind === 'altered' ? body.replace('"', ' "') : body;
    const answer = await fetch(prediction.callbackUrl, { method: 'POST', headers, body: sent }).catch(
      () => undefined,
    );
    callbacks.push({ id: prediction.id, status: answer?.status ?? 0 });
  };
  const call = (prediction: Prediction): void => {
    const has = (fault: string) => prediction.faults.includes(fault);
    if (has('callback-none')) return;
    const kinds = ['forged', 'stale', 'altered', 'two-signatures'].filter((kind) => has(`callback-${kind}`));
    void post(prediction, kinds[0]);
    if (has('callback-twice')) void post(prediction);
  };

  const end = (prediction: Prediction): void => {
    if (prediction.state !== 'running') return;
    const isFailing = prediction.faults.some((fault) => failing.has(fault));
    prediction.state = isFailing ? 'failed' : 'succeeded';
    prediction.isPaid = !isFailing;
    call(prediction);
  };

  return {
    predictions,
    callbacks,
    async create(
      about: Pick<Prediction, 'provider' | 'prompt' | 'model' | 'input' | 'faults' | 'callbackUrl'>,
    ) {
      const now = Date.now();
      const prediction: Prediction = {
        ...about,
        id: randomUUID(),
        createdTs: now,
        endsTs: now + runMs,
        state: 'running',
        isPaid: false,
        reads: 0,
      };
      predictions.push(prediction);
      if (!about.faults.includes('stuck')) later(runMs, () => end(prediction));
      if (about.faults.includes('callback-early')) await post(prediction);
      // Replicate and Luma tell of the beginning as well.
      else if (about.provider === 'replicate' || about.provider === 'luma') later(20, () => call(prediction));
      return prediction;
    },
    find: (provider: Provider, id: string) =>
      predictions.find((one) => one.id === id && one.provider === provider),
    /** Answers what a provider says to a cancel. */
    cancel(prediction: Prediction): 'cancelled' | 'late' | 'unknown' {
      if (prediction.faults.includes('cancel-404')) return 'unknown';
      if (prediction.state !== 'running') return 'late';
      if (prediction.faults.includes('cancel-ignored')) return 'cancelled';
      prediction.state = 'cancelled';
      prediction.isPaid = true;
      call(prediction);
      return 'cancelled';
    },
    stop() {
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

function signedHeaders({ provider, id }: Prediction, body: string, kind: string): Record<string, string> {
  const seconds = String(Math.floor(Date.now() / 1000) - (kind === 'stale' ? 600 : 0));
  const headers = { 'content-type': 'application/json' };
  if (provider === 'fal') {
    const digest = createHash('sha256').update(body).digest('hex');
    const message = Buffer.from([id, 'user_1', seconds, digest].join('\n'));
    const signature = kind === 'forged' ? '00'.repeat(64) : sign(null, message, falKey).toString('hex');
    return {
      ...headers,
      'x-fal-webhook-request-id': id,
      'x-fal-webhook-user-id': 'user_1',
      'x-fal-webhook-timestamp': seconds,
      'x-fal-webhook-signature': signature,
    };
  }
  if (provider !== 'replicate') return headers;
  const key = Buffer.from(replicateSecret.slice('whsec_'.length), 'base64');
  const right = `v1,${createHmac('sha256', key).update(`msg_${id}.${seconds}.${body}`).digest('base64')}`;
  const wrong = `v1,${Buffer.alloc(32).toString('base64')}`;
  const signature = { forged: wrong, 'two-signatures': `${wrong} ${right}` }[kind] ?? right;
  return {
    ...headers,
    'webhook-id': `msg_${id}`,
    'webhook-timestamp': seconds,
    'webhook-signature': signature,
  };
}
