/** A button that opens a few things to do: arrow keys walk, Escape and leaving close it. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icon.tsx';
import './menu.css';

export type MenuItem = {
  label: string;
  icon?: IconName | undefined;
  note?: string | undefined;
  /** Goes there, or does this. */
  href?: string | undefined;
  onSelect?: (() => void) | undefined;
  isCurrent?: boolean | undefined;
  isDanger?: boolean | undefined;
  /** A line above it. */
  hasLine?: boolean | undefined;
};

export function Menu(props: {
  label: string;
  /** What the button shows. */
  children: ComponentChildren;
  items: readonly MenuItem[];
  align?: 'start' | 'end' | undefined;
  opens?: 'down' | 'up' | undefined;
  buttonClass?: string | undefined;
  /** Its button is named by what it shows. */
  isNamedByContent?: boolean | undefined;
}) {
  const { label, items, align = 'start', opens = 'down' } = props;
  const [isOpen, open] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return undefined;
    itemsIn(box.current)[0]?.focus();
    const leave = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) open(false);
    };
    document.addEventListener('pointerdown', leave);
    document.addEventListener('focusin', leave);
    return () => {
      document.removeEventListener('pointerdown', leave);
      document.removeEventListener('focusin', leave);
    };
  }, [isOpen]);

  const close = () => {
    open(false);
    button.current?.focus();
  };
  return (
    <div class="menu" ref={box}>
      <button
        ref={button}
        type="button"
        class={props.buttonClass ?? 'button quiet'}
        aria-label={props.isNamedByContent ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => open(!isOpen)}
      >
        {props.children}
      </button>
      {isOpen && (
        <div
          id={id}
          class={`menu-list ${align} ${opens}`}
          role="menu"
          aria-label={label}
          onKeyDown={(event) => {
            if (event.key === 'Escape') close();
            else if (walk(box.current, event.key)) event.preventDefault();
          }}
        >
          {items.map((item) => (
            <Item key={item.label} {...item} onDone={close} />
          ))}
        </div>
      )}
    </div>
  );
}

function Item({ label, icon, note, href, onSelect, onDone, ...item }: MenuItem & { onDone(): void }) {
  const shared = {
    role: item.isCurrent === undefined ? ('menuitem' as const) : ('menuitemradio' as const),
    'aria-checked': item.isCurrent,
    tabIndex: -1,
    class: `menu-item${item.isDanger ? ' danger' : ''}${item.hasLine ? ' lined' : ''}`,
  };
  const content = (
    <>
      {icon && <Icon name={icon} />}
      <span>
        {label}
        {note && <small>{note}</small>}
      </span>
      {item.isCurrent && <Icon name="check" />}
    </>
  );
  const select = () => {
    onDone();
    onSelect?.();
  };
  return href ? (
    <a {...shared} href={href} onClick={select}>
      {content}
    </a>
  ) : (
    <button {...shared} type="button" onClick={select}>
      {content}
    </button>
  );
}

const itemsIn = (box: Element | null): HTMLElement[] => [
  ...(box?.querySelectorAll<HTMLElement>('.menu-item') ?? []),
];

/** @returns whether the key was one that walks. */
function walk(box: Element | null, key: string): boolean {
  const items = itemsIn(box);
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[key];
  if (to !== undefined) items[(to + items.length) % items.length]?.focus();
  else if (key.length === 1)
    items.find((item) => item.textContent?.trim().toLowerCase().startsWith(key))?.focus();
  return to !== undefined;
}
