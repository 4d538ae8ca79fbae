/** Asks for the site that is to be read. */
import { Button } from './button.tsx';
import { Field } from './field.tsx';
import { issueOf } from './messages.tsx';

export function DomainForm({
  action,
  isBusy,
  error,
  onSubmit,
  ...field
}: {
  value: string;
  onInput(value: string): void;
  /** What its button says. */
  action: string;
  isBusy: boolean;
  error: unknown;
  onSubmit(): void;
  maxLength?: number;
  disabled?: boolean;
}) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      <Field
        {...field}
        label="Domain"
        placeholder="example.com"
        required
        isCode
        error={issueOf(error, 'domain')}
        after={
          <Button type="submit" isBusy={isBusy}>
            {action}
          </Button>
        }
      />
    </form>
  );
}
