/**
 * The motion plan: what vision decided about a source, in numbers that the local engine follows.
 *
 * Kept in the asset's machine context, so it stays small (under 2 KB of JSON) and free of pixels.
 */
import { z } from 'zod';

const Share = z.number().min(0).max(1);

export const MotionPlan = z.object({
  /** Size of the source after EXIF rotation, in pixels. */
  width: z.int().positive(),
  height: z.int().positive(),
  /** Point of interest, as shares of width and height; crops and zooms keep it in view. */
  attention: z.object({ x: Share, y: Share }),
  /** Mean luma, contrast (standard deviation of luma) and colourfulness, 0 to 1. */
  brightness: Share,
  contrast: Share,
  saturation: Share,
  /** Main colours as #rrggbb, most frequent first, at most 5; the first is the backdrop for alpha. */
  palette: z
    .array(z.string().regex(/^#[0-9a-f]{6}$/))
    .min(1)
    .max(5),
  hasAlpha: z.boolean(),
  /**
   * Strengths that the engine applies, already scaled to the source and the wished motion; 1 is the most
   * that the engine's taste allows. 0 switches the effect off.
   */
  parallax: Share,
  zoom: Share,
  light: Share,
  motes: Share,
  /** Direction in which the camera drifts, in radians: 0 is right, a quarter turn is down. */
  heading: z.number(),
  /** What the motes are: `dust` hovers in the light (the default), `snow` falls. */
  moteKind: z.enum(['dust', 'snow']).optional(),
  /** The camera moves away from the point of interest rather than towards it. */
  zoomOut: z.boolean().optional(),
});
export type MotionPlan = z.infer<typeof MotionPlan>;
