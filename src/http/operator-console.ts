/**
 * The operator console: machines, what may be done to them, and how the service is doing (decisions 10, Operator).
 * Everybody else is answered as if nothing was here: see server.ts. What is done goes to the audit first.
 */
import { ErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { operator as limits } from '../../schemas/limits.ts';
import {
  BulkJobList,
  BulkJobResponse,
  BulkPreview,
  BulkPreviewRequest,
  BulkStartRequest,
  FoundList,
  MachineActionRequest,
  MachineDetail,
  MachineKind,
  MachineList,
  MachineResponse,
  MachinesQuery,
  Overview,
  PartitionList,
  RequestPage,
  SearchQuery,
  StreamList,
  WorkerList,
} from '../../schemas/operator-console.ts';
import { badCursor, pageOf, parseCursor } from './cursor.ts';
import { authorOf } from './operator.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

const readOverview = route({
  method: 'get',
  path: '/api/operator/overview',
  summary: 'How many machines are in which state, since when, and whether that is well',
  auth: 'operator',
  responses: { 200: Overview },
  async handle(_input, { operator }) {
    return reply(200, await operator.overview());
  },
});

const listMachines = route({
  method: 'get',
  path: '/api/operator/machines',
  summary: 'List machines by state, attempt, error, project, user, provider or version, or the stuck ones',
  description:
    'By state the longest in it first; of a project, user or version the newest first. Without a filter, what is under way.',
  auth: 'operator',
  query: MachinesQuery,
  responses: { 200: MachineList, 400: ValidationErrorBody },
  async handle({ query: { limit: asked, cursor, ...query } }, { operator }) {
    const after = parseCursor(cursor);
    if (after === null) return reply(400, badCursor);
    const limit = asked ?? limits.defaultListed;
    const place = after && { ts: after.createdTs, id: after.id };
    const found = await operator.list(query, limit + 1, place);
    if (!found) return reply(400, unknownState);
    const { list, records, isByAge } = found;
    const { nextCursor } = pageOf(records, limit, ({ _id: id, createdTs, enteredTs }) => ({
      createdTs: isByAge ? createdTs : enteredTs,
      id,
    }));
    return reply(200, { ...list, machines: list.machines.slice(0, limit), next_cursor: nextCursor });
  },
});

const readMachine = route({
  method: 'get',
  path: '/api/operator/machines/:kind/:id',
  summary: 'Read everything about a machine',
  auth: 'operator',
  responses: { 200: MachineDetail, 404: ErrorBody },
  async handle({ kind, id }, { operator }) {
    const known = MachineKind.safeParse(kind);
    const found = known.success ? await operator.detail(known.data, id) : undefined;
    return found ? reply(200, found) : reply(404, notFound);
  },
});

const act = route({
  method: 'post',
  path: '/api/operator/machines/:kind/:id/actions',
  summary: 'Retry, cancel, fail or redeliver',
  description: 'What each would do is said with the machine itself. 409 when it is not possible any more.',
  auth: 'operator',
  body: MachineActionRequest,
  responses: { 200: MachineResponse, 400: ValidationErrorBody, 404: ErrorBody, 409: ErrorBody },
  async handle({ kind, id, body, session, requestId }, { operator, store }) {
    const known = MachineKind.safeParse(kind);
    const document = known.success ? await store.operatorViews.find(known.data, id) : undefined;
    if (!known.success || !document) return reply(404, notFound);
    const asked = toAsked(body);
    const acted = await operator.actions.act(known.data, document, asked, authorOf(session, requestId));
    if (acted.outcome === 'refused') return reply(409, { error: `not possible: ${acted.why}` });
    const machine = await operator.row(known.data, id);
    return machine ? reply(200, { machine }) : reply(404, notFound);
  },
});

const search = route({
  method: 'get',
  path: '/api/operator/search',
  summary: 'Find what an id belongs to',
  description:
    'Ids of assets, deliveries, events, projects, users, requests, bulk jobs and providers’ predictions, project keys and e-mails.',
  auth: 'operator',
  query: SearchQuery,
  responses: { 200: FoundList, 400: ValidationErrorBody },
  async handle({ query }, { operator }) {
    return reply(200, { found: await operator.search(query.q) });
  },
});

const readRequest = route({
  method: 'get',
  path: '/api/operator/requests/:id',
  summary: 'Read everything that a request has caused',
  auth: 'operator',
  responses: { 200: RequestPage, 404: ErrorBody },
  async handle({ id }, { operator }) {
    const found = await operator.request(id);
    return found ? reply(200, found) : reply(404, notFound);
  },
});

const listPartitions = route({
  method: 'get',
  path: '/api/operator/partitions',
  summary: 'See who owns which partition, and how far it is',
  auth: 'operator',
  responses: { 200: PartitionList },
  handle: async (_input, { operator }) => reply(200, await operator.partitions()),
});

const listStreams = route({
  method: 'get',
  path: '/api/operator/streams',
  summary: 'See the streams, and what their readers have not read',
  auth: 'operator',
  responses: { 200: StreamList },
  handle: async (_input, { operator }) => reply(200, await operator.streams()),
});

const listWorkers = route({
  method: 'get',
  path: '/api/operator/workers',
  summary: 'See what the workers do, and who waits for them',
  auth: 'operator',
  responses: { 200: WorkerList },
  handle: async (_input, { operator }) => reply(200, await operator.workers()),
});

const previewBulk = route({
  method: 'post',
  path: '/api/operator/bulk/preview',
  summary: 'See what an action would do to all machines that a filter finds',
  auth: 'operator',
  body: BulkPreviewRequest,
  responses: { 200: BulkPreview, 400: ValidationErrorBody },
  async handle({ body, session, requestId }, { operator }) {
    const author = authorOf(session, requestId);
    const preview = await operator.bulk.preview(body.filter, toAsked(body), author);
    return preview ? reply(200, preview) : reply(400, unknownState);
  },
});

const startBulk = route({
  method: 'post',
  path: '/api/operator/bulk',
  summary: 'Start what was previewed',
  description: 'The token of the preview starts exactly what was shown; a second start is the same job.',
  auth: 'operator',
  body: BulkStartRequest,
  responses: { 200: BulkJobResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ body, session, requestId }, { operator }) {
    const job = await operator.bulk.start(body.token, authorOf(session, requestId));
    return job ? reply(200, { job, log: [] }) : reply(404, notFound);
  },
});

const listBulk = route({
  method: 'get',
  path: '/api/operator/bulk',
  summary: 'List bulk jobs, newest first',
  auth: 'operator',
  responses: { 200: BulkJobList },
  handle: async (_input, { operator }) => reply(200, { jobs: await operator.bulk.list() }),
});

const readBulk = route({
  method: 'get',
  path: '/api/operator/bulk/:id',
  summary: 'Read how far a bulk job is, and its log',
  auth: 'operator',
  responses: { 200: BulkJobResponse, 404: ErrorBody },
  async handle({ id }, { operator }) {
    const found = await operator.bulk.find(id);
    return found ? reply(200, found) : reply(404, notFound);
  },
});

const cancelBulk = route({
  method: 'post',
  path: '/api/operator/bulk/:id/cancel',
  summary: 'Stop a bulk job; what was told stays told',
  auth: 'operator',
  responses: { 200: BulkJobResponse, 404: ErrorBody, 409: ErrorBody },
  async handle({ id, session, requestId }, { operator }) {
    const job = await operator.bulk.cancel(id, authorOf(session, requestId));
    if (job === 'refused') return reply(409, { error: 'not possible: the job has ended' });
    return job ? reply(200, { job, log: [] }) : reply(404, notFound);
  },
});

export const operatorConsoleRoutes: AnyRoute[] = [
  readOverview,
  listMachines,
  readMachine,
  act,
  search,
  readRequest,
  listPartitions,
  listStreams,
  listWorkers,
  previewBulk,
  startBulk,
  listBulk,
  readBulk,
  cancelBulk,
];

const notFound = { error: 'not found' };
const unknownState = { error: 'state: the machine has none of that name' };

function toAsked({ action, from, reason, error_code }: MachineActionRequest) {
  return { action, from, reason, errorCode: error_code } satisfies Parameters<
    Services['operator']['actions']['act']
  >[2];
}
