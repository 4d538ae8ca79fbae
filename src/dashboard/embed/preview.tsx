/** The very element that pages get, with the very attributes of the snippet. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { StateBadge } from '../ui/badge.tsx';
import { Notice } from '../ui/messages.tsx';

export function Preview(props: { attributes: readonly [string, string][]; ratio: string }) {
  const box = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<string>();
  const [failure, setFailure] = useState<string>();
  const key = JSON.stringify(props.attributes);
  useEffect(() => {
    loadElement();
    const element = document.createElement('animated-asset');
    for (const [name, value] of props.attributes) element.setAttribute(name, value);
    // What the dashboard shows comes from the address it was opened at.
    const src = element.getAttribute('src');
    if (src) element.setAttribute('src', new URL(src).pathname);
    element.setAttribute('loading', 'eager');
    element.addEventListener('failed', (event) => {
      setFailure((event as CustomEvent<{ reason: string }>).detail.reason);
    });
    const watch = new MutationObserver(() => setState(element.getAttribute('state') ?? undefined));
    watch.observe(element, { attributes: true, attributeFilter: ['state'] });
    setFailure(undefined);
    box.current?.replaceChildren(element);
    return () => {
      watch.disconnect();
      element.remove();
    };
  }, [key]);
  return (
    <div class="stack">
      <div ref={box} class="preview" style={{ aspectRatio: props.ratio }} />
      <div class="row preview-state" aria-live="polite">
        {state === 'waiting' && matchMedia('(prefers-reduced-motion: reduce)').matches ? (
          <p class="note">
            Your system asks for less motion: like every visitor with that wish you see the still.
          </p>
        ) : (
          state && <StateBadge state={shownState(state)} />
        )}
        {failure && <Notice tone="bad">{failure}</Notice>}
      </div>
    </div>
  );
}

const shownState = (state: string) =>
  ({ waiting: 'pending', playing: 'ready', paused: 'ready' })[state] ?? state;

function loadElement(): void {
  if (document.querySelector('script[data-embed]')) return;
  const script = document.createElement('script');
  script.src = '/embed.js';
  script.dataset['embed'] = '';
  document.head.append(script);
}
