/** The images on their way in, each with how far it is or why it stopped; and what takes them from anywhere. */
import { useEffect, useState } from 'preact/hooks';
import { paths } from '../paths.ts';
import { useStore } from '../store.ts';
import { Button } from '../ui/button.tsx';
import { Icon } from '../ui/icon.tsx';
import { Problem } from '../ui/messages.tsx';
import { Countdown } from '../ui/value.tsx';
import { addFiles, dismiss, isFinal, tryAgain, type Upload, uploads } from './uploads.ts';
import './uploads.css';

export function UploadRows() {
  const rows = useStore(uploads, (context) => context.rows);
  if (rows.length === 0) return null;
  const done = rows.filter(({ step }) => step === 'started');
  return (
    <section class="uploads" aria-label="Uploads">
      <p class="unseen" role="status">
        {done.length} started, {rows.filter(({ step }) => step === 'refused').length} not taken
      </p>
      <header>
        <h2>
          {done.length} of {rows.length} {rows.length === 1 ? 'image' : 'images'} on the way
        </h2>
        {done.length > 0 && (
          <Button
            look="quiet"
            onClick={() => {
              for (const { id } of done) dismiss(id);
            }}
          >
            Clear what is done
          </Button>
        )}
      </header>
      <ul>
        {rows.map((row) => (
          <Row key={row.id} row={row} />
        ))}
      </ul>
    </section>
  );
}

function Row({ row }: { row: Upload }) {
  const { id, name, step, share } = row;
  const isRefused = step === 'refused';
  return (
    <li data-step={step}>
      <div class="upload-line">
        <span class="upload-name">{name}</span>
        <span class="note">
          <Words row={row} />
        </span>
        {isRefused && !isFinal(row) && <Button onClick={() => tryAgain(id)}>Try again</Button>}
        {(isRefused || step === 'started') && (
          <Button look="quiet" icon="cross" label={`Dismiss ${name}`} onClick={() => dismiss(id)} />
        )}
      </div>
      {!isRefused && (
        <progress
          class="upload-bar"
          value={step === 'started' ? 1 : share * 0.95}
          aria-label={`Upload of ${name}`}
        />
      )}
      {isRefused &&
        (typeof row.error === 'string' ? <Refusal text={row.error} /> : <Problem error={row.error} />)}
    </li>
  );
}

/** Judged here, before anything was sent. */
function Refusal({ text }: { text: string }) {
  return (
    <p class="field-error" role="alert">
      {text} Choose a png, jpeg or webp image of at most 10 MB.
    </p>
  );
}

function Words({ row: { step, share, untilTs, projectId, assetId } }: { row: Upload }) {
  switch (step) {
    case 'waiting':
      return <>Waits for its turn</>;
    case 'sending':
      return <>Uploading, {Math.round(share * 100)} %</>;
    case 'paused':
      return (
        <>
          Too many at once: goes on in <Countdown to={untilTs ?? 0} />
        </>
      );
    case 'starting':
      return <>Starting the animation</>;
    case 'started':
      return <a href={paths.asset(projectId, assetId ?? '')}>Being animated</a>;
    default:
      return <>Not taken</>;
  }
}

/** Takes images dropped anywhere on the page, and pasted ones. */
export function DropAnywhere({ projectId }: { projectId: string }) {
  const [isOver, over] = useState(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') === true;
    const enter = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      over(true);
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) over(false);
    };
    const drop = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      over(false);
      // A zone of its own has taken them.
      if (event.defaultPrevented) return;
      event.preventDefault();
      addFiles(projectId, [...(event.dataTransfer?.files ?? [])]);
    };
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length > 0 && !document.querySelector('dialog[open]')) addFiles(projectId, files);
    };
    const pairs = { dragenter: enter, dragover: enter, dragleave: leave, drop } as const;
    for (const [name, listener] of Object.entries(pairs)) document.addEventListener(name as 'drop', listener);
    document.addEventListener('paste', paste);
    return () => {
      for (const [name, listener] of Object.entries(pairs))
        document.removeEventListener(name as 'drop', listener);
      document.removeEventListener('paste', paste);
    };
  }, [projectId]);
  if (!isOver) return null;
  return (
    <div class="drop-veil" aria-hidden="true">
      <p>
        <Icon name="upload" /> Let go to animate
      </p>
    </div>
  );
}
