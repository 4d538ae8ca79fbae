/** What came back from an endpoint, or why nothing did. */
import type { DeliveryFailure } from '../../../schemas/events.ts';
import type { DeliveryDetail } from '../../../schemas/webhook.ts';
import { Code } from '../ui/code.tsx';
import { Notice } from '../ui/messages.tsx';

export function Answer({ delivery }: { delivery: DeliveryDetail }) {
  const { status, response_code: code, response_body_preview: preview, failure } = delivery;
  const isGood = status === 'delivered';
  return (
    <>
      <Notice tone={isGood ? 'good' : failure ? 'bad' : 'plain'}>
        <strong>{isGood ? `Your endpoint answered ${code}.` : causeOf(failure, code)}</strong>{' '}
        {!isGood && failure && <span>{cures[failure]}</span>}
      </Notice>
      {code !== null && (
        <Code
          name={`Answer, status ${code}`}
          text={preview === null || preview === '' ? '(no body)' : preview}
        />
      )}
    </>
  );
}

/** Why an attempt failed, in a sentence. */
export function causeOf(failure: DeliveryFailure | null | undefined, code: number | null): string {
  if (!failure) return code === null ? 'Not sent yet.' : `The endpoint answered ${code}.`;
  return failure === 'status' || failure === 'redirect'
    ? `${causes[failure]} ${code ?? ''}.`
    : causes[failure];
}

const causes: Record<DeliveryFailure, string> = {
  dns: 'The name of your endpoint could not be resolved.',
  connect: 'Your endpoint did not accept the connection.',
  tls: 'The TLS handshake with your endpoint failed.',
  timeout: 'Your endpoint did not answer within 10 seconds.',
  status: 'Your endpoint answered with status',
  redirect: 'Your endpoint answered with the redirect',
  reset: 'Your endpoint closed the connection before it answered.',
  blocked_address: 'The address of your endpoint is one that we do not connect to.',
};

const cures: Record<DeliveryFailure, string> = {
  dns: 'Check the host name, and that it is public.',
  connect: 'Check that it runs, and that its firewall lets requests in.',
  tls: 'Check that its certificate is valid, complete and for this name.',
  timeout: 'Answer first, with 204 for example, and do the work afterwards.',
  status: 'Anything but 2xx counts as failed. Its answer may say why.',
  redirect: 'Redirects are not followed: save the address that it leads to.',
  reset: 'Look into its log, and that of what stands before it.',
  blocked_address: 'Private, local and reserved addresses are refused: use a public one.',
};
