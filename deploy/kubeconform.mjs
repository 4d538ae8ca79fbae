/**
 * Builds kubeconform, which the manifests for Kubernetes are checked with, once into the cache, when Go is installed, and
 * prints its path. Never fails: without it nothing is printed, and the test says what it skips.
 */
import { findOrBuild } from './go-program.mjs';

const path = await findOrBuild(
  {
    name: 'kubeconform',
    module: 'github.com/yannh/kubeconform',
    package: '/cmd/kubeconform',
    version: '0.7.0',
    what: 'the check of the manifests',
  },
  (line) => console.error(`setup: ${line}`),
);
if (path !== undefined) console.log(path);
