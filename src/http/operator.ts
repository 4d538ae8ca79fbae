/**
 * What operators do with accounts (decisions 7, Changing plans; decisions 10, Operator). Everybody else is answered
 * as if nothing was here: see server.ts. Every change is in the audit.
 */
import { ErrorBody, ValidationErrorBody } from '../../schemas/errors.ts';
import { operator as limits } from '../../schemas/limits.ts';
import {
  AuditList,
  AuditQuery,
  Mailbox,
  MailboxQuery,
  OperatorUserList,
  OperatorUserResponse,
  OperatorUsersQuery,
  PlanChangeRequest,
  ProviderStatusList,
  QuotaChangeRequest,
} from '../../schemas/operator.ts';
import { OkResponse } from '../../schemas/user.ts';
import type { Session } from '../auth/sessions.ts';
import { changePlan, changeUsed, describeUser, summarise } from '../operator/accounts.ts';
import { toEntry } from '../operator/audit-entry.ts';
import type { Author } from '../store/audit.ts';
import { badCursor, pageOf, parseCursor } from './cursor.ts';
import { type AnyRoute, reply, route } from './route.ts';
import type { Services } from './services.ts';

const listUsers = route({
  method: 'get',
  path: '/api/operator/users',
  summary: 'Find accounts, newest first',
  auth: 'operator',
  query: OperatorUsersQuery,
  responses: { 200: OperatorUserList, 400: ValidationErrorBody },
  async handle({ query }, { store, now }) {
    const after = parseCursor(query.cursor);
    if (after === null) return reply(400, badCursor);
    const limit = query.limit ?? limits.defaultListed;
    const filter = { email: query.email, text: query.q };
    const found = await store.users.list(filter, limit + 1, after);
    const { entries, nextCursor } = pageOf(found, limit, (user) => user);
    return reply(200, { users: entries.map((user) => summarise(user, now())), next_cursor: nextCursor });
  },
});

const readUser = route({
  method: 'get',
  path: '/api/operator/users/:id',
  summary: 'Read an account and what it has used',
  auth: 'operator',
  responses: { 200: OperatorUserResponse, 404: ErrorBody },
  handle: ({ id }, services) => answerUser(id, services),
});

const setPlan = route({
  method: 'put',
  path: '/api/operator/users/:id/plan',
  summary: 'Change the plan of an account, at once',
  auth: 'operator',
  body: PlanChangeRequest,
  responses: { 200: OperatorUserResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ id, body, session, requestId }, services) {
    const change = { plan: body.plan, billingDay: body.billing_day };
    const author = authorOf(session, requestId);
    const isChanged = await changePlan(services.store, id, change, author, services.now());
    return isChanged ? answerUser(id, services) : reply(404, notFound);
  },
});

const setQuota = route({
  method: 'put',
  path: '/api/operator/users/:id/quota',
  summary: 'Set the runs that count as used in the present month',
  auth: 'operator',
  body: QuotaChangeRequest,
  responses: { 200: OperatorUserResponse, 400: ValidationErrorBody, 404: ErrorBody },
  async handle({ id, body, session, requestId }, services) {
    const author = authorOf(session, requestId);
    const isChanged = await changeUsed(services.store, id, body.used, author, services.now());
    return isChanged ? answerUser(id, services) : reply(404, notFound);
  },
});

const endSessions = route({
  method: 'delete',
  path: '/api/operator/users/:id/sessions',
  summary: 'End every session of an account',
  auth: 'operator',
  responses: { 200: OkResponse, 404: ErrorBody },
  async handle({ id, session, requestId }, { store, sessions, onSessionsEnded, now }) {
    const author = authorOf(session, requestId);
    if (!(await store.operatorChanges.endSessions(id, author, now()))) return reply(404, notFound);
    sessions.forgetUser(id);
    await onSessionsEnded(id);
    return reply(200, { ok: true });
  },
});

const listAudit = route({
  method: 'get',
  path: '/api/operator/audit',
  summary: 'List what operators have changed, newest first',
  auth: 'operator',
  query: AuditQuery,
  responses: { 200: AuditList, 400: ValidationErrorBody },
  async handle({ query }, { store }) {
    const after = parseCursor(query.cursor);
    if (after === null) return reply(400, badCursor);
    const limit = query.limit ?? limits.defaultListed;
    const found = await store.audit.list(
      limit + 1,
      query.user_id,
      after && { ts: after.createdTs, id: after.id },
    );
    const { entries, nextCursor } = pageOf(found, limit, ({ ts, id }) => ({ createdTs: ts, id }));
    return reply(200, { entries: entries.map(toEntry), next_cursor: nextCursor });
  },
});

const listMails = route({
  method: 'get',
  path: '/api/operator/mailbox',
  summary: 'List the mails that were kept because no mail server is configured, newest first',
  auth: 'operator',
  query: MailboxQuery,
  responses: { 200: Mailbox, 400: ValidationErrorBody },
  async handle({ query }, { store }) {
    const found = await store.mailbox.list(query.limit ?? limits.defaultListed);
    const mails = found.map(({ ts, ...mail }) => ({ ...mail, created_at: new Date(ts).toISOString() }));
    return reply(200, { mails });
  },
});

const listProviders = route({
  method: 'get',
  path: '/api/operator/providers',
  summary: 'See how the model providers are doing',
  auth: 'operator',
  responses: { 200: ProviderStatusList },
  async handle(_input, { providerStatus }) {
    return reply(200, { providers: await providerStatus() });
  },
});

export const operatorRoutes: AnyRoute[] = [
  listUsers,
  readUser,
  setPlan,
  setQuota,
  endSessions,
  listAudit,
  listMails,
  listProviders,
];

const notFound = { error: 'not found' };

async function answerUser(id: string, { store, now }: Services) {
  const user = await describeUser(store, id, now());
  return user ? reply(200, { user }) : reply(404, notFound);
}

export function authorOf({ user }: Session, requestId: string): Author {
  return { by: user.id, byEmail: user.email, requestId };
}
