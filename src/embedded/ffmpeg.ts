/** Where ffmpeg is: it is run once per piece of work (src/media), so nothing is started here. */
import { findBinary } from './find.ts';

/** Path of an ffmpeg that can encode H.264. @throws {Error} when there is none. */
export async function findFfmpeg(
  environment: Record<string, string | undefined> = process.env,
): Promise<string> {
  return (await findBinary('ffmpeg', environment)).path;
}
