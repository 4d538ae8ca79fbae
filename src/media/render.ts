/**
 * The renderer: draws the frames of a clip, deterministic by its options and seed.
 *
 * A pose per frame (render-path), the scene warped to it (render-scene, render-depth, render-warp), light and
 * motes on top (render-light, render-motes). Runs in a worker thread: see render-worker.
 */
import type { Aspect, Model } from '../../schemas/asset.ts';
import { readImage } from './image.ts';
import { createLight, dissolve, fade } from './render-light.ts';
import { createMotes } from './render-motes.ts';
import { createPath, type PathSpec, type Pose } from './render-path.ts';
import { createScene, type Size } from './render-scene.ts';
import { createFrame, createWarp, type Frame } from './render-warp.ts';

export type RenderSpec = PathSpec & { aspect: Aspect; model: Model };

export type Renderer = {
  size: Size;
  /** Number of frames of the clip. */
  frames: number;
  /** Draws frame `index` (from 0) into `out`, which has the renderer's size. Frames may be drawn in any order. */
  draw(index: number, out: Frame): void;
};

/**
 * Decodes the source and prepares its scene.
 *
 * @throws {EffectError} `source_unsupported`, `vision_blocked` or `vision_timeout`: see readImage.
 */
export async function createRenderer(
  bytes: Uint8Array,
  spec: RenderSpec,
  signal: AbortSignal,
): Promise<Renderer> {
  const path = createPath(spec);
  const image = await readImage(bytes, signal);
  const { plan, aspect, model, seed } = spec;
  const scene = await createScene(image, { plan, aspect, model, reach: path.reach }, signal);

  const warp = createWarp(scene);
  const motes = createMotes(plan, seed);
  const light = createLight(path.light, seed % 3 === 0 ? -1 : 1);
  const { width, height } = scene.frame;
  const spare = createFrame(width, height);

  function drawPose(pose: Pose, out: Frame): void {
    warp(pose, out);
    light(out, pose.sweep);
    motes(out, pose.cycle);
    fade(out, pose.presence, scene.fadeFrom);
  }

  return {
    size: scene.frame,
    frames: path.frames,
    draw(index, out) {
      const { pose, into } = path.at(index);
      drawPose(pose, out);
      if (!into) return;
      drawPose(into.pose, spare);
      dissolve(out, spare, into.share);
    },
  };
}
