/**
 * Looks a deployment over: many checks at once, each with an end, each with a word on what to do.
 *
 * A check changes nothing but what it says it writes. What cannot be asked because something else is missing is skipped
 * rather than guessed.
 */
import { withTime } from './work.ts';

/** `cure`: what to do about it. */
export type Finding =
  | { status: 'ok' | 'skipped'; says: string }
  | { status: 'warning' | 'trouble'; says: string; cure: string };

export type Check = {
  name: string;
  /** @throws what keeps it from being made: that is trouble, with `cure`. */
  look(signal: AbortSignal): Promise<Finding[]>;
  cure: string;
};

export type Diagnosis = { name: string; findings: Finding[] }[];

const checkMs = 15_000;
const maxSaysChars = 500;

export const ok = (says: string): Finding => ({ status: 'ok', says });
export const skipped = (says: string): Finding => ({ status: 'skipped', says });
export const warning = (says: string, cure: string): Finding => ({ status: 'warning', says, cure });
export const trouble = (says: string, cure: string): Finding => ({ status: 'trouble', says, cure });

/** @param limitMs longest wait for one check */
export async function diagnose(checks: readonly Check[], limitMs = checkMs): Promise<Diagnosis> {
  return Promise.all(
    checks.map(async ({ name, look, cure }) => {
      try {
        return { name, findings: await withTime(limitMs, look) };
      } catch (cause) {
        return { name, findings: [trouble(reasonOf(cause), cure)] };
      }
    }),
  );
}

export const isInTrouble = (diagnosis: Diagnosis): boolean =>
  diagnosis.some(({ findings }) => findings.some(({ status }) => status === 'trouble'));

/** For people: one line a finding, and below what is not well what to do. */
export function describe(diagnosis: Diagnosis): string {
  const lines = diagnosis.flatMap(({ name, findings }) =>
    findings.flatMap((finding) => {
      const line = `${marks[finding.status]} ${name}: ${finding.says}`;
      return 'cure' in finding ? [line, `          → ${finding.cure}`] : [line];
    }),
  );
  const count = (status: Finding['status']) =>
    diagnosis.flatMap(({ findings }) => findings).filter((one) => one.status === status).length;
  const sum = `${count('ok')} well, ${count('warning')} to think about, ${count('trouble')} in trouble, ${count('skipped')} not looked at`;
  return [...lines, '', sum].join('\n');
}

const marks = { ok: 'ok       ', skipped: 'skipped  ', warning: 'warning  ', trouble: 'TROUBLE  ' };

/** The messages of an error and of what caused it, without passwords in addresses. */
export function reasonOf(cause: unknown): string {
  const said: string[] = [];
  for (let one = cause; one !== undefined && said.length < 4; one = (one as { cause?: unknown })?.cause) {
    const text =
      one instanceof Error ? one.message || (one as NodeJS.ErrnoException).code || one.name : String(one);
    if (!said.includes(text)) said.push(text);
  }
  return said
    .join(': ')
    .replace(/\/\/[^/@\s]*@/g, '//[hidden]@')
    .slice(0, maxSaysChars);
}
