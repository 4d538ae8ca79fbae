/** Pixels as video has them: separate planes of brightness and colour, BT.709 in video range. */
import type { Pixels } from './image.ts';

/** 8-bit 4:2:0 planes; the chroma planes have half of each (even) side. */
export type Planes = { width: number; height: number; y: Uint8Array; u: Uint8Array; v: Uint8Array };

/** Converts sRGB pixels to planes. Sides are even. */
export function toPlanes({ data, width, height }: Pixels): Planes {
  const y = new Uint8Array(width * height);
  const u = new Uint8Array((width * height) / 4);
  const v = new Uint8Array((width * height) / 4);
  for (let row = 0; row < height; row += 2) chromaRow(data, width, row, y, u, v);
  return { width, height, y, u, v };
}

/** Converts two rows of pixels, whose chroma is one row of means of four. */
function chromaRow(
  data: Uint8Array,
  width: number,
  row: number,
  y: Uint8Array,
  u: Uint8Array,
  v: Uint8Array,
) {
  const stride = width * 3;
  let chromaAt = (row * width) / 4;
  for (let column = 0; column < width; column += 2) {
    const at = row * stride + column * 3;
    let sumR = 0;
    let sumG = 0;
    let sumB = 0;
    for (let corner = 0; corner < 4; corner += 1) {
      const dx = corner & 1;
      const dy = corner >> 1;
      const from = at + dy * stride + dx * 3;
      const r = data[from] as number;
      const g = data[from + 1] as number;
      const b = data[from + 2] as number;
      y[(row + dy) * width + column + dx] = (11_966 * r + 40_254 * g + 4_064 * b + 1_081_344) >> 16;
      sumR += r;
      sumG += g;
      sumB += b;
    }
    u[chromaAt] = (-6_596 * sumR - 22_188 * sumG + 28_784 * sumB + 33_685_504) >> 18;
    v[chromaAt] = (28_784 * sumR - 26_145 * sumG - 2_639 * sumB + 33_685_504) >> 18;
    chromaAt += 1;
  }
}

/** One sRGB colour as Y, U, V. */
export function yuvOf(r: number, g: number, b: number): [number, number, number] {
  const { y, u, v } = toPlanes({
    data: Uint8Array.from([r, g, b, r, g, b, r, g, b, r, g, b]),
    width: 2,
    height: 2,
  });
  return [y[0] ?? 16, u[0] ?? 128, v[0] ?? 128];
}

/** The three bytes of a colour written as #rrggbb. */
export function rgbOf(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** BT.709 luma of an sRGB colour, 0 to 255. */
export function lumaOf(r: number, g: number, b: number): number {
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
