/** The port for those who watch, of a process without a front end. */
import { request } from 'node:http';
import t from 'tap';
import { startMonitor } from '../../src/http/monitor.ts';

const ready = { ok: true, failing: [] as string[] };
const monitor = await startMonitor({
  host: '127.0.0.1',
  port: 0,
  token: 'metrics-token-0123456789',
  render: async (format) => {
    if (broken) throw new Error('a secret of ours');
    return `# ${format}\n`;
  },
  ready: async () => ready,
});
let broken = false;
t.teardown(() => monitor.close());

function ask(method: string, path: string, headers: Record<string, string> = {}) {
  return new Promise<{ status: number | undefined; headers: object; body: string }>((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port: monitor.port, method, path, headers }, (answer) => {
      let body = '';
      answer.on('data', (piece) => {
        body += piece;
      });
      answer.on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, body }));
    });
    asked.on('error', reject).end();
  });
}

t.test('200 for metrics and health, as in the front end', async (t) => {
  t.match(await ask('GET', '/metrics?x'), {
    status: 200,
    body: '# text\n',
    headers: { 'content-type': /^text/ },
  });
  const accept = 'application/openmetrics-text';
  t.match(await ask('GET', '/metrics', { accept }), { status: 200, body: '# openMetrics\n' });
  t.match(await ask('HEAD', '/metrics'), { status: 200, body: '' });
  t.match(await ask('GET', '/healthz'), { status: 200, body: '{"ok":true}' });
  t.match(await ask('GET', '/readyz'), { status: 200, body: '{"ok":true,"failing":[]}' });
});

t.test('401, 404, 405, 500 and 503 for the rest', async (t) => {
  t.match(await ask('GET', '/metrics', { 'x-forwarded-for': '1.2.3.4' }), {
    status: 401,
    headers: { 'www-authenticate': 'Bearer' },
  });
  const authorization = 'Bearer metrics-token-0123456789';
  t.match(await ask('GET', '/metrics', { 'x-forwarded-for': '1.2.3.4', authorization }), { status: 200 });
  t.match(await ask('GET', '/'), { status: 404, body: '{"error":"not found"}' });
  t.match(await ask('POST', '/metrics'), { status: 405, headers: { allow: 'GET, HEAD' } });
  Object.assign(ready, { ok: false, failing: ['bus'] });
  t.match(await ask('GET', '/readyz'), { status: 503, body: '{"ok":false,"failing":["bus"]}' });
  broken = true;
  t.match(await ask('GET', '/metrics'), { status: 500, body: '{"error":"internal error"}' });
});

t.test('a port that is taken stops the start with one line', async (t) => {
  const again = {
    host: '127.0.0.1',
    port: monitor.port,
    token: undefined,
    render: async () => '',
    ready: async () => ready,
  };
  await t.rejects(startMonitor(again), {
    message: /^METRICS_PORT: cannot listen on 127\.0\.0\.1:\d+: is another/,
  });
});
