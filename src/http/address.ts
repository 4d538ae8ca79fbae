/** Address of the client of a request: see src/auth/client-address.ts. */
import { clientAddress } from '../auth/client-address.ts';
import type { Exchange } from './exchange.ts';
import type { Head } from './head.ts';
import type { Services } from './services.ts';

/** Empty once the client has gone. */
export function addressOf(
  { res, isOpen }: Exchange,
  { forwardedFor }: Pick<Head, 'forwardedFor'>,
  { trustedProxies }: Pick<Services, 'trustedProxies'>,
): string {
  if (!isOpen) return '';
  const peer = Buffer.from(res.getRemoteAddressAsText()).toString('latin1');
  return clientAddress(peer, forwardedFor, trustedProxies);
}
