/** Name, domains and the end of a project. */
import { useState } from 'preact/hooks';
import type { Project, UpdateProjectRequest } from '../../../schemas/project.ts';
import { normaliseHost } from '../../auth/origins.ts';
import { put, remove } from '../api.ts';
import { paths } from '../paths.ts';
import { loadProjects, projects, useProject } from '../project.ts';
import { navigate } from '../router.ts';
import { settings } from '../settings.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { CopyLine } from '../ui/code.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Field, Form, Switch } from '../ui/field.tsx';
import { ListField } from '../ui/list-field.tsx';
import { issueOf, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  const isOnly = useStore(projects, (context) => context.projects?.length === 1);
  return (
    <>
      <PageHead title="Settings" />
      <Name project={project} />
      <Domains project={project} />
      <Section title="Default project" about="Where the dashboard begins when nothing else was open.">
        <IsDefault project={project} isOnly={isOnly} />
      </Section>
      <Section title="Id" about="For the API: every request about this project names it.">
        <CopyLine text={project.id} label="Id of the project" />
      </Section>
      <Removal project={project} />
    </>
  );
}

const save = async (project: Project, change: UpdateProjectRequest) => {
  await put(`/api/projects/${project.id}`, change);
  await loadProjects();
  say('Saved');
};

function Name({ project }: { project: Project }) {
  const [name, setName] = useState(project.name);
  const { send, isBusy, error } = useSend(() => save(project, { name }));
  return (
    <Section title="Name">
      <Form onSubmit={() => void send()}>
        <Field
          label="Name"
          value={name}
          onInput={setName}
          required
          maxLength={settings.limits.projectNameMaxChars}
          error={issueOf(error, 'name')}
        />
        <Problem error={error} />
        <Button type="submit" isBusy={isBusy} disabled={name.trim() === project.name}>
          Save the name
        </Button>
      </Form>
    </Section>
  );
}

function Domains({ project }: { project: Project }) {
  const [domains, setDomains] = useState<readonly string[]>(project.domains);
  const { send, isBusy, error } = useSend(() => save(project, { domains: [...domains] }));
  const isChanged = domains.join('\n') !== project.domains.join('\n');
  return (
    <Section
      title="Domains"
      about={
        <>
          Where this project lives, for people and for brand detection. Who may play is decided by the{' '}
          <a href={paths.proxy(project.id)}>sites of the proxy</a>.
        </>
      }
    >
      <ListField
        label="Add a domain"
        items={domains}
        onChange={setDomains}
        judge={(text) => {
          const host = normaliseHost(URL.canParse(text) ? new URL(text).hostname : text);
          return host === undefined ? { error: 'A domain is needed, such as example.com.' } : { text: host };
        }}
        placeholder="example.com"
        error={issueOf(error, 'domains')}
      />
      <Problem error={error} />
      {isChanged && (
        <div class="row">
          <Button look="main" isBusy={isBusy} onClick={() => void send()}>
            Save the domains
          </Button>
          <Button look="quiet" onClick={() => setDomains(project.domains)}>
            Undo
          </Button>
        </div>
      )}
    </Section>
  );
}

function IsDefault({ project, isOnly }: { project: Project; isOnly: boolean }) {
  const { send, isBusy, error } = useSend((isDefault: boolean) => save(project, { isDefault }));
  return (
    <>
      <Switch
        label="This is the default project"
        hint={isOnly ? 'The only project always is.' : undefined}
        isOn={project.isDefault}
        disabled={isBusy || isOnly}
        onChange={(isOn) => void send(isOn)}
      />
      <Problem error={error} />
    </>
  );
}

function Removal({ project }: { project: Project }) {
  const [isAsking, ask] = useState(false);
  const [typed, type] = useState('');
  const { send, isBusy, error } = useSend(async () => {
    await remove(`/api/projects/${project.id}`);
    say(`${project.name} is deleted`);
    const others = projects.getSnapshot().context.projects?.filter(({ id }) => id !== project.id) ?? [];
    const next = others.find(({ isDefault }) => isDefault) ?? others[0];
    navigate(next ? paths.overview(next.id) : paths.newProject, { replace: true });
    await loadProjects();
  });
  return (
    <Section
      title="Delete the project"
      about="Its key stops working at once, what is being made is cancelled, webhooks end. Addresses of finished files that were handed out keep working."
    >
      <div>
        <Button look="danger" icon="bin" onClick={() => ask(true)}>
          Delete this project
        </Button>
      </div>
      <Confirm
        title={`Delete ${project.name}?`}
        isOpen={isAsking}
        action="Delete it"
        isBusy={isBusy}
        disabled={typed !== project.name}
        onConfirm={() => void send()}
        onClose={() => ask(false)}
      >
        <p>This cannot be undone. Every page that plays through its key goes blank.</p>
        <Field label={`Type “${project.name}” to go on`} value={typed} onInput={type} autoComplete="off" />
        <Problem error={error} />
      </Confirm>
    </Section>
  );
}
