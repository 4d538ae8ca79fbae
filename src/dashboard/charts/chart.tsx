/** A machine's drawing, made of its definition by the build, with the state that its actor is in lit. */
import { useEffect, useRef, useState } from 'preact/hooks';
import assetChart from '../../../dist/src/charts/asset.svg?url';
import deliveryChart from '../../../dist/src/charts/delivery.svg?url';
import '../../charts/chart.css';
import { Skeleton } from '../ui/messages.tsx';
import './chart.css';

const files = { asset: assetChart, delivery: deliveryChart };

export function Chart(props: {
  name: keyof typeof files;
  /** Path of the state that is lit, e.g. `pending.stage1.waiting`. */
  state: string;
  /** It is one that was left: lit in another way. */
  isPast?: boolean | undefined;
}) {
  const { name, state, isPast = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const svg = useDrawing(files[name]);
  useEffect(() => {
    if (svg !== undefined && box.current) light(box.current, state, isPast);
  }, [svg, state, isPast]);
  useEffect(() => {
    const scroller = box.current?.parentElement;
    if (!scroller) return undefined;
    // Also when a phone is turned.
    const observer = new ResizeObserver(() => show(scroller, scroller.querySelector('[data-lit="here"]')));
    observer.observe(scroller);
    return () => observer.disconnect();
  }, [svg]);
  return (
    <section
      class="chart-box"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must reach it.
      tabIndex={0}
      aria-label={`State chart, ${isPast ? 'then' : 'now'}: ${state.replaceAll('.', ', ')}`}
    >
      {svg === undefined ? (
        <Skeleton lines={12} />
      ) : (
        <div ref={box} dangerouslySetInnerHTML={{ __html: svg }} />
      )}
    </section>
  );
}

/** Read once for the life of the page; a drawing that cannot be read is asked for again at the next visit. */
function useDrawing(file: string): string | undefined {
  const [svg, setSvg] = useState(drawings.get(file));
  useEffect(() => {
    if (svg !== undefined) return undefined;
    const control = new AbortController();
    read(file, control.signal).then(setSvg, () => undefined);
    return () => control.abort();
  }, [file]);
  return svg;
}

const drawings = new Map<string, string>();

async function read(file: string, signal: AbortSignal): Promise<string> {
  const answer = await fetch(file, { signal });
  if (!answer.ok) throw new Error(`no drawing: ${answer.status}`);
  const svg = await answer.text();
  drawings.set(file, svg);
  return svg;
}

function light(box: HTMLElement, state: string, isPast: boolean): void {
  for (const lit of box.querySelectorAll('[data-lit]')) lit.removeAttribute('data-lit');
  box.toggleAttribute('data-past', isPast);
  const states = [...box.querySelectorAll<HTMLElement>('[data-state]')];
  const names = state.split('.');
  for (const [index] of names.entries()) {
    const path = names.slice(0, index + 1).join('.');
    const isHere = index === names.length - 1;
    const element = states.find((one) => one.dataset['state'] === path);
    element?.setAttribute('data-lit', isHere ? 'here' : 'within');
    if (isHere) show(box.parentElement, element);
  }
}

/** Scrolls the drawing, and nothing else, to where something is lit. */
function show(scroller: HTMLElement | null, element: Element | null | undefined): void {
  if (!scroller || !element) return;
  const outer = scroller.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  scroller.scrollTo({
    top: scroller.scrollTop + inner.top - outer.top - (outer.height - inner.height) / 2,
    left: scroller.scrollLeft + inner.left - outer.left - (outer.width - inner.width) / 2,
  });
}
