/** Declares an action that a machine names and the runtime performs after the new state is stored. */
export function declare<Params>(): (_: unknown, params: Params) => void {
  return () => undefined;
}
