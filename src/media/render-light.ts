/** What is laid over a warped frame: a band of light, motes, the fade of a picture that arrives, a dissolve. */
import type { Frame } from './render-warp.ts';

/** Width of the band of light, in shares of the frame's width. */
const bandWidth = 0.55;

/** Lean of the band: pixels to the left per pixel down. */
const lean = 0.45;

/** Ordered dither: without it, a band of a few luma levels would show its steps on smooth skies. */
const dither = Uint8Array.from([
  0, 128, 32, 160, 8, 136, 40, 168, 192, 64, 224, 96, 200, 72, 232, 104, 48, 176, 16, 144, 56, 184, 24, 152,
  240, 112, 208, 80, 248, 120, 216, 88, 12, 140, 44, 172, 4, 132, 36, 164, 204, 76, 236, 108, 196, 68, 228,
  100, 60, 188, 28, 156, 52, 180, 20, 148, 252, 124, 220, 92, 244, 116, 212, 84,
]);

/**
 * Makes the function that lays a band of light of at most `levels` luma over a frame. `sweep` is where it is, from
 * 0 (off the left) to 1 (off the right); `direction` -1 lets it come from the right.
 *
 * The light follows the picture's own: black stays black and white stays white.
 */
export function createLight(levels: number, direction: 1 | -1): (frame: Frame, sweep: number) => void {
  const gain = gainByLuma(levels);
  return (frame, sweep) => {
    if (levels <= 0 || sweep <= 0 || sweep >= 1) return;
    const { width, height } = frame;
    const half = (bandWidth * width) / 2;
    const slant = lean * height;
    const travel = width + 2 * half + slant;
    const progress = direction === 1 ? sweep : 1 - sweep;
    for (let row = 0; row < height; row += 1) {
      lightRow(frame, row, progress * travel - half - slant + lean * (height - row), half, gain);
    }
  };
}

/** Luma levels x 256 that full light adds to each luma: none at black and white, all in the middle. */
function gainByLuma(levels: number): Uint16Array {
  return Uint16Array.from({ length: 256 }, (_, luma) => {
    const share = Math.min(1, Math.max(0, (luma - 16) / 219));
    return Math.round(levels * 256 * Math.min(1, share * 2.2) * Math.min(1, (1 - share) * 3));
  });
}

const profileSteps = 1024;

/** Brightness over the band, 0 to 256: a raised cosine squared, which has no visible edge. */
const profile = Uint16Array.from({ length: profileSteps + 1 }, (_, i) =>
  Math.round(256 * ((1 - Math.cos((2 * Math.PI * i) / profileSteps)) / 2) ** 1.5),
);

function lightRow(frame: Frame, row: number, centre: number, half: number, gain: Uint16Array): void {
  const { y, width } = frame;
  const from = Math.max(0, Math.ceil(centre - half));
  const to = Math.min(width, Math.floor(centre + half));
  const start = row * width;
  const pattern = (row & 7) << 3;
  const step = Math.round((profileSteps / (2 * half)) * 65_536);
  let place = Math.round((from - centre + half) * step);
  for (let column = from; column < to; column += 1) {
    const luma = y[start + column] as number;
    const more = ((profile[place >> 16] as number) * (gain[luma] as number)) >> 8;
    y[start + column] = luma + ((more + (dither[pattern | (column & 7)] as number)) >> 8);
    place += step;
  }
}

/** Fades the frame towards a colour: `presence` 1 is the picture alone, 0 the colour alone. */
export function fade(frame: Frame, presence: number, [y, u, v]: readonly [number, number, number]): void {
  if (presence >= 1) return;
  fadePlane(frame.y, presence, y);
  fadePlane(frame.u, presence, u);
  fadePlane(frame.v, presence, v);
}

function fadePlane(plane: Uint8Array, presence: number, towards: number): void {
  const table = Uint8Array.from({ length: 256 }, (_, value) =>
    Math.round(towards + (value - towards) * presence),
  );
  for (let at = 0; at < plane.length; at += 1) plane[at] = table[plane[at] as number] as number;
}

/** Mixes `share` (0 to 1) of another frame into one. */
export function dissolve(frame: Frame, other: Frame, share: number): void {
  const weight = Math.round(share * 256);
  const { buffer } = frame;
  for (let at = 0; at < buffer.length; at += 1) {
    const here = buffer[at] as number;
    buffer[at] = here + ((((other.buffer[at] as number) - here) * weight + 128) >> 8);
  }
}
