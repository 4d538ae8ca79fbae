/**
 * Source images: type by their first bytes, size by their header, pixels by sharp.
 *
 * Bytes come from strangers. The order is what keeps memory and time bounded: magic bytes, then the header's
 * size, and only then the decoder, one thread wide, line by line, with a time limit.
 */
import sharp, { type Metadata, type Sharp } from 'sharp';
import { EffectError } from '../../schemas/errors.ts';
import { source } from '../../schemas/limits.ts';

// One decoder thread per image and no cache: memory stays flat however many sources pass.
sharp.concurrency(1);
sharp.cache(false);

/** Longest decoding of one image, in seconds of wall clock. */
const decodeSeconds = 10;

/** A crop so narrow that reading only its part of the source is cheaper than scaling all of it. */
const smallShare = 0.25;

export type ImageType = 'png' | 'jpeg' | 'webp';

/** A rectangle of the upright source, in its pixels; fractions are allowed. */
export type Region = { left: number; top: number; width: number; height: number };

/** 8-bit sRGB, three bytes per pixel, rows from the top, no padding. */
export type Pixels = { data: Uint8Array; width: number; height: number };

export type SourceImage = {
  type: ImageType;
  /** Size in pixels after EXIF rotation, of the first frame. */
  width: number;
  height: number;
  hasAlpha: boolean;
  /**
   * Decodes `region` at `width` x `height` pixels, alpha laid on `backdrop` (#rrggbb).
   *
   * @throws {EffectError} `source_unsupported` when the bytes are broken, `vision_timeout` when decoding
   * takes too long. The signal's reason when it aborts.
   */
  pixels(
    wish: { region: Region; width: number; height: number; backdrop: string },
    signal: AbortSignal,
  ): Promise<Pixels>;
  /** The whole image with its alpha (four bytes per pixel), no side over `maxSide` pixels, never enlarged. */
  thumbnail(maxSide: number, signal: AbortSignal): Promise<Pixels>;
  /** The whole image as jpg bytes, no side over `maxSide` pixels, never enlarged. */
  jpeg(wish: { maxSide: number; backdrop: string }, signal: AbortSignal): Promise<Uint8Array>;
};

/**
 * Reads the header of a png, jpeg or webp and checks what it claims (decisions 3). Of an animation only the
 * first frame counts.
 *
 * @throws {EffectError} permanent: `source_unsupported` for other types and broken headers, `vision_blocked`
 * with a hint for more than 40 megapixels or a side under 64 pixels.
 */
export async function readImage(bytes: Uint8Array, signal: AbortSignal): Promise<SourceImage> {
  signal.throwIfAborted();
  const type = sniffImage(bytes);
  if (!type) throw unsupported('the first bytes are of no png, jpeg or webp');

  const metadata = await readHeader(bytes, signal);
  const { width, height } = metadata.autoOrient;
  checkSize(width, height);

  const image = { type, width, height, hasAlpha: metadata.hasAlpha };
  return {
    ...image,
    pixels: async ({ region, width, height, backdrop }, signal) =>
      run(scaled(open(bytes), image, region, { width, height }).flatten({ background: backdrop }), 3, signal),
    thumbnail: async (maxSide, signal) =>
      run(
        open(bytes)
          .resize({ ...inside, width: maxSide, height: maxSide })
          .ensureAlpha(),
        4,
        signal,
      ),
    jpeg: async ({ maxSide, backdrop }, signal) =>
      bounded(
        open(bytes)
          .resize({ ...inside, width: maxSide, height: maxSide })
          .flatten({ background: backdrop })
          .toColourspace('srgb')
          .jpeg({ quality: 85, mozjpeg: true })
          .toBuffer(),
        signal,
      ),
  };
}

/** The type of an image by its first 16 bytes, whatever its name or declared type says. */
export function sniffImage(bytes: Uint8Array): ImageType | undefined {
  const startsWith = (magic: number[], at = 0) => magic.every((byte, i) => bytes[at + i] === byte);

  if (startsWith([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) return 'png';
  if (startsWith([0xff, 0xd8, 0xff])) return 'jpeg';
  if (startsWith([0x52, 0x49, 0x46, 0x46]) && startsWith([0x57, 0x45, 0x42, 0x50], 8)) return 'webp';
  return undefined;
}

const inside = { fit: 'inside', withoutEnlargement: true } as const;

function open(bytes: Uint8Array): Sharp {
  return sharp(bytes, {
    limitInputPixels: source.maxPixels,
    failOn: 'error',
    sequentialRead: true,
    pages: 1,
  })
    .timeout({ seconds: decodeSeconds })
    .autoOrient();
}

async function readHeader(bytes: Uint8Array, signal: AbortSignal): Promise<Metadata> {
  // No pixel is decoded here, so the limit is ours to check: sharp's own answer would not tell oversize
  // from broken.
  return bounded(sharp(bytes, { limitInputPixels: false, failOn: 'error' }).metadata(), signal);
}

function checkSize(width: number, height: number): void {
  if (width * height > source.maxPixels) {
    throw new EffectError('vision_blocked', `source has ${width} x ${height} pixels`, {
      hint: `The image is oversize: ${width} x ${height} pixels, and at most ${source.maxPixels / 1e6} megapixels are accepted.`,
    });
  }
  if (Math.min(width, height) < source.minSidePixels) {
    throw new EffectError('vision_blocked', `source has ${width} x ${height} pixels`, {
      hint: `The image is too small: ${width} x ${height} pixels, and each side needs at least ${source.minSidePixels}.`,
    });
  }
}

/** Scales so that `region` becomes `size`, in the order that lets the decoder do the least. */
function scaled(
  pipeline: Sharp,
  image: { width: number; height: number },
  region: Region,
  size: { width: number; height: number },
): Sharp {
  if (region.width * region.height < image.width * image.height * smallShare) {
    const cut = wholePixels(region, image);
    return pipeline.extract(cut).resize({ ...size, fit: 'fill' });
  }
  // Scaling the whole image first lets jpeg and webp shrink while they decode.
  const scaleX = size.width / region.width;
  const scaleY = size.height / region.height;
  const width = Math.max(size.width, Math.round(image.width * scaleX));
  const height = Math.max(size.height, Math.round(image.height * scaleY));
  return pipeline.resize({ width, height, fit: 'fill' }).extract({
    ...size,
    left: clamp(Math.round(region.left * scaleX), 0, width - size.width),
    top: clamp(Math.round(region.top * scaleY), 0, height - size.height),
  });
}

function wholePixels(region: Region, image: { width: number; height: number }): Region {
  const width = clamp(Math.round(region.width), 1, image.width);
  const height = clamp(Math.round(region.height), 1, image.height);
  return {
    width,
    height,
    left: clamp(Math.round(region.left), 0, image.width - width),
    top: clamp(Math.round(region.top), 0, image.height - height),
  };
}

async function run(pipeline: Sharp, channels: 3 | 4, signal: AbortSignal): Promise<Pixels> {
  const { data, info } = await bounded(
    pipeline.toColourspace('srgb').raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true }),
    signal,
  );
  if (info.channels !== channels) throw unsupported(`it has ${info.channels} channels in sRGB`);
  return { data, width: info.width, height: info.height };
}

/** Ends the wait when the signal aborts; sharp itself cannot be interrupted but ends at its time limit. */
function bounded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work
      .then(resolve, (cause: unknown) => reject(decodeError(cause)))
      .finally(() => signal.removeEventListener('abort', abort));
  });
}

function decodeError(cause: unknown): EffectError {
  const text = String(cause);
  if (text.includes('timeout')) {
    return new EffectError('vision_timeout', `decoding took over ${decodeSeconds} s`, { cause });
  }
  return unsupported('the decoder refused it', cause);
}

function unsupported(why: string, cause?: unknown): EffectError {
  return new EffectError('source_unsupported', `source is not a readable image: ${why}`, { cause });
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}
