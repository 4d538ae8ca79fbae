/**
 * Who is asking: the address of the peer, or of the last hop that no trusted proxy vouches for. What stands in
 * X-Forwarded-For before that hop was written by the client and proves nothing.
 */
import { BlockList, isIP } from 'node:net';

export type TrustedProxies = { has(address: string): boolean };

/** @param ranges addresses or CIDR ranges. @throws {TypeError} naming the one that is neither. */
export function createTrustedProxies(ranges: readonly string[]): TrustedProxies {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits, ...rest] = range.split('/');
    const family = familyOf(address);
    const prefix = bits === undefined ? maxBits(family) : Number(bits);
    const isPrefix = bits === undefined || /^\d{1,3}$/.test(bits);
    if (!family || rest.length > 0 || !isPrefix || prefix > maxBits(family)) {
      throw new TypeError(`not an address range: ${range}`);
    }
    list.addSubnet(address, prefix, family);
  }
  return {
    has: (address) => {
      const family = familyOf(address);
      return family !== undefined && list.check(address, family);
    },
  };
}

/**
 * The address a request comes from, in normal form.
 *
 * @param peer of the connection. @param forwardedFor the header, empty without one.
 */
export function clientAddress(peer: string, forwardedFor: string, trusted: TrustedProxies): string {
  let address = normaliseAddress(peer) ?? peer;
  const hops = forwardedFor.split(',').slice(-maxHops).reverse();
  for (const hop of hops) {
    if (!trusted.has(address)) return address;
    const before = normaliseAddress(hop.trim());
    // A trusted proxy wrote something that is no address: it is the last that is known.
    if (before === undefined) return address;
    address = before;
  }
  return address;
}

/** One form for one address: IPv4-mapped as IPv4, IPv6 shortest. undefined for what is none. */
export function normaliseAddress(text: string): string | undefined {
  const family = isIP(text);
  if (family === 4) return text;
  if (family !== 6 || text.includes('%')) return undefined;
  const address = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(address) ?? [];
  if (high === undefined || low === undefined) return address;
  const bytes = [Number.parseInt(high, 16), Number.parseInt(low, 16)].flatMap((half) => [
    half >> 8,
    half & 255,
  ]);
  return bytes.join('.');
}

/** What to count an address under: IPv6 by its first 64 bits, which one subscriber has to himself. */
export function addressKey(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = '', tail] = address.split('::');
  const before = head.split(':').filter((group) => group !== '');
  const after = (tail ?? '').split(':').filter((group) => group !== '');
  const zeros = Array<string>(Math.max(0, ipv6Groups - before.length - after.length)).fill('0');
  const groups = [...before, ...zeros, ...after];
  return `${groups.slice(0, ipv6Groups / 2).join(':')}::/64`;
}

export function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

const ipv6Groups = 8;
const maxHops = 32;

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const family = isIP(address);
  if (family === 0) return undefined;
  return family === 4 ? 'ipv4' : 'ipv6';
}

function maxBits(family: 'ipv4' | 'ipv6' | undefined): number {
  return family === 'ipv4' ? 32 : 128;
}
