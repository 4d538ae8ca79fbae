/** `npm run bench <name>`: runs one benchmark. Each prints one JSON line with its figures, baseline and limits. */
import { readdirSync } from 'node:fs';
import { extname } from 'node:path';

const helpers = [
  ...[
    'balancer',
    'bench',
    'brand-sites',
    'chaos',
    'client',
    'cluster',
    'counter',
    'cpu',
    'crash',
    'examples',
  ],
  ...[
    'failover',
    'fleet',
    'fronts',
    'fuzz',
    'fuzz-requests',
    'load',
    'load-client',
    'nginx',
    'operator-world',
    'processes',
    'proxy-child',
    'proxy-world',
  ],
  ...[
    'runs-restate',
    'runtime-rig',
    'same-thing',
    'score-brand',
    'sse-rig',
    'sse-tools',
    'steps',
    'toxiproxy',
    'webhooks-bare',
    'wrk',
  ],
];
const extension = extname(import.meta.url);
const names = readdirSync(new URL('.', import.meta.url))
  .filter((file) => extname(file) === extension)
  .map((file) => file.slice(0, -extension.length))
  .filter((name) => !helpers.includes(name));

const name = process.argv[2] ?? '';
if (!names.includes(name)) {
  console.error(`usage: npm run bench ${names.join(' | ')}`);
  process.exit(2);
}
process.argv.splice(2, 1);
await import(new URL(`./${name}${extension}`, import.meta.url).href);
