/** What an asset is called. */
import type { Asset } from '../../../schemas/asset.ts';
import { settings } from '../settings.ts';

/** The file's name, as far as its address tells. */
export function nameOf({ src, asset_id: id }: Pick<Asset, 'src' | 'asset_id'>): string {
  const last = src.split(/[?#]/)[0]?.split('/').at(-1) ?? '';
  // Uploads have names that nobody can guess, or read.
  const isOurs = src.startsWith(`${settings.baseUrl}/uploads/`);
  return isOurs || last === '' ? `Upload ${id.slice(4, 10)}` : safeDecode(last);
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (!(cause instanceof URIError)) throw cause;
    return text;
  }
}
