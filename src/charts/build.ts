/** Draws the machines into a folder: run by deploy/setup.mjs after the sources are compiled. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { draw } from './draw.ts';
import { chartNames } from './read.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('the folder to draw into is missing');
await mkdir(folder, { recursive: true });
for (const name of chartNames) {
  const file = join(folder, `${name}.svg`);
  const svg = await draw(name);
  // Left alone when it is the same: what is built of it looks at its time.
  if (svg !== (await readFile(file, 'utf8').catch(() => ''))) await writeFile(file, svg);
}
