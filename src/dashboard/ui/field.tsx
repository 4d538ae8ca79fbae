/** Things that are typed or chosen: each with its label, a hint, and what is wrong with it. */
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Icon } from './icon.tsx';
import './field.css';

export type FieldProps = {
  label: string;
  name?: string | undefined;
  hint?: ComponentChildren;
  error?: string | undefined;
  value: string;
  onInput(value: string): void;
  type?: 'text' | 'email' | 'password' | 'url' | 'number' | 'search' | undefined;
  placeholder?: string | undefined;
  autoComplete?: string | undefined;
  required?: boolean | undefined;
  minLength?: number | undefined;
  maxLength?: number | undefined;
  min?: number | undefined;
  max?: number | undefined;
  step?: number | undefined;
  disabled?: boolean | undefined;
  autoFocus?: boolean | undefined;
  /** More than one line. */
  rows?: number | undefined;
  /** For what is code: addresses, keys, numbers. */
  isCode?: boolean | undefined;
  spellcheck?: boolean | undefined;
  /** Beside the input, e.g. a button. */
  after?: ComponentChildren;
  onBlur?: (() => void) | undefined;
};

export function Field(props: FieldProps) {
  const id = useId();
  const [isShown, show] = useState(false);
  const { label, hint, error, type = 'text', rows, after } = props;
  const shared = {
    id,
    name: props.name,
    value: props.value,
    placeholder: props.placeholder,
    autoComplete: props.autoComplete,
    required: props.required,
    minLength: props.minLength,
    maxLength: props.maxLength,
    disabled: props.disabled,
    autoFocus: props.autoFocus,
    spellcheck: props.spellcheck ?? !props.isCode,
    class: props.isCode ? 'input code-input' : 'input',
    'aria-invalid': error ? true : undefined,
    'aria-describedby': `${hint ? `${id}-hint ` : ''}${error ? `${id}-error` : ''}`.trim() || undefined,
    onInput: (event: InputEvent) => props.onInput((event.currentTarget as HTMLInputElement).value),
    onBlur: props.onBlur,
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="input-row">
        {rows ? (
          <textarea {...shared} rows={rows} />
        ) : (
          <input
            {...shared}
            // The types of the input element want each kind by itself.
            type={(type === 'password' && isShown ? 'text' : type) as 'text'}
            min={props.min}
            max={props.max}
            step={props.step}
          />
        )}
        {type === 'password' && (
          <button
            type="button"
            class="reveal"
            aria-label={isShown ? 'Hide the password' : 'Show the password'}
            onClick={() => show(!isShown)}
          >
            {isShown ? 'Hide' : 'Show'}
          </button>
        )}
        {after}
      </div>
      <Below id={id} hint={hint} error={error} />
    </div>
  );
}

export type Choice<Value extends string> = { value: Value; label: string; disabled?: boolean | undefined };

export function Select<const Value extends string>(props: {
  label: string;
  value: Value;
  choices: readonly Choice<Value>[];
  onChange(value: Value): void;
  hint?: ComponentChildren;
  error?: string | undefined;
  disabled?: boolean | undefined;
  isLabelHidden?: boolean | undefined;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class={props.isLabelHidden ? 'unseen' : undefined}>
        {props.label}
      </label>
      <div class="select">
        <select
          id={id}
          class="input"
          value={props.value}
          disabled={props.disabled}
          aria-describedby={props.hint ? `${id}-hint` : undefined}
          onChange={(event) => props.onChange(event.currentTarget.value as Value)}
        >
          {props.choices.map(({ value, label, disabled }) => (
            <option key={value} value={value} disabled={disabled} selected={value === props.value}>
              {label}
            </option>
          ))}
        </select>
        <Icon name="chevron" />
      </div>
      <Below id={id} hint={props.hint} error={props.error} />
    </div>
  );
}

/** One of a few, all seen at once. */
export function Segments<const Value extends string>(props: {
  label: string;
  value: Value;
  choices: readonly Choice<Value>[];
  onChange(value: Value): void;
  hint?: ComponentChildren;
  isLabelHidden?: boolean | undefined;
}) {
  const id = useId();
  return (
    <fieldset class="field" aria-describedby={props.hint ? `${id}-hint` : undefined}>
      <legend class={props.isLabelHidden ? 'unseen' : undefined}>{props.label}</legend>
      <div class="segments">
        {props.choices.map(({ value, label, disabled }) => (
          <label key={value}>
            <input
              type="radio"
              name={id}
              value={value}
              checked={value === props.value}
              disabled={disabled}
              onChange={() => props.onChange(value)}
            />
            <span>{label}</span>
          </label>
        ))}
      </div>
      <Below id={id} hint={props.hint} error={undefined} />
    </fieldset>
  );
}

export function Switch(props: {
  label: string;
  hint?: ComponentChildren;
  isOn: boolean;
  onChange(isOn: boolean): void;
  disabled?: boolean | undefined;
}) {
  const id = useId();
  return (
    <div class="switch-row">
      <button
        type="button"
        role="switch"
        class="switch"
        aria-checked={props.isOn}
        aria-labelledby={`${id}-label`}
        aria-describedby={props.hint ? `${id}-hint` : undefined}
        disabled={props.disabled}
        onClick={() => props.onChange(!props.isOn)}
      />
      <div>
        <span id={`${id}-label`} class="label">
          {props.label}
        </span>
        {props.hint && (
          <p id={`${id}-hint`} class="note">
            {props.hint}
          </p>
        )}
      </div>
    </div>
  );
}

/** Lines of a form, with the one wish to send it. Invalid fields are left to the browser to point at. */
export function Form(props: { onSubmit(): void; children: ComponentChildren; label?: string | undefined }) {
  return (
    <form
      class="stack form"
      aria-label={props.label}
      onSubmit={(event) => {
        event.preventDefault();
        props.onSubmit();
      }}
    >
      {props.children}
    </form>
  );
}

function Below({ id, hint, error }: { id: string; hint: ComponentChildren; error: string | undefined }) {
  return (
    <>
      {hint && (
        <p id={`${id}-hint`} class="note">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} class="field-error">
          {error}
        </p>
      )}
    </>
  );
}
