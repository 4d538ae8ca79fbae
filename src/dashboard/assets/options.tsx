/** The options of a run, as a form: for a first run and for another one. What is left open the project decides. */
import type { AssetOptions, Mode, Motion } from '../../../schemas/asset.ts';
import { motions } from '../options.ts';
import { settings } from '../settings.ts';
import { Field, Segments } from '../ui/field.tsx';

export type OptionsState = {
  motion: Motion;
  mode: Mode;
  seconds: string;
  prompt: string;
  seed: string;
};

export function OptionFields(props: { value: OptionsState; onChange(value: OptionsState): void }) {
  const { value, onChange } = props;
  const set = (fields: Partial<OptionsState>) => onChange({ ...value, ...fields });
  return (
    <>
      <Segments
        label="Motion"
        value={value.motion}
        choices={motions}
        onChange={(motion) => set({ motion })}
      />
      <Segments
        label="Plays"
        value={value.mode}
        choices={[
          { value: 'loop', label: 'As a loop' },
          { value: 'animate-in', label: 'Once' },
          { value: 'animate-on-hover', label: 'On hover' },
        ]}
        onChange={(mode) => set({ mode })}
      />
      <Field
        label="Length in seconds"
        type="number"
        min={settings.limits.minSeconds}
        max={settings.limits.maxSeconds}
        step={1}
        required
        value={value.seconds}
        onInput={(seconds) => set({ seconds })}
      />
      <Field
        label="What should happen (optional)"
        hint="In your words, in place of what we see in the image."
        rows={3}
        maxLength={settings.limits.promptMaxChars}
        value={value.prompt}
        onInput={(prompt) => set({ prompt })}
      />
      <Field
        label="Seed (optional)"
        type="number"
        min={0}
        max={settings.limits.maxSeed}
        step={1}
        hint="The same seed gives the same movement again."
        value={value.seed}
        onInput={(seed) => set({ seed })}
      />
    </>
  );
}

/** As the API takes them. */
export function toOptions({ motion, mode, seconds, prompt, seed }: OptionsState): AssetOptions {
  return {
    motion,
    mode,
    dur_seconds: Number(seconds),
    ...(prompt.trim() === '' ? {} : { prompt_override: prompt.trim() }),
    ...(seed === '' ? {} : { seed: Number(seed) }),
  };
}
