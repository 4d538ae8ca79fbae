/**
 * Subjects of the bus, in one place.
 *
 *   c.<project>.<kind>.<id>                commands as published; stored as cmd.<partition>.<project>.<kind>.<id>
 *   evt.<project>.<id>.<event>             facts
 *   work.<effect>.<project>.<kind>.<id>    work for a worker
 *   own.<verb>, stat.<verb>                plain messages between processes, kept by nobody
 *
 * `prefix` sets installations on one server apart, tests above all; it ends in a dot or is empty.
 */
export type Subjects = ReturnType<typeof createSubjects>;

export function createSubjects(prefix: string, partitions: number) {
  return {
    streams: {
      commands: streamName(prefix, 'CMD'),
      facts: streamName(prefix, 'EVT'),
      work: streamName(prefix, 'WORK'),
    },
    command: (project: string, kind: string, id: string) => `${prefix}c.${project}.${kind}.${id}`,
    commandsPublished: `${prefix}c.*.*.*`,
    /** Where the stream puts a command: the project decides the partition. */
    commandTransform: `${prefix}cmd.{{partition(${partitions},1)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}`,
    commandsOf: (partition: number) => `${prefix}cmd.${partition}.>`,
    allCommands: `${prefix}cmd.>`,
    fact: (project: string, id: string, event: string) => `${prefix}evt.${project}.${id}.${event}`,
    factsOf: (project: string, id = '*', event = '*') => `${prefix}evt.${project}.${id}.${event}`,
    allFacts: `${prefix}evt.>`,
    work: (effect: string, project: string, kind: string, id: string) =>
      `${prefix}work.${effect}.${project}.${kind}.${id}`,
    workOf: (effect: string) => `${prefix}work.${effect}.>`,
    allWork: `${prefix}work.>`,
    /** The kind of subject, by which a stream takes it: `c`, `evt` or `work`. */
    streamOf: (subject: string) => subject.slice(prefix.length, subject.indexOf('.', prefix.length)),
    plain: (name: string) => `${prefix}${name}`,
    /** Takes a stored command's subject apart. */
    parseCommand(subject: string): { partition: number; project: string; kind: string; id: string } {
      const [partition = '', project = '', kind = '', id = ''] = subject.slice(prefix.length + 4).split('.');
      return { partition: Number(partition), project, kind, id };
    },
  };
}

function streamName(prefix: string, name: string): string {
  return prefix === '' ? name : `${prefix.replaceAll('.', '_')}${name}`;
}
