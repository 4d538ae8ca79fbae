/** A question that has to be answered before anything else: the browser's own dialog, which gives the focus back. */
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import './dialog.css';

export function Dialog(props: {
  title: string;
  isOpen: boolean;
  onClose(): void;
  children: ComponentChildren;
  /** Buttons, the last one being the answer. */
  actions?: ComponentChildren;
  isWide?: boolean | undefined;
  /** It cannot be left with Escape or the cross. */
  isFirm?: boolean | undefined;
}) {
  const { title, isOpen, onClose, isFirm = false } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    if (!element || !isOpen) return undefined;
    const before = document.activeElement;
    element.showModal();
    return () => {
      element.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [isOpen]);
  if (!isOpen) return null;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes dialogs by itself; the click is one beside it.
    <dialog
      ref={dialog}
      class={props.isWide ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (!isFirm) onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current && !isFirm) onClose();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={id}>{title}</h2>
          {!isFirm && <Button look="quiet" icon="cross" label="Close" onClick={onClose} />}
        </header>
        {props.children}
        {props.actions && <footer class="row">{props.actions}</footer>}
      </div>
    </dialog>
  );
}

/** Asks before something that cannot be undone. The button says what will happen. */
export function Confirm(props: {
  title: string;
  isOpen: boolean;
  children: ComponentChildren;
  action: string;
  isBusy?: boolean | undefined;
  disabled?: boolean | undefined;
  onConfirm(): void;
  onClose(): void;
}) {
  return (
    <Dialog
      title={props.title}
      isOpen={props.isOpen}
      onClose={props.onClose}
      actions={
        <>
          <Button onClick={props.onClose}>Not now</Button>
          <Button look="danger" isBusy={props.isBusy} disabled={props.disabled} onClick={props.onConfirm}>
            {props.action}
          </Button>
        </>
      }
    >
      {props.children}
    </Dialog>
  );
}
