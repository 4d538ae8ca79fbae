/** Whether files have changed since something was made of them. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** Files, and the files below folders, by their paths from `root`. What is not there is left out. */
export function listFiles(root, paths) {
  return paths
    .filter((path) => existsSync(join(root, path)))
    .flatMap((path) => (statSync(join(root, path)).isFile() ? [path] : listFolder(root, path)));
}

function listFolder(root, folder) {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length));
}

/** A text that changes when any of the files does. */
export function signatureOf(root, files) {
  const marks = [...files].sort().map((file) => {
    const { mtimeMs, size } = statSync(join(root, file));
    return `${file} ${mtimeMs} ${size}`;
  });
  return createHash('sha256').update(marks.join('\n')).digest('hex');
}
