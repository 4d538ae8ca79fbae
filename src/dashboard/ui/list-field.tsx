/** A list of short texts: each can be taken away, one more is added with Enter. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './button.tsx';
import { Field } from './field.tsx';
import './list-field.css';

export function ListField(props: {
  label: string;
  items: readonly string[];
  onChange(items: string[]): void;
  /** The text as it is kept, or why it cannot be. */
  judge(text: string): { text: string } | { error: string };
  placeholder?: string | undefined;
  hint?: ComponentChildren;
  empty?: string | undefined;
  error?: string | undefined;
}) {
  const { label, items, onChange, judge } = props;
  const [text, setText] = useState('');
  const [error, setError] = useState<string>();
  const add = () => {
    if (text.trim() === '') return;
    const judged = judge(text.trim());
    if ('error' in judged) return setError(judged.error);
    if (!items.includes(judged.text)) onChange([...items, judged.text]);
    setText('');
    setError(undefined);
  };
  return (
    <div class="list-field">
      {items.length > 0 ? (
        <ul aria-label="In the list">
          {items.map((item) => (
            <li key={item}>
              <code>{item}</code>
              <Button
                look="quiet"
                icon="cross"
                label={`Remove ${item}`}
                onClick={() => onChange(items.filter((one) => one !== item))}
              />
            </li>
          ))}
        </ul>
      ) : (
        props.empty && <p class="note">{props.empty}</p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <Field
          label={label}
          value={text}
          onInput={(value) => {
            setText(value);
            setError(undefined);
          }}
          placeholder={props.placeholder}
          hint={props.hint}
          error={error ?? props.error}
          isCode
          after={<Button type="submit">Add</Button>}
        />
      </form>
    </div>
  );
}
