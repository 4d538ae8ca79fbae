/** One action for all machines that a filter finds: what it would do, to how many, and some of them; then it begins. */
import { useEffect, useState } from 'preact/hooks';
import type {
  BulkJobResponse,
  BulkPreview,
  MachineAction,
  MachineKind,
} from '../../../schemas/operator-console.ts';
import { post } from '../api.ts';
import { navigate } from '../router.ts';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Field, Select } from '../ui/field.tsx';
import { Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { formatCount } from '../ui/value.tsx';
import type { Filter } from './machines.tsx';
import { Id, State, to } from './parts.tsx';

type Choice = 'retry' | 'source' | 'clip' | 'cancel' | 'fail' | 'redeliver';

const labels: Record<Choice, string> = {
  retry: 'Retry now',
  source: 'Retry from the source',
  clip: 'Retry from the first clip',
  cancel: 'Cancel',
  fail: 'Fail with a reason',
  redeliver: 'Send again',
};
const choices: Record<MachineKind, readonly Choice[]> = {
  asset: ['retry', 'source', 'clip', 'cancel', 'fail'],
  delivery: ['retry', 'redeliver', 'cancel'],
};

/** What is sent for a choice. */
export function requestFor(
  choice: Choice,
  reason: string,
): { action: MachineAction; from?: string; reason?: string } {
  if (choice === 'source' || choice === 'clip') return { action: 'retry_from', from: choice };
  return choice === 'fail' ? { action: 'fail', reason } : { action: choice };
}

export function BulkDialog(props: { isOpen: boolean; filter: Filter; onClose(): void }) {
  const { isOpen, filter, onClose } = props;
  const kind = (filter['kind'] ?? 'asset') as MachineKind;
  const [choice, choose] = useState<Choice>('retry');
  const [reason, setReason] = useState('');
  const [preview, setPreview] = useState<BulkPreview>();
  const key = JSON.stringify([filter, choice, reason]);
  // What was shown is what will be done: any change needs another look.
  useEffect(() => setPreview(undefined), [key, isOpen]);
  const looking = useSend(async () => {
    const body = { filter, ...requestFor(choice, reason) };
    setPreview(await post<BulkPreview>('/api/operator/bulk/preview', body));
  });
  const starting = useSend(async (token: string) => {
    const { job } = await post<BulkJobResponse>('/api/operator/bulk', { token });
    navigate(to.bulk(job.id));
  });
  return (
    <Dialog
      title="All that the filter finds"
      isOpen={isOpen}
      onClose={onClose}
      isWide
      actions={
        <>
          <Button onClick={onClose}>Not now</Button>
          {preview ? (
            <Button
              look="danger"
              isBusy={starting.isBusy}
              disabled={preview.count === 0}
              onClick={() => void starting.send(preview.token)}
            >
              {`${labels[choice]}: ${formatCount(preview.count)}`}
            </Button>
          ) : (
            <Button look="main" isBusy={looking.isBusy} onClick={() => void looking.send()}>
              See what it would do
            </Button>
          )}
        </>
      }
    >
      <div class="stack">
        <p class="note">
          Filter: <code>{new URLSearchParams(filter).toString() || 'all that is under way'}</code>
        </p>
        <Select<Choice>
          label="Action"
          value={choice}
          choices={choices[kind].map((value) => ({ value, label: labels[value] }))}
          onChange={choose}
        />
        {choice === 'fail' && (
          <Field
            label="Reason, which the owner reads"
            value={reason}
            onInput={setReason}
            maxLength={settings.limits.reasonMaxChars}
            required
          />
        )}
        {preview && <Preview preview={preview} />}
        <Problem error={looking.error ?? starting.error} />
      </div>
    </Dialog>
  );
}

function Preview({ preview: { will, count, is_more: isMore, sample } }: { preview: BulkPreview }) {
  return (
    <section class="stack" aria-label="What it would do">
      <p role="status">
        <strong>
          {isMore ? 'More than ' : ''}
          {formatCount(count)} {count === 1 ? 'machine' : 'machines'}.
        </strong>{' '}
        {will}
      </p>
      {sample.length > 0 && (
        <ul class="op-list">
          {sample.map((row) => (
            <li key={row.id}>
              <Id id={row.id} /> <State row={row} />
            </li>
          ))}
          {count > sample.length && <li class="note">and {formatCount(count - sample.length)} more</li>}
        </ul>
      )}
    </section>
  );
}
