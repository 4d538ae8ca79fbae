/** What the page has to tell: nothing here yet, something happened, something went wrong. */
import type { ComponentChildren } from 'preact';
import { ApiError } from '../api.ts';
import { settings } from '../settings.ts';
import { Button } from './button.tsx';
import { Icon, type IconName } from './icon.tsx';
import { formatDuration } from './value.tsx';
import './messages.css';

/** Nothing here yet, and what to do about it. */
export function EmptyState(props: {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
  /** There is nothing else on the page: its title is the page's. */
  isPage?: boolean | undefined;
}) {
  return (
    <div class="empty">
      <Icon name={props.icon} />
      {props.isPage ? <h1 tabIndex={-1}>{props.title}</h1> : <h2>{props.title}</h2>}
      {props.children && <div class="note">{props.children}</div>}
      {props.action}
    </div>
  );
}

export function Notice(props: {
  tone?: 'plain' | 'good' | 'wait' | 'bad' | undefined;
  children: ComponentChildren;
  action?: ComponentChildren;
}) {
  const { tone = 'plain' } = props;
  const icons = { plain: 'info', good: 'check', wait: 'clock', bad: 'warning' } as const;
  return (
    <div class={`notice ${tone}`} role={tone === 'bad' ? 'alert' : 'status'}>
      <Icon name={icons[tone]} />
      <div>{props.children}</div>
      {props.action}
    </div>
  );
}

/**
 * A request that failed: the service's own text, the page on it, the request's id, and what can be done. Nothing while
 * nothing failed.
 */
export function Problem({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  if (error === undefined || error === null) return null;
  const known = error instanceof ApiError ? error : undefined;
  const text = known ? sentenceOf(known) : 'Something went wrong on this page.';
  return (
    <div class="notice bad" role="alert">
      <Icon name="warning" />
      <div>
        <p>
          <strong>{text}</strong> {known && adviceOn(known)}
        </p>
        {known && <Sources error={known} />}
      </div>
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}

/** The text on one field of a form that the service refused. */
export function issueOf(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const found = error.issues.find(({ path }) => path === field || path.startsWith(`${field}.`));
  return found && capital(found.message);
}

/** The page could not be drawn: what it can still say. */
function Sources({ error }: { error: ApiError }) {
  const { docsUrl, requestId, detail, issues } = error;
  return (
    <>
      {detail && <p>{detail}</p>}
      {issues.length > 1 && (
        <ul>
          {issues.map(({ path, message }) => (
            <li key={path}>
              <code>{path}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {(docsUrl || requestId) && (
        <p class="sources">
          {docsUrl && (
            <a href={docsUrl} target="_blank" rel="noreferrer">
              About this error
            </a>
          )}
          {requestId && (
            <span>
              Request <code>{requestId}</code>
            </span>
          )}
        </p>
      )}
    </>
  );
}

const sentenceOf = ({ message }: ApiError) => {
  const text = capital(message);
  return /[.!?…]$/.test(text) ? text : `${text}.`;
};

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What to do about it, where there is something. */
function adviceOn({ code, status, retryAfterMs, upgradeUrl }: ApiError): ComponentChildren {
  if (upgradeUrl) return <a href={ownPath(upgradeUrl)}>See what the plans include</a>;
  if (code === 'rate_limited' && retryAfterMs !== undefined) {
    return `Too many requests in a short time. Try again in ${formatDuration(Math.max(1_000, retryAfterMs))}.`;
  }
  if (retryAfterMs !== undefined) return `Try again in ${formatDuration(Math.max(1_000, retryAfterMs))}.`;
  if (status >= 500) return 'Nothing you did. Try again in a moment; nothing was lost.';
  if (status === 0) return 'What you typed is still here. Try again when the connection is back.';
  return undefined;
}

/** Our own addresses are followed without leaving the page. */
function ownPath(url: string): string {
  return url.startsWith(settings.baseUrl) ? url.slice(settings.baseUrl.length) : url;
}

/** In the place of something that is being read; `lines` high. */
export function Skeleton({ lines = 3 }: { lines?: number | undefined }) {
  return (
    <div class="skeleton" aria-hidden="true">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} style={{ width: `${[92, 70, 84, 58][index % 4]}%` }} />
      ))}
    </div>
  );
}
