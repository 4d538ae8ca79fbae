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

// A corner without words is no heading.
markdown.renderer.rules['th_open'] = (tokens, index, options, _env, self) =>
  tokens[index + 1]?.content === '' ? '<td>' : self.renderToken(tokens, index, options);
markdown.renderer.rules['th_close'] = (tokens, index) =>
  tokens[index - 1]?.content === '' ? '</td>' : '</th>';

// Long names and paths go on in the next line where their words end.
markdown.renderer.rules['code_inline'] = (tokens, index) => {
  const { content = '' } = tokens[index] ?? {};
  const code = markdown.utils.escapeHtml(content);
  const broken = content.length > unbrokenChars ? code.replace(/([_/])(?=[a-z{])/gi, '$1<wbr>') : code;
  // An option stays whole: a browser would go on in the next line after its first hyphen.
  return `<code>${broken.replace(/--[a-z][\w-]*/g, '<span class="option">$&</span>')}</code>`;
};

const unbrokenChars = 16;

// What a shell or a program passes over is softer than what it runs.
markdown.renderer.rules['fence'] = (tokens, index) => {
  const { content = '', info = '' } = tokens[index] ?? {};
  const lines = markdown.utils.escapeHtml(content.trimEnd()).split('\n');
  const comment = /^\s*(\/\/|#(?!#|!))/;
  const code = lines.map((line) => (comment.test(line) ? `<span class="note">${line}</span>` : line));
  return `<pre tabindex="0"><code class="language-${info.trim().split(/\s/)[0]}">${code.join('\n')}</code></pre>\n`;
};

/** The second headings of a text, with their anchors. */
export function headingsOf(text: string): { id: string; title: string }[] {
  return markdown.parse(text, {}).flatMap((token, index, tokens) => {
    const title = tokens[index + 1]?.content ?? '';
    return token.type === 'heading_open' && token.tag === 'h2'
      ? [{ id: toSlug(title), title: title.replace(/[`*]/g, '') }]
      : [];
  });
}

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
