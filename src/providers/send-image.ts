/**
 * How an image travels to a provider (wire formats 4.6): encoded anew, so that it is upright, bare of metadata and
 * within every provider's limits; then by a public address, or inside the request where none can be reached.
 */
import { EffectError } from '../../schemas/errors.ts';
import { provider as limits } from '../../schemas/limits.ts';
import { readImage, type SourceImage } from '../media/image.ts';
import type { ImageRef } from './provider.ts';

export type SendImage = {
  /** Whether the provider can read public addresses of this installation. */
  canFetch: boolean;
  /** #rrggbb behind what is transparent. */
  backdrop: string;
};

/** An address of an image that a provider can read: https, or a data URL. @throws {EffectError} as readImage. */
export async function sendImage(
  ref: ImageRef,
  { canFetch, backdrop }: SendImage,
  signal: AbortSignal,
): Promise<string> {
  const image = await readImage(await ref.read(signal), signal);
  if (canFetch && ref.publish) {
    return ref.publish(await image.jpeg({ maxSide: limits.maxImageSide, backdrop }, signal), signal);
  }
  const bytes = await smallJpeg(image, backdrop, signal);
  return `data:image/jpeg;base64,${Buffer.from(bytes).toString('base64')}`;
}

const sides = [limits.maxImageSide, 1600, 1280, 1024, 768, 512];

/** The largest of these sizes that fits into a request. */
async function smallJpeg(image: SourceImage, backdrop: string, signal: AbortSignal): Promise<Uint8Array> {
  for (const maxSide of sides) {
    const bytes = await image.jpeg({ maxSide, backdrop }, signal);
    if (bytes.byteLength <= limits.maxInlineBytes) return bytes;
  }
  throw new EffectError('vision_blocked', 'no size of the image fits into a request', {
    hint: 'The image has too much detail to be sent to the model.',
  });
}
