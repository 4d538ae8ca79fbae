/** Who may show a project's animations, and what they are when nothing else is said. */
import { useState } from 'preact/hooks';
import type { Project } from '../../../schemas/project.ts';
import { isOriginAllowed, normaliseHost, normaliseOrigin } from '../../auth/origins.ts';
import { modes, motions, secondsChoices } from '../options.ts';
import { paths } from '../paths.ts';
import { originsOf, useProject } from '../project.ts';
import { session } from '../session.ts';
import { settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { CopyLine, Secret } from '../ui/code.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Segments, Select, Switch } from '../ui/field.tsx';
import { ListField } from '../ui/list-field.tsx';
import { issueOf, Notice, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatMoney } from '../ui/value.tsx';
import { rotateProxyKey, rotateSigningSecret, saveProxy } from './save.ts';

type Part = { project: Project };

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  return (
    <>
      <PageHead title="Proxy">
        Pages play your animations through <code>/v1/{project.proxy_key ?? 'pk_…'}/…</code>. The key is
        public: the sites you list, or signatures you make, are what keeps it yours.
      </PageHead>
      <Origins project={project} />
      <Key project={project} />
      <Signing project={project} />
      <Defaults project={project} />
      <Sources project={project} />
      <Overage project={project} />
    </>
  );
}

function Origins({ project }: Part) {
  const saved = originsOf(project);
  const [origins, setOrigins] = useState<readonly string[]>(saved);
  const isChanged = origins.join('\n') !== saved.join('\n');
  const { send, isBusy, error } = useSend(async () => {
    await saveProxy(project.id, { allowed_origins: [...origins] });
    say('Saved: it holds within a second');
  });
  return (
    <Section
      title="Sites that may play"
      id="origins"
      about={
        <>
          A site stands for its subdomains too. <code>https://example.com</code> means that scheme and its
          port alone, <code>example.com</code> any scheme and port.
        </>
      }
    >
      <ListField
        label="Add a site"
        items={origins}
        onChange={setOrigins}
        judge={judgeOrigin}
        placeholder="https://example.com"
        empty="No site yet: pages cannot play anything without a signature."
        error={issueOf(error, 'allowed_origins')}
      />
      <Problem error={error} />
      {isChanged && (
        <div class="row">
          <Button look="main" isBusy={isBusy} onClick={() => void send()}>
            Save the sites
          </Button>
          <Button look="quiet" onClick={() => setOrigins(saved)}>
            Undo
          </Button>
        </div>
      )}
      <OriginTester origins={origins} isChanged={isChanged} />
    </Section>
  );
}

function judgeOrigin(text: string): { text: string } | { error: string } {
  const normal = normaliseOrigin(text) ?? normaliseOrigin(text.replace(/\/+$/, ''));
  return normal === undefined
    ? { error: 'A scheme and a host is needed, such as https://example.com: no path, no asterisk.' }
    : { text: normal };
}

/** Asks the very rule that the proxy asks. */
function OriginTester({ origins, isChanged }: { origins: readonly string[]; isChanged: boolean }) {
  const [text, setText] = useState('');
  const origin = URL.canParse(text) ? new URL(text).origin : undefined;
  const isAllowed = origin !== undefined && isOriginAllowed(origins, origin);
  return (
    <div class="stack">
      <Field
        label="Would a page pass?"
        value={text}
        onInput={setText}
        placeholder="https://shop.example.com/cart"
        isCode
        hint="The address of a page that shows an animation."
      />
      <div aria-live="polite">
        {text !== '' && (origin === undefined || origin === 'null') && (
          <Notice>That is no address of a page: begin with https://</Notice>
        )}
        {origin !== undefined && origin !== 'null' && (
          <Notice tone={isAllowed ? 'good' : 'bad'}>
            <code>{origin}</code> {isAllowed ? 'passes' : 'does not pass: 403 origin not allowed'}
            {isChanged && ', once the list is saved'}.
          </Notice>
        )}
      </div>
    </div>
  );
}

function Key({ project }: Part) {
  const [isAsking, ask] = useState(false);
  const make = useSend(() => saveProxy(project.id, {}));
  const rotate = useSend(async () => {
    await rotateProxyKey(project.id);
    ask(false);
    say('The key is replaced');
  });
  return (
    <Section title="Project key" about="Part of every address. It is no secret.">
      {project.proxy_key ? (
        <>
          <CopyLine text={project.proxy_key} label="Project key" />
          <div>
            <Button icon="refresh" onClick={() => ask(true)}>
              Replace the key
            </Button>
          </div>
        </>
      ) : (
        <div>
          <Button look="main" isBusy={make.isBusy} onClick={() => void make.send()}>
            Make the key
          </Button>
        </div>
      )}
      <Problem error={make.error} />
      <Confirm
        title="Replace the project key?"
        isOpen={isAsking}
        action="Replace it"
        isBusy={rotate.isBusy}
        onConfirm={() => void rotate.send()}
        onClose={() => ask(false)}
      >
        <p>
          Every address with <code>{project.proxy_key}</code> stops working at once, on every page that has
          one.
        </p>
        <Problem error={rotate.error} />
      </Confirm>
    </Section>
  );
}

function Signing({ project }: Part) {
  const [secret, setSecret] = useState<string>();
  const [asked, ask] = useState<'off' | 'rotate'>();
  const change = useSend(async (isOn: boolean) => {
    setSecret((await saveProxy(project.id, { enable_signing: isOn })) ?? undefined);
    ask(undefined);
  });
  const rotate = useSend(async () => {
    setSecret(await rotateSigningSecret(project.id));
    ask(undefined);
  });
  return (
    <Section
      title="Signed addresses"
      id="signing"
      about={
        <>
          For apps, mails and anything that is no page. Your server signs; see the{' '}
          <a href={paths.embed(project.id)}>snippets</a>.
        </>
      }
    >
      <Switch
        label="Accept signed addresses"
        hint={
          project.signing_enabled
            ? 'On. Only your server knows the secret.'
            : 'Off: every signed address is refused.'
        }
        isOn={project.signing_enabled}
        disabled={change.isBusy}
        onChange={(isOn) => (isOn ? void change.send(true) : ask('off'))}
      />
      {secret && <Secret text={secret} label="Signing secret" />}
      {project.signing_enabled && (
        <div>
          <Button icon="refresh" onClick={() => ask('rotate')}>
            Replace the secret
          </Button>
        </div>
      )}
      {asked === undefined && <Problem error={change.error} />}
      <Confirm
        title="Replace the signing secret?"
        isOpen={asked === 'rotate'}
        action="Replace it"
        isBusy={rotate.isBusy}
        onConfirm={() => void rotate.send()}
        onClose={() => ask(undefined)}
      >
        <p>Addresses signed with the present secret stop working at once, whatever their end.</p>
        <Problem error={rotate.error} />
      </Confirm>
      <Confirm
        title="Refuse signed addresses?"
        isOpen={asked === 'off'}
        action="Switch signing off"
        isBusy={change.isBusy}
        onConfirm={() => void change.send(false)}
        onClose={() => ask(undefined)}
      >
        <p>The secret is thrown away, and every signed address stops working at once.</p>
        <Problem error={change.error} />
      </Confirm>
    </Section>
  );
}

function Defaults({ project }: Part) {
  const { send, error } = useSend(async (change: Parameters<typeof saveProxy>[1]) => {
    await saveProxy(project.id, change);
    say('Saved');
  });
  return (
    <Section
      title="Defaults"
      about="What a request gets that names no option. Addresses that are known already stay what they are."
    >
      <Segments
        label="Motion"
        value={project.default_motion ?? 'subtle'}
        choices={motions}
        onChange={(default_motion) => void send({ default_motion })}
      />
      <Segments
        label="Mode"
        value={project.default_mode ?? 'loop'}
        choices={modes}
        onChange={(default_mode) => void send({ default_mode })}
      />
      <Select
        label="Length"
        value={String(project.default_dur_seconds ?? settings.limits.defaultSeconds)}
        choices={secondsChoices}
        onChange={(seconds) => void send({ default_dur_seconds: Number(seconds) })}
      />
      <Problem error={error} />
    </Section>
  );
}

function Sources({ project }: Part) {
  const saved = project.source_hosts ?? [];
  const [hosts, setHosts] = useState<readonly string[]>(saved);
  const { send, isBusy, error } = useSend(async () => {
    await saveProxy(project.id, { source_hosts: hosts.length > 0 ? [...hosts] : null });
    say('Saved');
  });
  const isChanged = hosts.join('\n') !== saved.join('\n');
  return (
    <Section
      title="Where images may come from"
      about="A program can claim to be any page. Listing the hosts of your images bounds what a stranger could have animated at your cost."
    >
      <ListField
        label="Add a host"
        items={hosts}
        onChange={setHosts}
        judge={(text) => {
          const host = normaliseHost(text);
          return host === undefined
            ? { error: 'A host is needed, such as images.example.com.' }
            : { text: host };
        }}
        placeholder="images.example.com"
        empty="Any host."
        error={issueOf(error, 'source_hosts')}
      />
      <Problem error={error} />
      {isChanged && (
        <div class="row">
          <Button look="main" isBusy={isBusy} onClick={() => void send()}>
            Save the hosts
          </Button>
          <Button look="quiet" onClick={() => setHosts(saved)}>
            Undo
          </Button>
        </div>
      )}
    </Section>
  );
}

function Overage({ project }: Part) {
  const plan = useStore(session, (context) => context.profile?.plan ?? 'free');
  const { overageCents } = settings.plans[plan];
  const savedCap = project.overage_cap_cents === null ? '' : String(project.overage_cap_cents / 100);
  const [cap, setCap] = useState(savedCap);
  const save = useSend(async (change: Parameters<typeof saveProxy>[1]) => {
    await saveProxy(project.id, change);
    say('Saved');
  });
  const cents = Math.round(Number(cap) * 100);
  return (
    <Section
      title="Past the monthly limit"
      about="New animations are refused past the plan’s number, unless you let this project go on at a price. What is made already always plays."
    >
      {overageCents === null ? (
        <Notice action={<a href={paths.usage}>Plans</a>}>The free plan has no overage.</Notice>
      ) : (
        <>
          <Switch
            label={`Go on at ${formatMoney(overageCents)} for each animation`}
            isOn={project.overage_enabled}
            disabled={save.isBusy}
            onChange={(overage_enabled) => void save.send({ overage_enabled })}
          />
          {project.overage_enabled && (
            <form
              onSubmit={(event) => {
                event.preventDefault();
                void save.send({ overage_cap_cents: cap === '' ? null : cents });
              }}
            >
              <Field
                label="At most, in dollars a month"
                type="number"
                min={0}
                step={0.01}
                value={cap}
                onInput={setCap}
                placeholder="No bound"
                after={cap === savedCap ? undefined : <Button type="submit">Save</Button>}
              />
            </form>
          )}
        </>
      )}
      <Problem error={save.error} />
    </Section>
  );
}
