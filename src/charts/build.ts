/** Draws the machines into a folder: run by deploy/setup.mjs after the sources are compiled. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { draw } from './draw.ts';
import { chartNames } from './read.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('the folder to draw into is missing');
await mkdir(folder, { recursive: true });
for (const name of chartNames) await writeFile(join(folder, `${name}.svg`), await draw(name));
