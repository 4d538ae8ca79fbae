/** The operations of a group as Markdown: the twin of the pages of the reference. */
import type { OpenApiDocument } from '../../schemas/openapi.ts';
import { curlOf } from './examples.ts';
import { bodyRows, parameterRows, type Row } from './fields.ts';
import type { Listed } from './reference.ts';

export function operationMarkdown({ method, path, operation }: Listed, document: OpenApiDocument): string {
  const { summary, description, parameters, requestBody, responses } = operation;
  const body = Object.values(requestBody?.content ?? {})[0];
  const parts = [
    `## ${summary}`,
    `\`${method.toUpperCase()} ${path}\``,
    description ?? '',
    table('Parameters', parameterRows(parameters, document)),
    body ? table('Body', bodyRows(body.schema, document)) : '',
    `~~~sh\n${curlOf(method, path, operation, document)}\n~~~`,
    ...Object.entries(responses).map(([status, response]) => {
      const json = response.content?.['application/json'];
      const rows = json && status.startsWith('2') ? bodyRows(json.schema, document) : [];
      return rows.length > 0
        ? table(`${status}: ${response.description}`, rows)
        : `- ${status}: ${response.description}`;
    }),
  ];
  return parts.filter((part) => part !== '').join('\n\n');
}

function table(title: string, rows: readonly Row[]): string {
  if (rows.length === 0) return '';
  const lines = rows.map(({ name, type, required, description, limits }) => {
    const meaning = [required ? 'Required.' : '', description, limits.join(', ')].filter((one) => one !== '');
    return `| \`${name}\` | ${type} | ${meaning.join(' ').replaceAll('|', '\\|').replaceAll('\n', ' ')} |`;
  });
  return [`### ${title}`, '', '| Field | Type | Meaning |', '|---|---|---|', ...lines].join('\n');
}
