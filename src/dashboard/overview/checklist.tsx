/** What a new project still needs; each line ticks itself when it happens, wherever it was done. */
import type { ComponentChildren } from 'preact';
import { Icon } from '../ui/icon.tsx';

export type Step = {
  name: string;
  title: string;
  isDone: boolean;
  /** Done just now, and its outcome is to be seen. */
  isShown?: boolean | undefined;
  /** What to do, shown for the first that is not done. */
  children: ComponentChildren;
};

export function Checklist({ steps }: { steps: readonly Step[] }) {
  const next = steps.find(({ isDone }) => !isDone)?.name;
  const done = steps.filter(({ isDone }) => isDone).length;
  return (
    <section class="checklist" aria-label="First steps">
      <header class="row">
        <h2>First steps</h2>
        <span class="note number">
          {done} of {steps.length}
        </span>
      </header>
      <ol>
        {steps.map(({ name, title, isDone, isShown, children }) => (
          <li key={name} data-done={isDone || undefined} data-next={name === next || undefined}>
            <span class="tick">{isDone ? <Icon name="check" /> : null}</span>
            <div>
              <h3>
                {title}
                {isDone && <span class="unseen"> (done)</span>}
              </h3>
              {(!isDone || isShown) && <div class="stack step-body">{children}</div>}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
