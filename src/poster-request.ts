/** Front ends ask a worker for the poster of a source: fetching and decoding are no work of theirs (decisions 7). */

/** Name of the request on the bus; the answer is a jpg. */
export const posterRequest = 'poster';
/** Longest wait for it, in ms. */
export const posterMs = 45_000;

export type PosterRequest = { project: string; source: string };
