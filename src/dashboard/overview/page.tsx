/** The overview of a project. */
import { useProject } from '../project.ts';
import { PageHead } from '../ui/page.tsx';

export function Page({ params }: { params: { projectId: string } }) {
  const project = useProject(params.projectId);
  return <PageHead title={project.name} />;
}
