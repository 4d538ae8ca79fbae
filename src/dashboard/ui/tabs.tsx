/** Several views of one thing, one at a time: arrow keys go from tab to tab. */
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import './tabs.css';

export type Tab<Name extends string> = { name: Name; label: string };

export function Tabs<const Name extends string>(props: {
  label: string;
  tabs: readonly Tab<Name>[];
  current: Name;
  onChange(name: Name): void;
  children: ComponentChildren;
}) {
  const { tabs, current, onChange } = props;
  const id = useId();
  const go = (event: KeyboardEvent, step: number) => {
    const at = tabs.findIndex(({ name }) => name === current);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    event.preventDefault();
    onChange(next.name);
    document.getElementById(`${id}-${next.name}`)?.focus();
  };
  return (
    <div class="tabs">
      <div
        class="tab-list"
        role="tablist"
        aria-label={props.label}
        onKeyDown={(event) => {
          if (event.key === 'ArrowRight') go(event, 1);
          if (event.key === 'ArrowLeft') go(event, -1);
        }}
      >
        {tabs.map(({ name, label }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-selected={name === current}
            aria-controls={`${id}-panel`}
            tabIndex={name === current ? 0 : -1}
            onClick={() => onChange(name)}
          >
            {label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${current}`} class="tab-panel">
        {props.children}
      </div>
    </div>
  );
}
