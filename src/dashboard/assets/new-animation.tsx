/** Begins an animation of an image that lies at an address, or of files, with options of its own. */
import { useState } from 'preact/hooks';
import type { PrepareResponse } from '../../../schemas/asset.ts';
import { post } from '../api.ts';
import { paths } from '../paths.ts';
import { useProject } from '../project.ts';
import { navigate } from '../router.ts';
import { settings } from '../settings.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { DropZone } from '../ui/drop-zone.tsx';
import { Field, Form } from '../ui/field.tsx';
import { issueOf, Problem } from '../ui/messages.tsx';
import { useSend } from '../ui/use-request.ts';
import { OptionFields, type OptionsState, toOptions } from './options.tsx';
import { addFiles } from './uploads.ts';

export function NewAnimation(props: { projectId: string; isOpen: boolean; onClose(): void }) {
  const { projectId, isOpen, onClose } = props;
  const { default_motion: motion, default_mode: mode, default_dur_seconds: seconds } = useProject(projectId);
  const [src, setSrc] = useState('');
  const [options, setOptions] = useState<OptionsState>({
    motion: motion ?? 'subtle',
    mode: mode ?? 'loop',
    seconds: String(seconds ?? 4),
    prompt: '',
    seed: '',
  });
  const { send, isBusy, error } = useSend(async () => {
    const body = { project_id: projectId, src: src.trim(), ...toOptions(options) };
    const { asset_id: id } = await post<PrepareResponse>('/api/v1/prepare', body, { once: true });
    onClose();
    navigate(paths.asset(projectId, id));
  });
  return (
    <Dialog title="New animation" isOpen={isOpen} onClose={onClose} isWide>
      <Form onSubmit={() => void send()} label="New animation">
        <DropZone
          isMany
          onFiles={(files) => {
            addFiles(projectId, files, toOptions(options));
            onClose();
          }}
        >
          Drop images here, or choose some: they get the options below
        </DropZone>
        <Field
          label="Or the address of an image"
          type="url"
          placeholder="https://example.com/photo.jpg"
          value={src}
          onInput={setSrc}
          maxLength={settings.limits.sourceMaxChars}
          isCode
          required
          error={issueOf(error, 'src')}
        />
        <OptionFields value={options} onChange={setOptions} />
        <Problem error={error} />
        <div class="row">
          <Button type="submit" look="main" isBusy={isBusy}>
            Animate the address
          </Button>
        </div>
      </Form>
    </Dialog>
  );
}
