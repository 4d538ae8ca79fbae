/** Light, dark, or as the system has it. index.html applies what is kept before anything is painted. */
import { createStore } from '@xstate/store';
import { keep, recall } from './settings.ts';

export type Theme = 'system' | 'light' | 'dark';

const read = (): Theme => {
  const kept = recall('theme');
  return kept === 'light' || kept === 'dark' ? kept : 'system';
};

export const theme = createStore({
  context: { theme: read() },
  on: {
    chosen: (_, { theme }: { theme: Theme }) => ({ theme }),
  },
});

export function chooseTheme(chosen: Theme): void {
  keep('theme', chosen === 'system' ? undefined : chosen);
  apply(chosen);
}

function apply(chosen: Theme): void {
  if (chosen === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
  theme.trigger.chosen({ theme: chosen });
}

// Another tab has chosen.
addEventListener('storage', ({ key }) => {
  if (key === 'theme') apply(read());
});
