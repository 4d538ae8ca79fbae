/** The brand of a project: typed, or found on its site, and seen before it is saved. */
import { useMemo, useState } from 'preact/hooks';
import type { BrandConfig, Project } from '../../../schemas/project.ts';
import { post, put } from '../api.ts';
import { paths } from '../paths.ts';
import { projects, useProject } from '../project.ts';
import { Badge } from '../ui/badge.tsx';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { DomainForm } from '../ui/domain-form.tsx';
import { Field } from '../ui/field.tsx';
import { issueOf, Notice, Problem } from '../ui/messages.tsx';
import { PageHead, Section } from '../ui/page.tsx';
import { Wide } from '../ui/table.tsx';
import { say } from '../ui/toast.tsx';
import { useSend } from '../ui/use-request.ts';
import { contrastOf, firstFamily, hasFont, toHex } from './colour.ts';
import {
  type ColourName,
  colourNames,
  type Difference,
  type Draft,
  differences,
  type FieldName,
  labels,
  missingIn,
  toBrand,
  toDraft,
} from './draft.ts';
import './brand.css';

export function Page({ params: { projectId } }: { params: { projectId: string } }) {
  const project = useProject(projectId);
  const saved = useMemo(() => toDraft(project.brandConfig), [project.brandConfig]);
  const [draft, setDraft] = useState(saved);
  const [isReviewing, review] = useState(false);
  const change = (fields: Partial<Draft>) => setDraft((before) => ({ ...before, ...fields }));
  const changed = differences(saved, draft);
  const { send, isBusy, error } = useSend(async () => {
    const brandConfig = toBrand(draft);
    await put(`/api/projects/${projectId}`, { brandConfig });
    projects.trigger.changed({ id: projectId, fields: { brandConfig } });
    review(false);
    say('The brand is saved');
  });
  return (
    <>
      <PageHead
        title="Brand"
        actions={
          <>
            {changed.length > 0 && (
              <Button look="quiet" onClick={() => setDraft(saved)}>
                Undo
              </Button>
            )}
            <Button look="main" disabled={changed.length === 0} onClick={() => review(true)}>
              Review and save
            </Button>
          </>
        }
      >
        Colours, fonts and name of the project, for you and for everything that is made from them. What the
        site says is on the page <a href={paths.content(projectId)}>Content</a>.
      </PageHead>
      <Detect project={project} onTake={change} draft={draft} />
      <Colours draft={draft} change={change} error={error} />
      <Fonts draft={draft} change={change} />
      <Identity draft={draft} change={change} error={error} />
      <Review
        isOpen={isReviewing}
        changed={changed}
        missing={missingIn(draft)}
        isBusy={isBusy}
        error={error}
        onSave={() => void send()}
        onClose={() => review(false)}
      />
    </>
  );
}

type Change = (fields: Partial<Draft>) => void;

/** Looks at a site and shows what was found beside what is there: nothing changes until it is taken. */
function Detect({ project, draft, onTake }: { project: Project; draft: Draft; onTake: Change }) {
  const [domain, setDomain] = useState(project.domains[0] ?? '');
  const [found, setFound] = useState<BrandConfig>();
  const [left, leave] = useState<ReadonlySet<FieldName>>(new Set());
  const { send, isBusy, error } = useSend(async () => {
    setFound(undefined);
    leave(new Set());
    const path = `/api/projects/${project.id}/detect-brand`;
    setFound((await post<{ brandConfig: BrandConfig }>(path, { domain })).brandConfig);
  });
  const offered = found && differences(draft, { ...draft, ...filled(toDraft(found)) });
  const taken = offered?.filter(({ name }) => !left.has(name)) ?? [];
  return (
    <Section
      title="Find it on a site"
      about="Reads the colours and fonts of the site, in about five seconds. Each site counts once a day against the crawls of your plan."
    >
      <DomainForm
        value={domain}
        onInput={setDomain}
        action="Look at it"
        isBusy={isBusy}
        error={error}
        onSubmit={() => void send()}
      />
      <div class="stack" aria-live="polite">
        {isBusy && <p class="note">Reading {domain} …</p>}
        <Problem error={error} />
        {offered?.length === 0 && (
          <Notice tone="good">
            {found && Object.keys(found).length > 0
              ? 'What was found is what you have.'
              : 'No colours and no fonts were found there.'}
          </Notice>
        )}
        {offered && offered.length > 0 && (
          <>
            <Differences
              changed={offered}
              beforeTitle="Now"
              afterTitle="Found"
              left={left}
              onToggle={(name) => leave((before) => toggled(before, name))}
            />
            <div class="row">
              <Button
                look="main"
                disabled={taken.length === 0}
                onClick={() => {
                  onTake(Object.fromEntries(taken.map(({ name, after }) => [name, after])));
                  setFound(undefined);
                }}
              >
                {taken.length === offered.length ? 'Take all of it' : `Take ${taken.length}`}
              </Button>
              <Button look="quiet" onClick={() => setFound(undefined)}>
                Leave it
              </Button>
            </div>
          </>
        )}
      </div>
    </Section>
  );
}

function Colours({ draft, change, error }: { draft: Draft; change: Change; error: unknown }) {
  return (
    <Section title="Colours" about="All five, or none. Any colour that CSS knows.">
      <div class="colours">
        {colourNames.map((name) => (
          <ColourField
            key={name}
            name={name}
            value={draft[name]}
            error={issueOf(error, `brandConfig.colors.${name}`)}
            onInput={(value) => change({ [name]: value })}
          />
        ))}
      </div>
      <Contrasts draft={draft} />
    </Section>
  );
}

function ColourField(props: {
  name: ColourName;
  value: string;
  error: string | undefined;
  onInput(value: string): void;
}) {
  const { name, value, onInput } = props;
  const hex = toHex(value);
  const error = value !== '' && hex === undefined ? 'No colour that CSS knows.' : props.error;
  return (
    <div class="colour">
      <input
        type="color"
        aria-label={`${labels[name]}: choose`}
        value={hex ?? '#ffffff'}
        data-empty={hex === undefined || undefined}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <Field
        label={labels[name]}
        value={value}
        onInput={onInput}
        placeholder="#3d4fd1"
        isCode
        error={error}
      />
    </div>
  );
}

const pairs: { text: ColourName; ground: ColourName; what: string }[] = [
  { text: 'foreground', ground: 'background', what: 'Text on the background' },
  { text: 'primary', ground: 'background', what: 'Primary on the background' },
  { text: 'accent', ground: 'background', what: 'Accent on the background' },
  { text: 'background', ground: 'primary', what: 'Background on primary, as on buttons' },
];

/** How well the colours read on each other (WCAG 2.2: 4.5 for text, 3 for large text and signs). */
function Contrasts({ draft }: { draft: Draft }) {
  const known = pairs
    .map((pair) => ({ ...pair, ratio: contrastOf(draft[pair.text], draft[pair.ground]) }))
    .filter(({ ratio }) => ratio !== undefined);
  if (known.length === 0) return null;
  return (
    <ul class="contrasts" aria-label="Contrast">
      {known.map(({ text, ground, what, ratio = 1 }) => (
        <li key={what}>
          <span class="sample" aria-hidden="true" style={{ color: draft[text], background: draft[ground] }}>
            Aa
          </span>
          <span>{what}</span>
          <span class="number">{(Math.floor(ratio * 10) / 10).toFixed(1)}</span>
          {ratio >= 4.5 ? (
            <Badge tone="good">{ratio >= 7 ? 'Reads very well' : 'Reads well'}</Badge>
          ) : ratio >= 3 ? (
            <Badge tone="wait">Large text alone</Badge>
          ) : (
            <Badge tone="bad">Hard to read</Badge>
          )}
        </li>
      ))}
    </ul>
  );
}

function Fonts({ draft, change }: { draft: Draft; change: Change }) {
  return (
    <Section title="Fonts" about="Both, or none. Shown in their own face where this computer has it.">
      {(['heading', 'body'] as const).map((name) => (
        <div class="stack font" key={name}>
          <Field
            label={labels[name]}
            value={draft[name]}
            onInput={(value) => change({ [name]: value })}
            placeholder="Inter"
          />
          {draft[name] !== '' && <Specimen family={draft[name]} isHeading={name === 'heading'} />}
        </div>
      ))}
    </Section>
  );
}

function Specimen({ family, isHeading }: { family: string; isHeading: boolean }) {
  const isThere = useMemo(() => hasFont(family), [family]);
  const name = firstFamily(family);
  return (
    <figure class="specimen">
      <p
        class={isHeading ? 'large' : undefined}
        style={{ fontFamily: isThere ? JSON.stringify(name) : undefined }}
      >
        {isHeading
          ? 'Quiet pictures that move'
          : 'The tide comes in twice a day, and nobody has to ask it to.'}
      </p>
      {!isThere && (
        <figcaption class="note">
          {name} is not on this computer: this is the dashboard’s own face.
        </figcaption>
      )}
    </figure>
  );
}

function Identity({ draft, change, error }: { draft: Draft; change: Change; error: unknown }) {
  const [broken, setBroken] = useState<string>();
  const isUrl = URL.canParse(draft.logoUrl);
  return (
    <Section title="Name and logo">
      <Field label="Name" value={draft.brandName} onInput={(brandName) => change({ brandName })} />
      <Field
        label="Address of the logo"
        type="url"
        value={draft.logoUrl}
        onInput={(logoUrl) => change({ logoUrl })}
        placeholder="https://example.com/logo.svg"
        isCode
        error={
          broken !== undefined && broken === draft.logoUrl
            ? 'No image could be read there.'
            : issueOf(error, 'brandConfig.logoUrl')
        }
      />
      {isUrl && broken !== draft.logoUrl && (
        <div class="logo-preview">
          <img src={draft.logoUrl} alt="The logo" onError={() => setBroken(draft.logoUrl)} />
        </div>
      )}
    </Section>
  );
}

function Review(props: {
  isOpen: boolean;
  changed: Difference[];
  missing: FieldName[];
  isBusy: boolean;
  error: unknown;
  onSave(): void;
  onClose(): void;
}) {
  const { missing } = props;
  return (
    <Dialog
      title="What changes"
      isOpen={props.isOpen}
      onClose={props.onClose}
      isWide
      actions={
        <>
          <Button onClick={props.onClose}>Not yet</Button>
          <Button look="main" isBusy={props.isBusy} disabled={missing.length > 0} onClick={props.onSave}>
            Save
          </Button>
        </>
      }
    >
      <Differences changed={props.changed} beforeTitle="Before" afterTitle="After" />
      {missing.length > 0 && (
        <Notice tone="bad">
          Still missing: {missing.map((name) => groupedLabel(name)).join(', ')}. Colours go together, fonts
          too.
        </Notice>
      )}
      <Problem error={props.error} />
    </Dialog>
  );
}

const groupedLabel = (name: FieldName) =>
  name === 'heading' || name === 'body'
    ? `font of ${labels[name].toLowerCase()}`
    : labels[name].toLowerCase();

/** Before and after, field by field; with `onToggle` each can be left out. */
function Differences(props: {
  changed: readonly Difference[];
  beforeTitle: string;
  afterTitle: string;
  left?: ReadonlySet<FieldName> | undefined;
  onToggle?: ((name: FieldName) => void) | undefined;
}) {
  const { changed, left, onToggle } = props;
  return (
    <Wide label="What differs">
      <table class="differences">
        <caption class="unseen">What differs</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">{props.beforeTitle}</th>
            <th scope="col">{props.afterTitle}</th>
          </tr>
        </thead>
        <tbody>
          {changed.map(({ name, before, after }) => (
            <tr key={name} data-left={left?.has(name) || undefined}>
              <th scope="row">
                {onToggle ? (
                  <label class="row">
                    <input type="checkbox" checked={!left?.has(name)} onChange={() => onToggle(name)} />
                    {fullLabel(name)}
                  </label>
                ) : (
                  fullLabel(name)
                )}
              </th>
              <td>
                <Value name={name} text={before} />
              </td>
              <td>
                <Value name={name} text={after} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

const fullLabel = (name: FieldName) =>
  name === 'heading' || name === 'body' ? `Font: ${labels[name].toLowerCase()}` : labels[name];

function Value({ name, text }: { name: FieldName; text: string }) {
  if (text === '') return <span class="soft">none</span>;
  const isColour = (colourNames as readonly string[]).includes(name);
  return (
    <span class="value">
      {isColour && <i class="dot" aria-hidden="true" style={{ background: text }} />}
      <code>{text}</code>
    </span>
  );
}

const filled = (draft: Draft) =>
  Object.fromEntries(Object.entries(draft).filter(([, text]) => text !== '')) as Partial<Draft>;

function toggled(names: ReadonlySet<FieldName>, name: FieldName): ReadonlySet<FieldName> {
  const next = new Set(names);
  if (!next.delete(name)) next.add(name);
  return next;
}
