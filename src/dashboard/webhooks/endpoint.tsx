/** Where webhooks go and which, the secret that signs them, and a test with its answer beside it. */
import { useEffect, useState } from 'preact/hooks';
import type { WebhookEvent } from '../../../schemas/events.ts';
import type { WebhookConfig } from '../../../schemas/webhook.ts';
import { post, put } from '../api.ts';
import { Button } from '../ui/button.tsx';
import { Secret } from '../ui/code.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Form, Switch } from '../ui/field.tsx';
import { issueOf, Notice, Problem, Skeleton } from '../ui/messages.tsx';
import { Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useRead, useSend } from '../ui/use-request.ts';
import { TestSection } from './test.tsx';

type Saved = WebhookConfig & { webhook_secret?: string };

export function Endpoint({ projectId }: { projectId: string }) {
  const path = `/api/projects/${projectId}/webhooks`;
  const { data, error, reload } = useRead<WebhookConfig>(path);
  const [saved, setSaved] = useState<Saved>();
  // What is read anew, e.g. after a test has switched it on, is newer than what was saved here.
  useEffect(() => setSaved(undefined), [data]);
  const config = saved ?? data;
  const [secret, setSecret] = useState<string>();
  if (!config) return error ? <Problem error={error} onRetry={reload} /> : <Skeleton lines={8} />;
  return (
    <>
      <State config={config} />
      <Section
        title="Endpoint"
        about="An address of yours that takes POST requests and answers with 2xx within 10 seconds."
      >
        <Settings
          key={`${config.webhook_url} ${config.webhooks_enabled}`}
          path={path}
          config={config}
          onSaved={(answer) => {
            setSaved(answer);
            if (answer.webhook_secret) setSecret(answer.webhook_secret);
          }}
        />
      </Section>
      <Section
        title="Signing secret"
        about="Proves that a request comes from here. After a rotation the old secret signs beside the new one for 24 hours."
      >
        <SigningSecret
          path={path}
          preview={config.webhook_secret_preview}
          secret={secret}
          onRotated={(fresh) => {
            setSecret(fresh);
            reload();
          }}
        />
      </Section>
      <Section
        title="Test"
        about="Sends an event of the type asset.test, whatever is subscribed, and shows what comes back."
      >
        <TestSection projectId={projectId} hasUrl={config.webhook_url !== null} onDelivered={reload} />
      </Section>
    </>
  );
}

/** Why nothing is sent, and what to do about it. */
function State({ config }: { config: WebhookConfig }) {
  const { webhook_url: url, webhooks_enabled: isEnabled, webhook_events: events } = config;
  if (url === null) {
    return <Notice>Nothing is sent: there is no endpoint yet. Save an address, then send a test.</Notice>;
  }
  if (!isEnabled) {
    return (
      <Notice tone="wait">
        Webhooks are off, so events are not sent. They turn on by themselves when the first test after saving
        a new address is delivered, or with the switch below.
      </Notice>
    );
  }
  if (events.length === 0)
    return <Notice tone="wait">No event is subscribed: choose at least one below.</Notice>;
  return (
    <Notice tone="good">
      On: {events.length} of {Object.keys(eventWords).length} events go to {new URL(url).host}.
    </Notice>
  );
}

const eventWords: Record<WebhookEvent, string> = {
  'asset.queued': 'A run was accepted',
  'asset.stage_completed': 'A stage is done',
  'asset.completed': 'The animation is ready',
  'asset.failed': 'The run failed for good',
  'asset.retry_scheduled': 'An attempt failed and is made again',
};

function Settings(props: { path: string; config: WebhookConfig; onSaved(answer: Saved): void }) {
  const { path, config, onSaved } = props;
  const [url, setUrl] = useState(config.webhook_url ?? '');
  const [events, setEvents] = useState<readonly WebhookEvent[]>(config.webhook_events);
  const [isEnabled, enable] = useState(config.webhooks_enabled);
  const { send, isBusy, error } = useSend(async () => {
    const wanted = url.trim();
    const body = {
      webhook_url: wanted === '' ? null : wanted,
      webhook_events: events,
      webhooks_enabled: wanted !== '' && isEnabled,
    };
    onSaved(await put<Saved>(path, body));
    say('Saved');
  });
  const toggle = (event: WebhookEvent) =>
    setEvents(events.includes(event) ? events.filter((one) => one !== event) : [...events, event]);
  return (
    <Form onSubmit={() => void send()} label="Endpoint">
      <Field
        label="Address"
        type="url"
        placeholder="https://example.com/hooks/animations"
        value={url}
        onInput={setUrl}
        isCode
        error={issueOf(error, 'webhook_url')}
        hint="Leave it empty to send nothing."
      />
      <fieldset class="event-choices">
        <legend>Events</legend>
        {(Object.keys(eventWords) as WebhookEvent[]).map((event) => (
          <label key={event}>
            <input type="checkbox" checked={events.includes(event)} onChange={() => toggle(event)} />
            <span>
              {eventWords[event]} <code>{event}</code>
            </span>
          </label>
        ))}
      </fieldset>
      <Switch
        label="Send events"
        hint="While it is off, tests alone are sent. What waits is cancelled then, and can be sent again later."
        isOn={isEnabled}
        onChange={enable}
      />
      <Problem error={error} />
      <div class="row">
        <Button type="submit" look="main" isBusy={isBusy}>
          Save
        </Button>
      </div>
    </Form>
  );
}

function SigningSecret(props: {
  path: string;
  preview: string | null;
  secret: string | undefined;
  onRotated(secret: string): void;
}) {
  const { path, preview, secret, onRotated } = props;
  const [isAsking, ask] = useState(false);
  const { send, isBusy, error } = useSend(async () => {
    const { webhook_secret: fresh } = await post<{ webhook_secret: string }>(`${path}/rotate-secret`);
    ask(false);
    onRotated(fresh);
  });
  return (
    <>
      {secret ? (
        <Secret text={secret} label="Signing secret" />
      ) : (
        <p class="note">{preview ? <code>{preview}</code> : 'Made with the first address that is saved.'}</p>
      )}
      {preview && (
        <div class="row">
          <Button icon="refresh" onClick={() => ask(true)}>
            Rotate the secret
          </Button>
        </div>
      )}
      <Confirm
        title="Rotate the signing secret?"
        isOpen={isAsking}
        action="Make a new secret"
        isBusy={isBusy}
        onConfirm={() => void send()}
        onClose={() => ask(false)}
      >
        <p>
          The new secret is shown once. For 24 hours both sign, so that your server can change over without
          losing an event.
        </p>
        <Problem error={error} />
      </Confirm>
    </>
  );
}
