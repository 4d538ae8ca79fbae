/** Buttons, and links that look like them. */
import type { ComponentChildren, Ref } from 'preact';
import { Icon, type IconName } from './icon.tsx';
import './button.css';

export type ButtonProps = {
  children?: ComponentChildren;
  /** `main`: the one thing to do here. `quiet`: among text. `danger`: cannot be undone. */
  look?: 'main' | 'plain' | 'quiet' | 'danger' | undefined;
  icon?: IconName | undefined;
  /** Its name where it shows an icon alone. */
  label?: string | undefined;
  /** Its work is being done: it cannot be pressed, keeps its width, and says so. */
  isBusy?: boolean | undefined;
  disabled?: boolean | undefined;
  type?: 'button' | 'submit' | undefined;
  form?: string | undefined;
  onClick?: ((event: MouseEvent) => void) | undefined;
  expanded?: boolean | undefined;
  controls?: string | undefined;
  describedBy?: string | undefined;
  buttonRef?: Ref<HTMLButtonElement> | undefined;
};

export function Button(props: ButtonProps) {
  const { children, look = 'plain', icon, label, isBusy = false, type = 'button' } = props;
  return (
    <button
      ref={props.buttonRef ?? null}
      class={`button ${look}`}
      data-bare={children === undefined || undefined}
      type={type}
      form={props.form}
      disabled={props.disabled}
      aria-disabled={isBusy || undefined}
      aria-busy={isBusy || undefined}
      aria-label={label}
      title={children === undefined ? label : undefined}
      aria-expanded={props.expanded}
      aria-controls={props.controls}
      aria-describedby={props.describedBy}
      onClick={(event) => {
        // Not disabled, which would take the focus away.
        if (isBusy) event.preventDefault();
        else props.onClick?.(event);
      }}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
      {isBusy && <span class="spinner" aria-hidden="true" />}
    </button>
  );
}

/** Goes somewhere; never does anything. */
export function ButtonLink(props: {
  href: string;
  children: ComponentChildren;
  look?: ButtonProps['look'];
  icon?: IconName | undefined;
}) {
  const { href, children, look = 'plain', icon } = props;
  return (
    <a class={`button ${look}`} href={href}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </a>
  );
}
