/** A place for an image: dropped, pasted or chosen. What is no png, jpeg or webp of at most 10 MB is told at once. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { settings } from '../settings.ts';
import { Icon } from './icon.tsx';
import { formatBytes } from './value.tsx';
import './drop-zone.css';

const types = ['image/png', 'image/jpeg', 'image/webp'];

export function DropZone(props: {
  onFiles(files: File[]): void;
  children?: ComponentChildren;
  disabled?: boolean | undefined;
  isMany?: boolean | undefined;
}) {
  const { onFiles, disabled = false, isMany = false } = props;
  const [isOver, over] = useState(false);
  const [refused, refuse] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const take = (files: File[]) => {
    const reasons = files.map(reasonAgainst).filter((reason) => reason !== undefined);
    refuse(reasons[0]);
    const good = files.filter((file) => reasonAgainst(file) === undefined).slice(0, isMany ? undefined : 1);
    if (good.length > 0) onFiles(good);
  };
  useEffect(() => {
    const paste = (event: ClipboardEvent) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length > 0 && !disabled) take(files);
    };
    document.addEventListener('paste', paste);
    return () => document.removeEventListener('paste', paste);
  });
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is the mouse's way; the button within is for keys.
    <div
      class="drop-zone"
      data-over={isOver || undefined}
      onDragOver={(event) => {
        event.preventDefault();
        over(true);
      }}
      onDragLeave={() => over(false)}
      onDrop={(event) => {
        event.preventDefault();
        over(false);
        if (!disabled) take([...(event.dataTransfer?.files ?? [])]);
      }}
    >
      <button type="button" disabled={disabled} onClick={() => input.current?.click()}>
        <Icon name="upload" />
        <span>{props.children ?? 'Drop an image here, or choose one'}</span>
        <span class="note">png, jpeg or webp, up to {formatBytes(settings.limits.uploadBytes)}</span>
      </button>
      <input
        ref={input}
        type="file"
        accept={types.join(',')}
        multiple={isMany}
        hidden
        aria-label="Image"
        onChange={(event) => {
          take([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = '';
        }}
      />
      {refused && (
        <p class="field-error" role="alert">
          {refused}
        </p>
      )}
    </div>
  );
}

/** Why a file cannot be taken; undefined for one that can. The service judges by the content itself. */
export function reasonAgainst(file: File): string | undefined {
  if (!types.includes(file.type)) return `${file.name} is no png, jpeg or webp image.`;
  if (file.size > settings.limits.uploadBytes)
    return `${file.name} is larger than ${formatBytes(settings.limits.uploadBytes)}.`;
  if (file.size === 0) return `${file.name} is empty.`;
  return undefined;
}
