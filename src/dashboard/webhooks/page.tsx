/** Webhooks of a project: where its events go, and what became of each that was sent. */
import { place, setQuery } from '../router.ts';
import { useStore } from '../store.ts';
import { PageHead } from '../ui/page.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { Deliveries } from './deliveries.tsx';
import { Endpoint } from './endpoint.tsx';
import './webhooks.css';

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const tab = useStore(place, ({ query }) => (query.get('tab') === 'deliveries' ? 'deliveries' : 'endpoint'));
  return (
    <>
      <PageHead title="Webhooks">
        What happens to your assets, told to your server: signed, each event at least once, tried five times.{' '}
        <a href="/docs/webhooks" target="_blank" rel="noreferrer">
          How to receive them
        </a>
      </PageHead>
      <Tabs
        label="Webhooks"
        tabs={[
          { name: 'endpoint', label: 'Endpoint' },
          { name: 'deliveries', label: 'Deliveries' },
        ]}
        current={tab}
        onChange={(name) =>
          setQuery({
            tab: name === 'endpoint' ? undefined : name,
            status: undefined,
            event: undefined,
            asset: undefined,
            delivery: undefined,
          })
        }
      >
        {tab === 'endpoint' ? <Endpoint projectId={projectId} /> : <Deliveries projectId={projectId} />}
      </Tabs>
    </>
  );
}
