/** Markdown of guides and descriptions as HTML. HTML in it stays text. */
import MarkdownIt from 'markdown-it';
import { Html } from './html.ts';

const markdown = new MarkdownIt({ html: false, linkify: false, typographer: false });

// Headings have anchors, so that every part of a guide has an address.
markdown.renderer.rules['heading_open'] = (tokens, index, options, _env, self) => {
  const token = tokens[index];
  token?.attrSet('id', toSlug(tokens[index + 1]?.content ?? ''));
  return self.renderToken(tokens, index, options);
};

// Wide tables scroll by themselves: the page never does.
markdown.renderer.rules['table_open'] = () => '<div class="scroll" tabindex="0" role="group"><table>\n';
markdown.renderer.rules['table_close'] = () => '</table></div>\n';

export function toHtml(text: string): Html {
  return new Html(markdown.render(text));
}

/** One line, without a paragraph around it. */
export function toInlineHtml(text: string): Html {
  return new Html(markdown.renderInline(text));
}

export function toSlug(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}
