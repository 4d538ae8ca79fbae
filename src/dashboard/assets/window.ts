/**
 * The part of a long grid that is in sight: of thousands of cards, the rows around the screen alone are drawn, and
 * the room of the others is kept by padding. All cards are of one height. What is on the screen is drawn first; the
 * rows around it follow when there is nothing else to do, a few at a time, so that no task is long.
 */
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Cards from `first` to before `end`, and the room of those before and after, in px. */
export type Part = { first: number; end: number; above: number; below: number };

/** What is measured of a grid: cards in a row, and the height of a row with its gap. */
type Form = { columns: number; rowPx: number };

/** Drawn before anything is measured: one is enough to measure, a row of them moves nothing. */
const atFirst = 4;
/** Beyond the screen, so that neither scrolling nor keys come to an end; and how much of it is added at a time. */
const mostAroundPx = 600;
const stepPx = 150;
/** Idle time comes within this, or is taken. */
const idleMs = 300;

export function useWindow(count: number): { grid: RefObject<HTMLDivElement | null>; part: Part } {
  const grid = useRef<HTMLDivElement>(null);
  const [form, setForm] = useState<Form>();
  const [top, setTop] = useState(0);
  const [aroundPx, setAround] = useState(0);
  const hasCards = count > 0;

  useLayoutEffect(() => {
    const element = grid.current;
    if (!element || !hasCards) return undefined;
    const measure = () => {
      const next = formOf(element);
      if (next) setForm((form) => (isSame(form, next) ? form : next));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [hasCards]);

  useEffect(() => {
    if (!form || aroundPx >= mostAroundPx) return undefined;
    return whenIdle(() => setAround(aroundPx + stepPx));
  }, [form, aroundPx]);

  useEffect(() => {
    if (!form) return undefined;
    let frame = 0;
    const look = () => {
      frame = 0;
      const above = grid.current?.getBoundingClientRect().top ?? 0;
      setTop(Math.max(0, Math.floor((-above - aroundPx) / form.rowPx)));
    };
    const soon = () => {
      frame ||= requestAnimationFrame(look);
    };
    look();
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
    };
  }, [form, hasCards, aroundPx]);

  return {
    grid,
    part: form ? partOf(count, form, top, aroundPx) : { first: 0, end: atFirst, above: 0, below: 0 },
  };
}

function partOf(count: number, { columns, rowPx }: Form, top: number, aroundPx: number): Part {
  const rows = Math.ceil(count / columns);
  const seen = Math.ceil((innerHeight + 2 * aroundPx) / rowPx) + 1;
  // Fewer than there were: the page is about to be scrolled up.
  const from = Math.max(0, Math.min(top, rows - seen));
  const to = Math.min(rows, from + seen);
  return { first: from * columns, end: to * columns, above: from * rowPx, below: (rows - to) * rowPx };
}

/** Safari knows no idle time. @returns what calls it off */
function whenIdle(work: () => void): () => void {
  if (!('requestIdleCallback' in globalThis)) {
    const timer = setTimeout(work, idleMs);
    return () => clearTimeout(timer);
  }
  const handle = requestIdleCallback(work, { timeout: idleMs });
  return () => cancelIdleCallback(handle);
}

function formOf(grid: HTMLElement): Form | undefined {
  const card = grid.firstElementChild;
  const { gridTemplateColumns, rowGap } = getComputedStyle(grid);
  const height = card?.getBoundingClientRect().height ?? 0;
  if (height === 0) return undefined;
  return { columns: gridTemplateColumns.split(' ').length, rowPx: height + Number.parseFloat(rowGap) };
}

const isSame = (one: Form | undefined, other: Form) =>
  one?.columns === other.columns && Math.abs(one.rowPx - other.rowPx) < 0.5;
