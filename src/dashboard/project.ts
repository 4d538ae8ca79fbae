/** The user's projects, and the one that is worked on: the address names it, and it is remembered for the next visit. */
import { createStore } from '@xstate/store';
import { useRef } from 'preact/hooks';
import type { Project } from '../../schemas/project.ts';
import { get } from './api.ts';
import { keep, recall } from './settings.ts';
import { useStore } from './store.ts';

type ProjectsState = {
  /** Oldest first; undefined until they are read. */
  projects: readonly Project[] | undefined;
  currentId: string | undefined;
};

export const projects = createStore({
  context: { projects: undefined, currentId: undefined } as ProjectsState,
  on: {
    listed: (context, { projects }: { projects: Project[] }) => ({ ...context, projects }),
    chosen: (context, { id }: { id: string }) => ({ ...context, currentId: id }),
    /** Changes fields of a project that were saved. */
    changed: (context, { id, fields }: { id: string; fields: Partial<Project> }) => ({
      ...context,
      projects: context.projects?.map((one) => (one.id === id ? { ...one, ...fields } : one)),
    }),
    forgotten: () => ({ projects: undefined, currentId: undefined }),
  },
});

/** @throws {ApiError} */
export async function loadProjects(): Promise<void> {
  const { projects: listed } = await get<{ projects: Project[] }>('/api/projects');
  projects.trigger.listed({ projects: listed });
}

/** Works on this project from now on. */
export function chooseProject(id: string): void {
  if (projects.getSnapshot().context.currentId === id) return;
  keep('project', id);
  projects.trigger.chosen({ id });
}

export function findProject({ projects, currentId }: ProjectsState, id = currentId): Project | undefined {
  return projects?.find((one) => one.id === id);
}

/**
 * The project of a page; the last there was when it has just gone.
 *
 * @throws when there never was one: the frame shows pages of a project only once it is known.
 */
export function useProject(id: string): Project {
  const found = useStore(projects, (context) => findProject(context, id));
  const last = useRef(found);
  last.current = found ?? last.current;
  if (!last.current) throw new Error(`no project ${id}`);
  return last.current;
}

/** Where a visit without a project begins: the one worked on last, else the default. */
export function firstProject({ projects, currentId }: ProjectsState): Project | undefined {
  const wanted = currentId ?? recall('project');
  return (
    projects?.find(({ id }) => id === wanted) ?? projects?.find(({ isDefault }) => isDefault) ?? projects?.[0]
  );
}

/** The origins that may play, which answers hold as the JSON text of an array. */
export function originsOf({ allowed_origins: text }: Pick<Project, 'allowed_origins'>): string[] {
  return text === null ? [] : (JSON.parse(text) as string[]);
}
