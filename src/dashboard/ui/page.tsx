/** The parts that pages are made of: heading, sections with their explanation beside them. */
import type { ComponentChildren } from 'preact';
import './page.css';

export function PageHead(props: {
  title: string;
  children?: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.children && <div class="lead">{props.children}</div>}
      </div>
      {props.actions && <div class="row">{props.actions}</div>}
    </header>
  );
}

/** A part of a page: what it is about on the left, where there is room, and what can be done beside it. */
export function Section(props: {
  title: string;
  id?: string | undefined;
  about?: ComponentChildren;
  /** Its content has the whole width. */
  isWide?: boolean | undefined;
  children: ComponentChildren;
}) {
  return (
    <section class={props.isWide ? 'section wide' : 'section'} id={props.id} aria-label={props.title}>
      <div class="section-about">
        <h2>{props.title}</h2>
        {props.about && <div class="note">{props.about}</div>}
      </div>
      <div class="stack section-body">{props.children}</div>
    </section>
  );
}
