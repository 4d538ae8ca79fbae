/** Finds what an id belongs to: an id of ours by its prefix, anything else as a request, a prediction or an e-mail. */
import { operator as limits } from '../../schemas/limits.ts';
import type { Found } from '../../schemas/operator-console.ts';
import type { ConsolePorts } from './ports.ts';
import { contextOf } from './rows.ts';

const base = '/dashboard/operator';

export function createSearch({ store, providers }: Pick<ConsolePorts, 'store' | 'providers'>) {
  const { operatorViews: views, projects, users, predictions, bulkJobs } = store;

  const finders: Record<string, (id: string) => Promise<Found[]>> = {
    async ast(id) {
      const found = await views.find('asset', id);
      return found ? [machine('asset', id, `asset, ${found.state}`)] : [];
    },
    async dlv(id) {
      const found = await views.find('delivery', id);
      return found ? [machine('delivery', id, `delivery, ${found.state}`)] : [];
    },
    async evt(id) {
      const found = await views.ofEvent(id, limits.maxFound);
      return found.map((one) =>
        machine('delivery', one._id, `delivery of ${contextOf(one).eventType ?? 'an event'}, ${one.state}`),
      );
    },
    async prj(id) {
      const found = await projects.find(id);
      return found ? [toProject(found)] : [];
    },
    async pk(key) {
      const found = await projects.findByKey(key);
      return found ? [toProject(found)] : [];
    },
    async usr(id) {
      const found = await users.find(id);
      return found ? [toUser(found)] : [];
    },
    async blk(id) {
      const found = await bulkJobs.find(id);
      const isThere = found && found.state !== 'preview';
      return isThere
        ? [
            {
              type: 'bulk',
              id,
              text: `bulk ${found.action.action}, ${found.state}`,
              page: `${base}/bulk/${id}`,
            },
          ]
        : [];
    },
  };

  const byAnything = async (text: string): Promise<Found[]> => {
    const [assets, deliveries, jobs, user] = await Promise.all([
      views.ofRequest('asset', text, 1),
      views.ofRequest('delivery', text, 1),
      predictions.byJobId(text, providers),
      text.includes('@') ? users.findByEmail(text.toLowerCase()) : undefined,
    ]);
    const isRequest = assets.length + deliveries.length > 0;
    return [
      ...(isRequest ? [toRequest(text)] : []),
      ...jobs.map(({ token, provider, jobId = text }): Found => {
        const [asset = ''] = token.split('-');
        const about = `prediction of ${provider} for ${asset}`;
        return { type: 'prediction', id: jobId, text: about, page: `${base}/machines/asset/${asset}` };
      }),
      ...(user ? [toUser(user)] : []),
    ];
  };

  return async (text: string): Promise<Found[]> => {
    const [, prefix = ''] = /^([a-z]{2,3})_\w+$/.exec(text) ?? [];
    const finder = finders[prefix];
    const [own, others] = await Promise.all([finder ? finder(text) : [], byAnything(text)]);
    return [...own, ...others].slice(0, limits.maxFound);
  };
}

function machine(type: 'asset' | 'delivery', id: string, text: string): Found {
  return { type, id, text, page: `${base}/machines/${type}/${id}` };
}

function toProject({ id, name }: { id: string; name: string }): Found {
  return { type: 'project', id, text: `project ${name}, its assets`, page: `${base}/machines?project=${id}` };
}

function toUser({ id, email }: { id: string; email: string }): Found {
  return { type: 'user', id, text: email, page: `${base}/users/${id}` };
}

function toRequest(id: string): Found {
  return { type: 'request', id, text: 'request', page: `${base}/requests/${encodeURIComponent(id)}` };
}
