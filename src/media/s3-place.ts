/**
 * Where objects are in S3: the bucket, the folder in it and the endpoint that a STORAGE_URL names, and the address
 * of each object there.
 *
 *   s3://<bucket>[/<folder>]?region=<region>[&endpoint=<URL>][&addressing=path|virtual]
 */
import { checkPrefix } from './storage.ts';

export type S3Place = {
  bucket: string;
  region: string;
  /** What keys begin with in the bucket: empty, or ending in a slash. */
  prefix: string;
  /** Address of the bucket, without a slash at its end. */
  bucketUrl: string;
};

/** For a message to the operator. */
export const acceptedS3Url =
  's3://<bucket>/<folder>?region=<region>&endpoint=<http or https URL>&addressing=<path or virtual>';

/**
 * Reads a STORAGE_URL. `region` may be left out with an endpoint (us-east-1), the endpoint with a region (that of
 * Amazon). Buckets are named in the path with an endpoint of one's own, in the host name at Amazon's.
 *
 * @throws {TypeError} for another form. It shows nothing of what was given.
 */
export function parseS3Url(text: string): S3Place {
  const url = new URL(text);
  const { hostname: bucket, searchParams: params } = url;
  check(url.protocol === 's3:' && url.hash === '' && url.port === '', 'not an s3:// address');
  check(url.username === '' && url.password === '', 'credentials have settings of their own');
  check(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket), 'not the name of a bucket');
  const names = [...params.keys()];
  check(new Set(names).size === names.length, 'a parameter is given twice');
  check(
    names.every((name) => ['region', 'endpoint', 'addressing'].includes(name)),
    'an unknown parameter',
  );

  const endpoint = params.get('endpoint') ?? undefined;
  const region = params.get('region') ?? (endpoint === undefined ? '' : defaultRegion);
  check(/^[a-z0-9-]{1,64}$/.test(region), 'a region is needed');
  // A dot in the bucket's name makes one label too many for the certificate of Amazon's host names.
  const usual = endpoint === undefined && !bucket.includes('.') ? 'virtual' : 'path';
  const addressing = params.get('addressing') ?? usual;
  check(addressing === 'path' || addressing === 'virtual', 'addressing is path or virtual');

  const prefix = url.pathname.replace(/^\/+/, '').replace(/\/*$/, '/').replace(/^\/$/, '');
  checkPrefix(prefix);
  return {
    bucket,
    region,
    prefix,
    bucketUrl: addressOf(bucket, parseEndpoint(endpoint ?? `https://s3.${region}.amazonaws.com`), addressing),
  };
}

/** The address of an object, or with a query one of the bucket itself. */
export function addressIn({ bucketUrl, prefix }: S3Place, target: { key: string } | { query: string }): URL {
  return new URL('key' in target ? `${bucketUrl}/${prefix}${target.key}` : `${bucketUrl}?${target.query}`);
}

const defaultRegion = 'us-east-1';

function parseEndpoint(text: string): URL {
  const url = new URL(text);
  const isPlain = url.username + url.password + url.search + url.hash === '';
  check(/^https?:$/.test(url.protocol) && isPlain, 'the endpoint is no plain http or https URL');
  // What the signer and the store would each encode in a way of their own.
  check(/^[\w./-]*$/.test(url.pathname), 'the endpoint has an unusual path');
  return url;
}

function addressOf(bucket: string, endpoint: URL, addressing: string): string {
  const path = endpoint.pathname.replace(/\/+$/, '');
  if (addressing === 'path') return `${endpoint.origin}${path}/${bucket}`;
  return `${endpoint.protocol}//${bucket}.${endpoint.host}${path}`;
}

function check(isFit: boolean, otherwise: string): void {
  if (!isFit) throw new TypeError(otherwise);
}
