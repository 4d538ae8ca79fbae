/** Another project. */
import { useState } from 'preact/hooks';
import type { Project } from '../../../schemas/project.ts';
import { post } from '../api.ts';
import { paths } from '../paths.ts';
import { loadProjects } from '../project.ts';
import { navigate } from '../router.ts';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Field, Form } from '../ui/field.tsx';
import { issueOf, Problem } from '../ui/messages.tsx';
import { PageHead } from '../ui/page.tsx';
import { useSend } from '../ui/use-request.ts';

export function Page() {
  const [name, setName] = useState('');
  const [domain, setDomain] = useState('');
  const { send, isBusy, error } = useSend(async () => {
    const domains = domain.trim() === '' ? [] : [domain.trim()];
    const { project } = await post<{ project: Project }>('/api/projects', { name, domains }, { once: true });
    await loadProjects();
    navigate(paths.overview(project.id));
  });
  return (
    <>
      <PageHead title="New project">
        A project is one site or app: it has its own brand, key, webhooks and animations.
      </PageHead>
      <div class="narrow">
        <Form onSubmit={() => void send()}>
          <Field
            label="Name"
            value={name}
            onInput={setName}
            required
            maxLength={settings.limits.projectNameMaxChars}
            error={issueOf(error, 'name')}
            autoFocus
          />
          <Field
            label="Domain (optional)"
            placeholder="example.com"
            value={domain}
            onInput={setDomain}
            maxLength={settings.limits.domainMaxChars}
            isCode
            hint="Where the animations will be shown. Brand detection reads it too."
            error={issueOf(error, 'domains')}
          />
          <Problem error={error} />
          <Button type="submit" look="main" isBusy={isBusy}>
            Create the project
          </Button>
        </Form>
      </div>
    </>
  );
}
