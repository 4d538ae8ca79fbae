/**
 * Which addresses the service connects to on a user's word (decisions 8).
 *
 * Addresses are let in by range, not kept out by list: only public unicast passes, so that a special range
 * made tomorrow is refused until this file learns it.
 */
import { BlockList, isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { blockedText } from './error.ts';

export type Judgement = { ok: true; url: URL } | { ok: false; reason: string };

export type Policy = {
  /** Judges an address by its text alone. `reason` is fit for the user. */
  judgeUrl(text: string): Judgement;
  /** Whether a name may be looked up. Lower case, as URL gives it. */
  allowsName(name: string): boolean;
  /** Whether an IPv4 or IPv6 address in any notation may be connected to. False for what is no address. */
  allowsAddress(address: string): boolean;
};

export type PolicyOptions = {
  /**
   * What the operator allows besides the public internet: address ranges (`127.0.0.0/8`), addresses, and
   * names with their subdomains (`localhost`). An allowed name still needs allowed addresses.
   */
  allow: readonly string[];
  /** Ports refused on every host: the service's own store, bus and metrics. */
  denyPorts: readonly number[];
};

/** @throws {TypeError} when an entry of `allow` is neither an address range nor a name. */
export function createPolicy({ allow, denyPorts }: PolicyOptions): Policy {
  const { ranges, names } = readAllowed(allow);

  const allowsName = (name: string) =>
    isWithin(name, names) || (isPublicName(name) && !isWithin(name, localNames));
  const allowsAddress = (address: string) => {
    if (!isIP(address)) return false;
    const plain = ipaddr.process(address);
    return ranges.check(plain.toString(), plain.kind()) || isPublicAddress(plain);
  };

  return {
    allowsName,
    allowsAddress,
    judgeUrl(text) {
      // URL drops line breaks and tabs and turns backslashes around: what it hides is judged before it.
      if (deceptiveCharacters.test(text)) return refuse('the URL holds control characters or backslashes');
      if (!URL.canParse(text)) return refuse('this is not a URL');

      const url = new URL(text);
      const flaw = findFlaw(url);
      if (flaw) return refuse(flaw);

      const host = bareHost(url.hostname);
      const isAllowed = isIP(host) ? allowsAddress(host) : allowsName(host);
      if (!isAllowed || denyPorts.includes(portOf(url))) return refuse(blockedText);
      return { ok: true, url };
    },
  };
}

/** The host of a URL without the brackets of IPv6 and without the dot that ends a full name. */
export function bareHost(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/** Whether a name means this machine (RFC 6761). */
export function isLocalhost(name: string): boolean {
  return isWithin(name, ['localhost']);
}

const schemes = new Set(['http:', 'https:']);
const localNames = ['localhost', 'local', 'internal'];
const maxNameChars = 253;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const deceptiveCharacters = /[\u0000-\u001f\u007f-\u009f\\]|^\s|\s$/;

/** A cloud platform's address for its own services, outside every special range. */
const platformAddress = '168.63.129.16';
/** All that is assigned as public IPv6: leaves out IPv4-compatible and other forms that hide an IPv4 address. */
const publicIpv6 = ipaddr.parseCIDR('2000::/3');

function refuse(reason: string): Judgement {
  return { ok: false, reason };
}

/** What is wrong with a URL besides its host. */
function findFlaw(url: URL): string | undefined {
  if (!schemes.has(url.protocol)) return 'only http and https are allowed';
  if (url.username || url.password) return 'a URL with credentials is not allowed';
  return isOpenPort(url.port) ? undefined : 'the port is not allowed';
}

/** Unprivileged ports, and the standard ones (URL leaves those of the scheme empty). */
function isOpenPort(port: string): boolean {
  return port === '' || port === '80' || port === '443' || Number(port) > 1023;
}

function portOf({ port, protocol }: URL): number {
  return Number(port) || (protocol === 'https:' ? 443 : 80);
}

function isPublicAddress(address: ipaddr.IPv4 | ipaddr.IPv6): boolean {
  if (address.range() !== 'unicast' || address.toString() === platformAddress) return false;
  return address.kind() === 'ipv4' || address.match(publicIpv6);
}

function isPublicName(name: string): boolean {
  const labels = name.split('.');
  return name.length <= maxNameChars && labels.length > 1 && labels.every((label) => label !== '');
}

function isWithin(name: string, parents: readonly string[]): boolean {
  return parents.some((parent) => name === parent || name.endsWith(`.${parent}`));
}

function readAllowed(allow: readonly string[]): { ranges: BlockList; names: string[] } {
  const ranges = new BlockList();
  const names: string[] = [];
  for (const entry of allow) {
    if (ipaddr.isValidCIDR(entry)) {
      const [address, bits] = ipaddr.parseCIDR(entry);
      ranges.addSubnet(address.toString(), bits, address.kind());
    } else if (isIP(entry)) {
      ranges.addAddress(entry, isIP(entry) === 4 ? 'ipv4' : 'ipv6');
    } else if (/^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(entry)) {
      names.push(entry.toLowerCase());
    } else {
      throw new TypeError(`neither an address range nor a name: ${entry}`);
    }
  }
  return { ranges, names };
}
