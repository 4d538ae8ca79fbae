/** A password that is being chosen. */
import type { ComponentChildren } from 'preact';
import { settings } from '../settings.ts';
import { Field } from './field.tsx';

export function NewPassword(props: {
  label: string;
  value: string;
  onInput(value: string): void;
  /** After what is said of its length. */
  hint?: ComponentChildren;
  error: string | undefined;
  autoFocus?: boolean | undefined;
}) {
  const { passwordMinChars: min, passwordMaxChars: max } = settings.limits;
  const { hint, ...rest } = props;
  return (
    <Field
      {...rest}
      type="password"
      name="password"
      autoComplete="new-password"
      required
      minLength={min}
      maxLength={max}
      hint={
        <>
          At least {min} characters. {hint}
        </>
      }
    />
  );
}
