/** What a deep crawl found; parts without anything in them are named in one line at the end. */
import type { ComponentChildren } from 'preact';
import type { DeepCrawlResult } from '../../../schemas/crawl.ts';
import { Code } from '../ui/code.tsx';
import { Section } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';

type Content = DeepCrawlResult['content'];
type Messaging = DeepCrawlResult['messaging'];
type Design = DeepCrawlResult['design'];

type Part = { title: string; isThere: boolean; body: ComponentChildren };

export function Found(props: { content: Content; messaging: Messaging; design: Design | undefined }) {
  const { content, messaging, design } = props;
  const parts: Part[] = [
    part('What it says', [content.tagline || content.description], <Says content={content} />),
    part('Messaging', messaging.valueProps.concat(messaging.ctas, messaging.tone), <Words {...messaging} />),
    part('Features', content.features, <Titled entries={content.features.map(fromFeature)} />),
    part('Pricing', content.pricing, <Prices pricing={content.pricing} />),
    part('What people say', content.testimonials, <Quotes quotes={content.testimonials} />),
    part('Numbers', content.stats, <Facts facts={content.stats.map(({ label, value }) => [label, value])} />),
    part('News', content.announcements, <Titled entries={content.announcements.map(fromNews)} />),
    part('Code', content.codeExamples, <Examples examples={content.codeExamples} />),
    ...(design ? [part('Design', [design.vibe], <Facts facts={designFacts(design)} />)] : []),
    part('Pages', content.pages, <Pages pages={content.pages} />),
  ];
  const missing = parts.filter(({ isThere }) => !isThere).map(({ title }) => title.toLowerCase());
  return (
    <>
      {parts
        .filter(({ isThere }) => isThere)
        .map(({ title, body }) => (
          <Section key={title} title={title}>
            {body}
          </Section>
        ))}
      {missing.length > 0 && <p class="note">Nothing was found of: {missing.join(', ')}.</p>}
    </>
  );
}

const part = (title: string, entries: readonly unknown[], body: ComponentChildren): Part => ({
  title,
  isThere: entries.some((entry) => entry !== ''),
  body,
});

type Entry = { title: string; text: string; note?: string | undefined };

const fromFeature = ({ title, description }: Content['features'][number]): Entry => ({
  title,
  text: description,
});
const fromNews = ({ title, body, date }: Content['announcements'][number]): Entry => ({
  title,
  text: body,
  note: date,
});

function Says({ content: { tagline, description } }: { content: Content }) {
  return (
    <>
      {tagline !== '' && <p class="content-tagline">{tagline}</p>}
      {description !== '' && <p>{description}</p>}
    </>
  );
}

function Words({ tone, targetAudience, valueProps, ctas }: Messaging) {
  return (
    <>
      <Facts
        facts={[
          ['Tone', tone],
          ['For', targetAudience],
        ]}
      />
      {valueProps.length > 0 && (
        <div>
          <h3>What it promises</h3>
          <ul class="content-points">
            {valueProps.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </div>
      )}
      {ctas.length > 0 && (
        <div>
          <h3>What it asks for</h3>
          <ul class="content-tags">
            {ctas.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

function Titled({ entries }: { entries: readonly Entry[] }) {
  return (
    <ul class="content-cards">
      {entries.map(({ title, text, note }, at) => (
        <li key={`${at} ${title}`}>
          <h3>{title}</h3>
          {note && <p class="note">{note}</p>}
          {text !== '' && <p>{text}</p>}
        </li>
      ))}
    </ul>
  );
}

function Prices({ pricing }: { pricing: Content['pricing'] }) {
  return (
    <ul class="content-cards">
      {pricing.map(({ tier, price, features }, at) => (
        <li key={`${at} ${tier}`}>
          <h3>{tier}</h3>
          <p class="content-price">{price}</p>
          <ul class="content-points">
            {features.map((feature) => (
              <li key={feature}>{feature}</li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}

function Quotes({ quotes }: { quotes: Content['testimonials'] }) {
  return (
    <>
      {quotes.map(({ quote, author, role }, at) => (
        <figure key={`${at} ${author}`} class="content-quote">
          <blockquote>{quote}</blockquote>
          <figcaption class="note">{[author, role].filter(Boolean).join(', ')}</figcaption>
        </figure>
      ))}
    </>
  );
}

function Examples({ examples }: { examples: Content['codeExamples'] }) {
  return (
    <>
      {examples.map(({ language, code, label }, at) => (
        <Code key={`${at} ${language}`} text={code} name={label ?? language} />
      ))}
    </>
  );
}

function Facts({ facts }: { facts: readonly (readonly [string, string])[] }) {
  return (
    <dl class="content-facts">
      {facts
        .filter(([, text]) => text !== '')
        .map(([name, text], at) => (
          <div key={`${at} ${name}`}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
    </dl>
  );
}

function designFacts(design: Design): [string, string][] {
  const traits = [
    design.hasGlassmorphism && 'glass',
    design.hasGradientBorders && 'gradient borders',
    design.hasRadialGlows && 'radial glows',
  ].filter((trait) => trait !== false);
  return [
    ['Vibe', design.vibe],
    ['Scheme', design.colorScheme],
    ['Corners', design.borderRadius],
    ['Traits', traits.join(', ')],
    ['Background', design.backgroundPattern ?? ''],
    ['Font of code', design.monoFont ?? ''],
    ['Labels of sections', design.sectionLabelStyle ?? ''],
  ];
}

function Pages({ pages }: { pages: Content['pages'] }) {
  return (
    <Table
      caption="Pages of the site"
      rows={pages}
      keyOf={({ url }) => url}
      columns={[
        {
          title: 'Page',
          cell: ({ url, title }) => (
            <a href={url} target="_blank" rel="noreferrer">
              {title || url}
            </a>
          ),
        },
        { title: 'Kind', cell: ({ type }) => type },
        { title: 'Address', isMinor: true, cell: ({ url }) => <code>{pathOf(url)}</code> },
      ]}
    />
  );
}

const pathOf = (url: string) => (URL.canParse(url) ? new URL(url).pathname : url);
