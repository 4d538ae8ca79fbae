/** A short word that something was done; it goes by itself. What went wrong is never told here: see Problem. */
import { createStore } from '@xstate/store';
import { useStore } from '../store.ts';
import { Icon } from './icon.tsx';
import './toast.css';

const toasts = createStore({
  context: { shown: [] as { id: number; text: string }[], next: 0 },
  on: {
    said: ({ shown, next }, { text }: { text: string }) => ({
      shown: [...shown.slice(-2), { id: next, text }],
      next: next + 1,
    }),
    gone: (context, { id }: { id: number }) => ({
      ...context,
      shown: context.shown.filter((one) => one.id !== id),
    }),
  },
});

const shownMs = 4_000;

export function say(text: string): void {
  const id = toasts.getSnapshot().context.next;
  toasts.trigger.said({ text });
  setTimeout(() => toasts.trigger.gone({ id }), shownMs);
}

/** Where they appear: once in the frame. */
export function Toasts() {
  const shown = useStore(toasts, (context) => context.shown);
  return (
    <div class="toasts" role="status">
      {shown.map(({ id, text }) => (
        <p key={id}>
          <Icon name="check" /> {text}
        </p>
      ))}
    </div>
  );
}
