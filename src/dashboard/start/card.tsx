/** What pages for visitors stand on: the mark, a heading, and little else. */
import type { ComponentChildren } from 'preact';
import { settings } from '../settings.ts';
import './card.css';

export function Card(props: {
  title: string;
  lead?: ComponentChildren;
  children: ComponentChildren;
  below?: ComponentChildren;
}) {
  return (
    <div class="card stack">
      <span class="mark" aria-hidden="true" />
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.lead && <p class="lead">{props.lead}</p>}
      </div>
      {props.children}
      {props.below && <p class="note">{props.below}</p>}
    </div>
  );
}

/** Signing in elsewhere, where the operator has set that up. */
export function Providers() {
  if (settings.oauth.length === 0) return null;
  return (
    <>
      <div class="providers">
        {settings.oauth.map((name) => (
          <a key={name} class="button plain" href={`/api/user/oauth/${name}`}>
            <Logo name={name} />
            <span>Continue with {name === 'github' ? 'GitHub' : 'Google'}</span>
          </a>
        ))}
      </div>
      <p class="or">
        <span>or with your e-mail</span>
      </p>
    </>
  );
}

function Logo({ name }: { name: 'google' | 'github' }) {
  return name === 'github' ? (
    <svg class="logo" viewBox="0 0 16 16" aria-hidden="true">
      <path d="M8 0C3.58 0 0 3.58 0 8c0 3.54 2.29 6.53 5.47 7.59.4.07.55-.17.55-.38 0-.19-.01-.82-.01-1.49-2.01.37-2.53-.49-2.69-.94-.09-.23-.48-.94-.82-1.13-.28-.15-.68-.52-.01-.53.63-.01 1.08.58 1.23.82.72 1.21 1.87.87 2.33.66.07-.52.28-.87.51-1.07-1.78-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.2-.36-1.02.08-2.12 0 0 .67-.21 2.2.82.64-.18 1.32-.27 2-.27.68 0 1.36.09 2 .27 1.53-1.04 2.2-.82 2.2-.82.44 1.1.16 1.92.08 2.12.51.56.82 1.27.82 2.15 0 3.07-1.87 3.75-3.65 3.95.29.25.54.73.54 1.48 0 1.07-.01 1.93-.01 2.2 0 .21.15.46.55.38A8.013 8.013 0 0 0 16 8c0-4.42-3.58-8-8-8z" />
    </svg>
  ) : (
    <svg class="logo" viewBox="0 0 18 18" aria-hidden="true">
      <path d="M9 7.4v3.4h4.8a4.9 4.9 0 0 1-4.8 3.5 5.3 5.3 0 1 1 3.4-9.3l2.5-2.5A8.9 8.9 0 1 0 9 17.9c5.1 0 8.5-3.6 8.5-8.7 0-.6 0-1.2-.2-1.8z" />
    </svg>
  );
}
