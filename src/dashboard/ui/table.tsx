/** Rows of things. Arrow keys walk through rows that can be opened, Enter opens one. */
import type { ComponentChildren } from 'preact';
import './table.css';

export type Column<Row> = {
  title: string;
  cell(row: Row): ComponentChildren;
  /** Numbers stand at the end of their column. */
  isNumber?: boolean | undefined;
  /** Left out where there is little room. */
  isMinor?: boolean | undefined;
};

export function Table<Row>(props: {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf(row: Row): string;
  onOpen?: ((row: Row) => void) | undefined;
  isCaptionShown?: boolean | undefined;
  /** The row that is open. */
  currentKey?: string | undefined;
}) {
  const { columns, rows, keyOf, onOpen } = props;
  return (
    <Wide label={`${props.caption}, table`}>
      <table>
        <caption class={props.isCaptionShown ? undefined : 'unseen'}>{props.caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, isNumber, isMinor }) => (
              <th key={title} scope="col" class={classOf(isNumber, isMinor)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={onOpen && walkRows}>
          {rows.map((row) => {
            const key = keyOf(row);
            return (
              <tr
                key={key}
                data-open={onOpen ? true : undefined}
                aria-current={key === props.currentKey || undefined}
                tabIndex={onOpen ? 0 : undefined}
                onClick={onOpen && ((event) => openUnlessControl(event, () => onOpen(row)))}
                onKeyDown={
                  onOpen &&
                  ((event) => {
                    if (event.key === 'Enter' && event.target === event.currentTarget) onOpen(row);
                  })
                }
              >
                {columns.map(({ title, cell, isNumber, isMinor }) => (
                  <td key={title} class={classOf(isNumber, isMinor)} data-title={title}>
                    {cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </Wide>
  );
}

/** What may be wider than the page: it scrolls by itself, by keys too. */
export function Wide({ label, children }: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must reach it.
    <section class="table-box" tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}

const classOf = (isNumber = false, isMinor = false) =>
  `${isNumber ? 'number end' : ''} ${isMinor ? 'minor' : ''}`.trim() || undefined;

/** Buttons and links in a row do what they say. */
function openUnlessControl(event: MouseEvent, open: () => void): void {
  if (!(event.target as Element).closest('a, button, input, select, label')) open();
}

function walkRows(event: KeyboardEvent): void {
  const row = (event.target as Element).closest('tr');
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  const next = event.key === 'ArrowDown' ? row?.nextElementSibling : row?.previousElementSibling;
  if (!(next instanceof HTMLElement)) return;
  event.preventDefault();
  next.focus();
}
