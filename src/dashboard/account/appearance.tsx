/** Light or dark, in this browser. */
import { useStore } from '../store.ts';
import { chooseTheme, theme } from '../theme.ts';
import { Segments } from '../ui/field.tsx';

export function Appearance() {
  const chosen = useStore(theme, (context) => context.theme);
  return (
    <Segments
      label="Colours of the dashboard"
      value={chosen}
      choices={[
        { value: 'system', label: 'As the system' },
        { value: 'light', label: 'Light' },
        { value: 'dark', label: 'Dark' },
      ]}
      onChange={chooseTheme}
    />
  );
}
