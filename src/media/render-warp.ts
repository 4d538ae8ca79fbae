/**
 * The inner loop: draws a frame by looking up, for each of its pixels, where it lies in the scene.
 *
 * Positions are computed on a grid of 16 x 16 pixels and interpolated in 16.16 fixed point between its points;
 * pixels are mixed from four with 8-bit weights. The same integers come out on every machine.
 */
import { depthAt } from './render-depth.ts';
import type { Pose } from './render-path.ts';
import type { Planes } from './render-planes.ts';
import type { Scene } from './render-scene.ts';

const cell = 16;

/** Planes of a frame that lie one after the other in one buffer, as an encoder takes them. */
export type Frame = Planes & { buffer: Uint8Array };

/** Room for one frame. Sides are even. */
export function createFrame(width: number, height: number): Frame {
  const size = width * height;
  const buffer = new Uint8Array((size * 3) / 2);
  return {
    width,
    height,
    buffer,
    y: buffer.subarray(0, size),
    u: buffer.subarray(size, size + size / 4),
    v: buffer.subarray(size + size / 4),
  };
}

/** Makes the function that draws the scene as the camera sees it from a pose. */
export function createWarp({
  planes,
  frame,
  perPixel,
  attention,
  depth,
}: Scene): (pose: Pose, out: Frame) => void {
  const columns = Math.ceil(frame.width / cell) + 1;
  const rows = Math.ceil(frame.height / cell) + 1;
  const gridX = new Float64Array(columns * rows);
  const gridY = new Float64Array(columns * rows);
  const luma = createGrid(columns, rows);
  const chroma = createGrid(columns, rows);

  // The scene at rest: the frame's pixels lie in its middle, so that every side has the same reserve.
  const restX = (planes.width - frame.width * perPixel) / 2;
  const restY = (planes.height - frame.height * perPixel) / 2;
  const focusX = attention.x * frame.width;
  const focusY = attention.y * frame.height;

  function layGrid(pose: Pose): void {
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        const x = focusX + (column * cell - focusX) / pose.zoom + pose.panX * frame.width;
        const y = focusY + (row * cell - focusY) / pose.zoom + pose.panY * frame.width;
        const sceneX = restX + x * perPixel;
        const sceneY = restY + y * perPixel;
        const near = depthAt(depth, sceneX / planes.width, sceneY / planes.height) * frame.width * perPixel;
        const at = row * columns + column;
        gridX[at] = sceneX + pose.shiftX * near;
        gridY[at] = sceneY + pose.shiftY * near;
      }
    }
  }

  return (pose, out) => {
    layGrid(pose);
    fix(luma, gridX, gridY, 1, planes.width, planes.height);
    fix(chroma, gridX, gridY, 0.5, planes.width / 2, planes.height / 2);
    drawPlane(planes.y, planes.width, luma, cell, out.y, out.width, out.height);
    drawPlane(planes.u, planes.width / 2, chroma, cell / 2, out.u, out.width / 2, out.height / 2);
    drawPlane(planes.v, planes.width / 2, chroma, cell / 2, out.v, out.width / 2, out.height / 2);
  };
}

type Grid = { columns: number; x: Int32Array; y: Int32Array };

function createGrid(columns: number, rows: number): Grid {
  return { columns, x: new Int32Array(columns * rows), y: new Int32Array(columns * rows) };
}

/** Positions of the grid in a plane, as 16.16 fixed point of pixel centres, never outside of the plane. */
function fix(
  grid: Grid,
  gridX: Float64Array,
  gridY: Float64Array,
  scale: number,
  width: number,
  height: number,
): void {
  const lastX = ((width - 1) << 16) - 256;
  const lastY = ((height - 1) << 16) - 256;
  for (let at = 0; at < gridX.length; at += 1) {
    const x = Math.round(((gridX[at] as number) * scale - 0.5) * 65_536);
    const y = Math.round(((gridY[at] as number) * scale - 0.5) * 65_536);
    grid.x[at] = Math.max(256, Math.min(x, lastX));
    grid.y[at] = Math.max(256, Math.min(y, lastY));
  }
}

/** Draws one plane, cell by cell. `side` is the cell's side in this plane, a power of two. */
function drawPlane(
  from: Uint8Array,
  stride: number,
  grid: Grid,
  side: number,
  to: Uint8Array,
  width: number,
  height: number,
): void {
  const shift = Math.log2(side);
  for (let top = 0; top < height; top += side) {
    const tall = Math.min(side, height - top);
    for (let left = 0; left < width; left += side) {
      const wide = Math.min(side, width - left);
      drawCell(
        from,
        stride,
        grid,
        (top / side) * grid.columns + left / side,
        shift,
        to,
        top * width + left,
        width,
        wide,
        tall,
      );
    }
  }
}

/**
 * Draws one cell of at most `1 << shift` pixels a side, whose corner in the grid is `at` and whose first pixel is
 * `start`. Numbers only and no calls: this loop is nearly all the time that a frame takes.
 */
function drawCell(
  from: Uint8Array,
  stride: number,
  grid: Grid,
  at: number,
  shift: number,
  to: Uint8Array,
  start: number,
  width: number,
  wide: number,
  tall: number,
): void {
  const below = at + grid.columns;
  let leftX = grid.x[at] as number;
  let leftY = grid.y[at] as number;
  let rightX = grid.x[at + 1] as number;
  let rightY = grid.y[at + 1] as number;
  const leftStepX = ((grid.x[below] as number) - leftX) >> shift;
  const leftStepY = ((grid.y[below] as number) - leftY) >> shift;
  const rightStepX = ((grid.x[below + 1] as number) - rightX) >> shift;
  const rightStepY = ((grid.y[below + 1] as number) - rightY) >> shift;
  // Pixels are sampled at their centres, half a step in.
  leftX += leftStepX >> 1;
  leftY += leftStepY >> 1;
  rightX += rightStepX >> 1;
  rightY += rightStepY >> 1;

  let row = start;
  for (let i = 0; i < tall; i += 1) {
    const stepX = (rightX - leftX) >> shift;
    const stepY = (rightY - leftY) >> shift;
    let x = leftX + (stepX >> 1);
    let y = leftY + (stepY >> 1);
    for (let out = row; out < row + wide; out += 1) {
      const pixel = (y >> 16) * stride + (x >> 16);
      const fx = (x >> 8) & 255;
      const fy = (y >> 8) & 255;
      const upper =
        ((from[pixel] as number) << 8) + ((from[pixel + 1] as number) - (from[pixel] as number)) * fx;
      const lower =
        ((from[pixel + stride] as number) << 8) +
        ((from[pixel + stride + 1] as number) - (from[pixel + stride] as number)) * fx;
      to[out] = ((upper << 8) + (lower - upper) * fy + 32_768) >> 16;
      x += stepX;
      y += stepY;
    }
    leftX += leftStepX;
    leftY += leftStepY;
    rightX += rightStepX;
    rightY += rightStepY;
    row += width;
  }
}
