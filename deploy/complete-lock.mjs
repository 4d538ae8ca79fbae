/**
 * Completes package-lock.json: adds an entry for every optional dependency that the registry in use did not serve.
 *
 * Without them `npm ci` refuses the lock file on other platforms ("Missing: … from lock file"). To be run after
 * each change of dependencies: `node deploy/complete-lock.mjs`; with `--check` it changes nothing, prints what is
 * missing and exits with 1 when there is something.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const systems = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
const processors = ['arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'x64'];

/**
 * Finds the optional dependencies without an entry.
 * @param {Record<string, any>} packages the lock file's `packages`
 * @returns {Map<string, object>} path of the missing entry to the entry
 */
export function missingEntries(packages) {
  const missing = new Map();
  for (const [path, { optionalDependencies = {}, dev }] of Object.entries(packages)) {
    for (const [name, version] of Object.entries(optionalDependencies)) {
      if (isResolved(packages, path, name)) continue;
      missing.set(`node_modules/${name}`, entryFor(name, version, dev));
    }
  }
  return missing;
}

function entryFor(name, version, dev) {
  if (!/^\d+\.\d+\.\d+[-.\w]*$/.test(version)) throw new Error(`${name} is not pinned exactly: ${version}`);
  const words = name.split(/[/-]/);
  const os = systems.filter((system) => words.includes(system));
  const cpu = processors.filter((processor) => words.includes(processor));
  if (os.length === 0) throw new Error(`cannot tell the platform of ${name} by its name`);
  // Without it a system with glibc would fetch the package for musl too.
  const libc = /-musl/.test(name) ? ['musl'] : /-gnu/.test(name) ? ['glibc'] : undefined;
  return {
    version,
    ...(cpu.length > 0 && { cpu }),
    ...(dev && { dev }),
    ...(libc && { libc }),
    optional: true,
    os,
  };
}

/** Looks where Node would: beside the package, then in each folder above it. */
function isResolved(packages, path, name) {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
    if (packages[`${at === '' ? '' : `${at}/`}node_modules/${name}`] !== undefined) return true;
    if (at === '') return false;
  }
}

function main() {
  const file = fileURLToPath(new URL('../package-lock.json', import.meta.url));
  const lock = JSON.parse(readFileSync(file, 'utf8'));
  const missing = missingEntries(lock.packages);
  for (const path of missing.keys()) console.log(path);
  if (process.argv.includes('--check')) {
    process.exitCode = missing.size > 0 ? 1 : 0;
    return;
  }
  if (missing.size === 0) return;
  const entries = [...Object.entries(lock.packages), ...missing];
  lock.packages = Object.fromEntries(entries.sort(([a], [b]) => a.localeCompare(b, 'en')));
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
