/** Code and secrets, with a button that copies them. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';
import './code.css';

export function Copy(props: {
  text: string;
  label?: string | undefined;
  isBare?: boolean | undefined;
  onCopied?: (() => void) | undefined;
}) {
  const { text, label = 'Copy', isBare = false } = props;
  const [isDone, done] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    if (!(await copyText(text))) return;
    done(true);
    props.onCopied?.();
    clearTimeout(timer.current);
    timer.current = setTimeout(() => done(false), 2_000);
  };
  return (
    <>
      <Button look="quiet" icon={isDone ? 'check' : 'copy'} label={isDone ? 'Copied' : label} onClick={copy}>
        {isBare ? undefined : isDone ? 'Copied' : 'Copy'}
      </Button>
      <span class="unseen" role="status">
        {isDone ? 'Copied' : ''}
      </span>
    </>
  );
}

/** A block of code; `name` says what it is. */
export function Code(props: { text: string; name: string; onCopied?: (() => void) | undefined }) {
  const { text, name, onCopied } = props;
  return (
    <figure class="code">
      <figcaption>
        <span>{name}</span>
        <Copy text={text} label={`Copy: ${name}`} onCopied={onCopied} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must reach it. */}
      <section class="code-text" tabIndex={0} aria-label={name}>
        <pre>
          <code>{text}</code>
        </pre>
      </section>
    </figure>
  );
}

/** One line to copy: a key, an address. */
export function CopyLine({ text, label }: { text: string; label: string }) {
  return (
    <div class="copy-line">
      <code>{text}</code>
      <Copy text={text} label={`Copy: ${label}`} isBare />
    </div>
  );
}

/** A secret that is shown once and never again. */
export function Secret({ text, label }: { text: string; label: string }) {
  return (
    <div class="secret">
      <p>
        <Icon name="warning" /> Copy it now: it is shown this once and cannot be read again.
      </p>
      <CopyLine text={text} label={label} />
    </div>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** Pages over plain http have no clipboard. */
function copyBySelection(text: string): boolean {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'unseen';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  const before = document.activeElement;
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone;
}
