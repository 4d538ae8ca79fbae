/**
 * A guess at depth from one picture: a plane that comes nearer towards the ground, and a soft swell where the
 * picture differs from its borders.
 *
 * The plane bends nothing: it leans straight lines, which stay straight. The swell could bend them, so it is
 * blurred hard and its slope is limited.
 */
import type { Planes } from './render-planes.ts';

/** Depth relative to the point of interest: positive is nearer. Sampled at cell centres. */
export type Depth = { columns: number; rows: number; values: Float32Array };

const columns = 64;
const rows = 36;

/** Rise of the plane from the top of the picture to its bottom. */
const groundRise = 0.16;

/** Height of the swell where the picture differs most from its borders. */
const swellHeight = 0.5;

/** Steepest slope of the swell, in depth per width of the picture. */
const steepest = 1.6;

/** Makes the depth map of a scene. Values are within `limit` of 0, which is the depth at `attention`. */
export function createDepth(planes: Planes, attention: { x: number; y: number }, limit: number): Depth {
  const swell = swellOf(planes, attention);
  const aspect = planes.height / planes.width;
  const soft = blurred(blurred(blurred(swell)));
  const height = Math.min(swellHeight / peakOf(soft), steepest / slopeOf(soft, aspect));

  const values = new Float32Array(columns * rows);
  forEachCell((at, _, y) => {
    values[at] = groundRise * y + height * (soft[at] as number);
  });

  const depth = { columns, rows, values };
  const base = depthAt(depth, attention.x, attention.y);
  for (let at = 0; at < values.length; at += 1) {
    values[at] = Math.min(limit, Math.max(-limit, (values[at] as number) - base));
  }
  return depth;
}

/** Depth at a point given in shares of the scene's width and height. */
export function depthAt({ columns, rows, values }: Depth, x: number, y: number): number {
  const column = Math.min(columns - 1.001, Math.max(0, x * columns - 0.5));
  const row = Math.min(rows - 1.001, Math.max(0, y * rows - 0.5));
  const left = Math.floor(column);
  const top = Math.floor(row);
  const fx = column - left;
  const fy = row - top;
  const at = top * columns + left;
  const upper = (values[at] as number) * (1 - fx) + (values[at + 1] as number) * fx;
  const lower = (values[at + columns] as number) * (1 - fx) + (values[at + columns + 1] as number) * fx;
  return upper * (1 - fy) + lower * fy;
}

/** How much each cell stands out: distance of its colour from the borders', local contrast, nearness to the centre of interest. */
function swellOf(planes: Planes, attention: { x: number; y: number }): Float32Array {
  const y = cellMeans(planes.y, planes.width, planes.height);
  const u = cellMeans(planes.u, planes.width / 2, planes.height / 2);
  const v = cellMeans(planes.v, planes.width / 2, planes.height / 2);
  const border = [y, u, v].map(borderMean) as [number, number, number];

  const swell = new Float32Array(columns * rows);
  forEachCell((at, cellX, cellY) => {
    const colour = Math.hypot(
      (y[at] as number) - border[0],
      1.5 * ((u[at] as number) - border[1]),
      1.5 * ((v[at] as number) - border[2]),
    );
    const contrast = contrastAt(y, at);
    const away = Math.hypot(cellX - attention.x, (cellY - attention.y) * 0.8);
    swell[at] =
      Math.min(1, colour / 70) * 0.5 + Math.min(1, contrast / 40) * 0.2 + Math.exp(-6 * away * away) * 0.5;
  });
  return swell;
}

/** Difference to the neighbours on the right and below; the map's last column and row have none. */
function contrastAt(cells: Float32Array, at: number): number {
  const here = cells[at] as number;
  const right = (at + 1) % columns === 0 ? here : (cells[at + 1] as number);
  const below = at >= columns * (rows - 1) ? here : (cells[at + columns] as number);
  return Math.abs(here - right) + Math.abs(here - below);
}

function forEachCell(visit: (at: number, x: number, y: number) => void): void {
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      visit(row * columns + column, (column + 0.5) / columns, (row + 0.5) / rows);
    }
  }
}

/** Mean of each cell, from every third pixel of every third row. */
function cellMeans(plane: Uint8Array, width: number, height: number): Float32Array {
  const sums = new Float32Array(columns * rows);
  const counts = new Float32Array(columns * rows);
  for (let y = 0; y < height; y += 3) {
    const row = Math.floor((y * rows) / height) * columns;
    for (let x = 0; x < width; x += 3) {
      const at = row + Math.floor((x * columns) / width);
      sums[at] = (sums[at] as number) + (plane[y * width + x] as number);
      counts[at] = (counts[at] as number) + 1;
    }
  }
  return sums.map((sum, at) => sum / Math.max(1, counts[at] as number));
}

function borderMean(cells: Float32Array): number {
  let sum = 0;
  let count = 0;
  forEachCell((at, x, y) => {
    if (x > 0.06 && x < 0.94 && y > 0.06 && y < 0.94) return;
    sum += cells[at] as number;
    count += 1;
  });
  return sum / count;
}

/** Box blur about a fifth of the picture wide; three in a row are close to a Gaussian. */
function blurred(cells: Float32Array): Float32Array {
  const radius = 6;
  const across = boxBlur(cells, columns, rows, 1, columns, radius);
  return boxBlur(across, rows, columns, columns, 1, radius);
}

function boxBlur(
  cells: Float32Array,
  length: number,
  lines: number,
  step: number,
  lineStep: number,
  radius: number,
): Float32Array {
  const out = new Float32Array(cells.length);
  for (let line = 0; line < lines; line += 1) {
    for (let i = 0; i < length; i += 1) {
      let sum = 0;
      for (let d = -radius; d <= radius; d += 1) {
        const from = Math.min(length - 1, Math.max(0, i + d));
        sum += cells[line * lineStep + from * step] as number;
      }
      out[line * lineStep + i * step] = sum / (2 * radius + 1);
    }
  }
  return out;
}

function peakOf(cells: Float32Array): number {
  return Math.max(0.01, cells.reduce((a, b) => Math.max(a, b)) - cells.reduce((a, b) => Math.min(a, b)));
}

/** Steepest difference of neighbours, per width of the picture. */
function slopeOf(cells: Float32Array, aspect: number): number {
  let slope = 0.01;
  for (let row = 0; row < rows - 1; row += 1) {
    for (let column = 0; column < columns - 1; column += 1) {
      const at = row * columns + column;
      const here = cells[at] as number;
      const right = Math.abs((cells[at + 1] as number) - here) * columns;
      const down = (Math.abs((cells[at + columns] as number) - here) * rows) / aspect;
      slope = Math.max(slope, right, down);
    }
  }
  return slope;
}
