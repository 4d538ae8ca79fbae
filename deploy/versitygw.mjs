/**
 * Builds versitygw, an object store that storage is tested against, once into the cache, when Go is installed: `npm run
 * versitygw`, some minutes. Never fails: the tests say what they skip where the program is missing.
 */
import { findOrBuild } from './go-program.mjs';

await findOrBuild(
  {
    name: 'versitygw',
    module: 'github.com/versity/versitygw',
    package: '/cmd/versitygw',
    version: '1.8.0',
    what: 'the tests of object storage',
  },
  (line) => console.log(`setup: ${line}`),
);
