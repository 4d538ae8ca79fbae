/** The operator console over a running service: a stuck machine is found and retried, one by one and in bulk. */
import type { ServerResponse } from 'node:http';
import sharp from 'sharp';
import t from 'tap';
import type { AuditEntry } from '../../schemas/operator.ts';
import type {
  BulkJobResponse,
  BulkPreview,
  FoundList,
  MachineDetail,
  MachineList,
  MachineRow,
  NotStarted,
  Overview,
  PartitionList,
  RequestPage,
  StreamList,
  WorkerList,
} from '../../schemas/operator-console.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { serveSources, startTestService } from '../fixtures/service.ts';
import { until } from '../fixtures/until.ts';

const image = await sharp({ create: { width: 96, height: 64, channels: 3, background: '#468' } })
  .png()
  .toBuffer();
/** Sources that fail until they are mended, or that hang until they are let go. */
const broken = new Set<string>();
const hanging = new Set<string>();
const held: ServerResponse[] = [];
const sources = await serveSources(t, (asked, answer) => {
  const url = asked.url ?? '';
  if (hanging.has(url)) held.push(answer);
  else if (broken.has(url)) answer.writeHead(503).end();
  else sendImage(answer);
});
const sendImage = (answer: ServerResponse) => answer.setHeader('content-type', 'image/png').end(image);
const service = await startTestService(t, {
  OPERATOR_EMAILS: 'boss@example.com',
  RETRY_BACKOFF: '0s,1h,1h',
});
const boss = await service.signUp('boss@example.com');
const ada = await service.signUp();
let names = 0;

async function prepare(set?: Set<string>): Promise<string> {
  names += 1;
  const path = `/${names}.png`;
  set?.add(path);
  const asked = { project_id: ada.projectId, src: `${sources}${path}?sig=s3cret`, dur_seconds: 2 };
  set?.add(`${path}?sig=s3cret`);
  const { body } = await ada.call<{ asset_id: string }>('POST', '/api/v1/prepare', {
    ...asked,
    mode: 'animate-in',
  });
  return body.asset_id;
}

const get = async <Body>(path: string) => (await boss.call<Body>('GET', `/api/operator/${path}`)).body;
const post = <Body>(path: string, body: object) => boss.call<Body>('POST', `/api/operator/${path}`, body);
const detail = (id: string) => get<MachineDetail>(`machines/asset/${id}`);
const act = (id: string, body: object, kind = 'asset') =>
  post<{ machine: MachineRow }>(`machines/${kind}/${id}/actions`, body);

const inState = (id: string, state: string) =>
  until(
    () => detail(id),
    ({ machine }) => machine.state === state,
  );

/** As if it had entered its state hours ago. */
const age = (id: string) =>
  service.store.assets.actors.collection.updateOne({ _id: id }, { $inc: { enteredTs: -3 * 3_600_000 } });

t.test('404 for everybody else, and nothing happens', async (t) => {
  for (const path of ['overview', 'machines', 'search?q=x', 'partitions', 'streams', 'workers', 'bulk']) {
    t.equal((await ada.call('GET', `/api/operator/${path}`)).status, 404, path);
  }
  t.equal(
    (await ada.call('POST', '/api/operator/bulk/preview', { filter: {}, action: 'cancel' })).status,
    404,
  );
});

t.test('200: what is stuck is found, says why, and its retry leads to ready', async (t) => {
  const id = await prepare(broken);
  const waiting = await inState(id, 'pending.source.retrying');
  t.match(waiting.machine, {
    waits_for: { what: 'timer', until: /Z$/ },
    attempt: 2,
    max_attempts: 3,
    run: 1,
    last_error: { code: 'source_unfetchable', reason: /503/ },
    is_stuck: false,
  });
  t.match(await get<MachineList>('machines?stuck=true'), { machines: [] });
  await age(id);
  const stuck = await get<MachineList>('machines?stuck=true');
  t.match(stuck, { machines: [{ id, is_stuck: true }], next_cursor: null });
  const seen = await until(
    () => get<Overview>('overview'),
    ({ machines }) => machines[0]?.stuck === 1,
  );
  t.match(seen, {
    health: { verdict: 'trouble', text: /1 of 1 machine under way has not moved/ },
    machines: [
      { kind: 'asset', waiting_for_retry: 1, later_attempts: 1, versions: [1] },
      { kind: 'delivery' },
    ],
    workers: [{ threads: /\d/ }],
  });

  const retry = waiting.actions.find(({ action }) => action === 'retry');
  t.match(retry, { is_possible: true, will: /begins now instead of at its time/ });
  // The second attempt is under way until it has been seen.
  for (const url of broken) hanging.add(url);
  broken.clear();
  t.match(await act(id, { action: 'retry' }), { status: 200, body: { machine: { id, attempt: 2 } } });
  await until(() => held.length > 0);
  hanging.clear();
  for (const answer of held.splice(0)) sendImage(answer);
  t.equal((await ada.untilEnd(id)).status, 'ready');
  t.match(await act(id, { action: 'retry' }), {
    status: 409,
    body: { error: 'not possible: it is ready: there is nothing to retry' },
  });

  const after = await detail(id);
  t.match(after, {
    machine: { state: 'ready', waits_for: { what: 'nothing' }, last_error: null },
    timers: [],
    not_started: null,
    project: { id: ada.projectId },
    user: { email: ada.email },
    partition: { owner: /\w/ },
    audit: [{ action: 'machine.retry', by_email: boss.email, target: id, before: { state: /retrying/ } }],
  });
  t.notMatch(JSON.stringify(after), /s3cret/, 'what signs the source is taken out');
  t.match(after.history[0], { event: 'queued' });
  t.match(after.history.at(-1), { event: 'ready' });
  t.equal((await get<{ entries: AuditEntry[] }>('audit')).entries[0]?.target, id);
});

t.test('200: a run that has failed begins anew, uncounted, and may keep its description', async (t) => {
  const id = await prepare(hanging);
  await inState(id, 'pending.source.fetching');
  const before = await service.store.users.find(ada.userId);
  const failed = await act(id, { action: 'fail', reason: 'We could not reach your source.' });
  t.match(failed.body, { machine: { state: 'failed', last_error: { code: 'pipeline_stalled' } } });
  const asset = await ada.untilEnd(id);
  t.match(asset, { status: 'failed', error_msg: 'We could not reach your source.' });
  t.equal((await act(id, { action: 'cancel' })).status, 409);
  t.match(await act(id, { action: 'retry_from', from: 'clip' }), {
    status: 409,
    body: { error: /described/ },
  });
  hanging.clear();
  t.match((await act(id, { action: 'retry' })).body, { machine: { run: 2 } });
  t.equal((await ada.untilEnd(id)).status, 'ready');
  t.equal((await service.store.users.find(ada.userId))?.used, before?.used, 'on the house');
  t.match((await ada.timeline(id)).filter(({ event }) => event === 'queued').length, 2);
});

t.test('400 for an action without what it needs, 404 for what there is not', async (t) => {
  for (const body of [
    {},
    { action: 'explode' },
    { action: 'fail' },
    { action: 'retry_from' },
    { action: 'fail', reason: ' ' },
  ])
    t.equal((await act('ast_none', body)).status, 400, JSON.stringify(body));
  for (const path of ['machines/asset/ast_none', 'machines/plant/ast_1', 'requests/none', 'bulk/blk_none'])
    t.equal((await boss.call('GET', `/api/operator/${path}`)).status, 404, path);
  t.equal((await act('ast_none', { action: 'retry' })).status, 404);
  t.equal((await act('ast_none', { action: 'retry' }, 'plant')).status, 404);
  for (const query of ['state=nowhere', 'attempt=1', 'kind=plant', 'cursor=x', 'limit=0', 'stuck=false'])
    t.equal((await boss.call('GET', `/api/operator/machines?${query}`)).status, 400, query);
});

t.test('200: all that a filter finds are retried, after a look at what that would be', async (t) => {
  const ids = await Promise.all(Array.from({ length: 3 }, () => prepare(broken)));
  for (const id of ids) await inState(id, 'pending.source.retrying');
  const filter = { state: 'pending.source.retrying', project: ada.projectId };
  const { body: preview } = await post<BulkPreview>('bulk/preview', { filter, action: 'retry' });
  t.match(preview, { count: 3, is_more: false, kind: 'asset', action: 'retry' });
  t.strictSame(preview.sample.map(({ id }) => id).sort(), [...ids].sort());
  t.match(await get('bulk'), { jobs: [] }, 'nothing runs before it is started');
  broken.clear();
  const { body: started } = await post<BulkJobResponse>('bulk', { token: preview.token });
  t.match(started, { job: { count: 3, by_email: boss.email, filter } });
  const done = await until(
    () => get<BulkJobResponse>(`bulk/${started.job.id}`),
    ({ job }) => job.state === 'done',
  );
  t.match(done.job, { told: 3, passed: 0 });
  t.strictSame(done.log.map(({ id }) => id).sort(), [...ids].sort());
  for (const id of ids) t.equal((await ada.untilEnd(id)).status, 'ready');
  t.equal((await boss.call('POST', `/api/operator/bulk/${started.job.id}/cancel`)).status, 409);
  t.equal((await post('bulk', { token: 'blk_none' })).status, 404);
  const { found } = await get<FoundList>(`search?q=${started.job.id}`);
  t.match(found, [{ type: 'bulk', page: `/dashboard/operator/bulk/${started.job.id}` }]);
});

t.test('200: any id leads to its page, and a request to all that it has caused', async (t) => {
  const receiver = await startReceiver(t);
  await ada.call('PUT', `/api/projects/${ada.projectId}/webhooks`, {
    webhook_url: receiver.url,
    webhook_events: ['asset.completed'],
    webhooks_enabled: true,
  });
  const id = await prepare();
  await ada.untilEnd(id);
  const done = await until(
    () => detail(id),
    ({ deliveries }) => deliveries[0]?.state === 'delivered',
  );
  const [delivery] = done.deliveries;
  const { request_id: requestId } = done.machine;
  const found = async (q: string) => (await get<FoundList>(`search?q=${encodeURIComponent(q)}`)).found;
  t.match(await found(id), [{ type: 'asset', page: `/dashboard/operator/machines/asset/${id}` }]);
  t.match(await found(delivery?.id ?? ''), [{ type: 'delivery', text: 'delivery, delivered' }]);
  t.match(await found(delivery?.event_id ?? ''), [{ type: 'delivery', id: delivery?.id }]);
  t.match(await found(ada.projectId), [{ type: 'project' }]);
  t.match(await found(ada.userId), [{ type: 'user', text: ada.email }]);
  t.match(await found(ada.email.toUpperCase()), [{ type: 'user', id: ada.userId }]);
  t.match(await found(requestId), [{ type: 'request', page: `/dashboard/operator/requests/${requestId}` }]);
  t.strictSame(await found('nothing at all'), []);

  const page = await get<RequestPage>(`requests/${requestId}`);
  t.match(page.machines, [
    { kind: 'asset', id },
    { kind: 'delivery', id: delivery?.id, event_type: 'asset.completed' },
  ]);
  t.match(page.events[0], { event: 'queued', asset_id: id });
  t.ok(page.events.some(({ event }) => event === 'webhook_delivered'));

  const about = await get<MachineDetail>(`machines/delivery/${delivery?.id}`);
  t.match(about, {
    machine: { waits_for: { what: 'nothing' } },
    snapshot: { fixed: { payload: { asset_id: id } } },
  });
  const again = about.actions.filter(({ is_possible }) => is_possible);
  t.match(again, [{ action: 'redeliver', will: /same webhook-id/ }]);
  const sent = await act(delivery?.id ?? '', { action: 'redeliver' }, 'delivery');
  t.equal(sent.status, 200);
  await until(
    () => get<MachineDetail>(`machines/delivery/${delivery?.id}`),
    ({ machine }) => machine.attempt === 2,
  );
});

t.test('200: why something has not started: its place, the limit, and who has the slots', async (t) => {
  // Fetches of one project at once: what is more waits for them.
  const ids: string[] = [];
  for (let n = 0; n < 36; n += 1) ids.push(await prepare(hanging));
  const workers = await until(
    () => get<WorkerList>('workers'),
    (list) => list.workers.some(({ slots }) => slots.some(({ waits }) => waits > 0)),
  );
  t.match(workers, { silent: [], workers: [{ worker: /\w/ }] });
  const io = workers.workers[0]?.slots.find(({ waits }) => waits > 0);
  const last = io?.waiting.at(-1);
  const { not_started: why } = await detail(last?.id ?? '');
  t.match(why, { slot: io?.slot, place: /\d+/, waiting: /\d+/, holders: [{ effect: 'fetchSource' }] });
  t.match((why as NotStarted).text, /in the queue/);
  const { not_started: atWork } = await detail(io?.running[0]?.id ?? '');
  t.match(atWork, { limit: 'at_work' });

  const { body: preview } = await post<BulkPreview>('bulk/preview', {
    filter: { project: ada.projectId, state: 'pending' },
    action: 'cancel',
  });
  t.equal(preview.count, ids.length);
  await post('bulk', { token: preview.token });
  for (const id of ids) await inState(id, 'cancelled');
});

t.test(
  '200: partitions with their owners, streams with their readers, providers with their cost',
  async (t) => {
    const { partitions } = await get<PartitionList>('partitions');
    t.equal(partitions.length, 64);
    t.equal(new Set(partitions.map(({ owner }) => owner)).size, 1);
    const { streams } = await get<StreamList>('streams');
    t.match(
      streams.map(({ name }) => name.replace(/^.*_/, '')),
      ['CMD', 'EVT', 'WORK'],
    );
    t.ok(streams.some(({ consumers }) => consumers.length > 0));
    t.match(await get('providers'), { providers: [{ name: 'local', cost_last_hour_micros: 0 }] });
  },
);
