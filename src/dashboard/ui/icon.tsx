/** Small drawings beside words, on a grid of 24. They say nothing that the words do not. */
const drawings = {
  home: 'M4 11.5 12 5l8 6.5M6 10v9h12v-9',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01',
  swatch:
    'M12 3a9 9 0 1 0 0 18c1.2 0 1.8-.8 1.8-1.7 0-1.6-1.3-1.7-1.3-2.9 0-.9.7-1.4 1.7-1.4H16a5 5 0 0 0 5-5c0-4-4-7-9-7ZM8 11h.01M11 7.5h.01M15.5 8.5h.01',
  page: 'M6 3.5h8l4 4V20.5H6zM14 3.5v4h4M9 12h6M9 16h6',
  shield: 'M12 3l7.5 3v5.5c0 4.6-3.2 8-7.5 9.5-4.3-1.5-7.5-4.9-7.5-9.5V6zM9 12l2.2 2.2L15.5 10',
  code: 'M9 8l-4.5 4L9 16M15 8l4.5 4L15 16',
  hook: 'M12 4v9.5a4.5 4.5 0 1 1-4.5-4.5M12 4a1.5 1.5 0 1 0 0-.01',
  sliders: 'M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M11 14.5v5',
  gauge: 'M4.5 17a8.5 8.5 0 1 1 15 0M12 14l4-5',
  person: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 20c1-3.6 4-5.5 7.5-5.5s6.5 1.9 7.5 5.5',
  pulse: 'M3 12h4l2.5-7 4.5 14 3-10 1.5 3H21',
  plus: 'M12 5v14M5 12h14',
  check: 'M5 12.5 10 17.5 19.5 7',
  cross: 'M6 6l12 12M18 6 6 18',
  chevron: 'M7 9.5l5 5 5-5',
  updown: 'M8 9.5 12 5.5l4 4M8 14.5l4 4 4-4',
  copy: 'M9 9h11v11H9zM15 9V4H4v11h5',
  menu: 'M4 7h16M4 12h16M4 17h16',
  out: 'M14 5h5v5M19 5l-8 8M17 14v5H5V7h5',
  warning: 'M12 4 2.8 19.5h18.4zM12 10v4.5M12 17h.01',
  info: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 11v5.5M12 7.5h.01',
  more: 'M6 12h.01M12 12h.01M18 12h.01',
  upload: 'M12 16V5M7.5 9.5 12 5l4.5 4.5M5 19h14',
  refresh: 'M19 12a7 7 0 1 1-2-4.9L19.5 9.5M19.5 4.5v5h-5',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM16 16l4.5 4.5',
  play: 'M8 5.5v13l10.5-6.5z',
  clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 7.5V12l3 2',
  bin: 'M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7',
} as const;

export type IconName = keyof typeof drawings;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={drawings[name]} />
    </svg>
  );
}
