/**
 * The models that each provider offers for the models of our plans, and what their inputs are called (wire formats 3).
 *
 * Which of them are used is a setting: one for each of ours, in one list. What is not in these tables is refused at
 * the start, since a field with another name would only be found out by a paid clip.
 */
import { Model } from '../../schemas/asset.ts';
import type { VideoJob } from './provider.ts';

export const remoteNames = ['replicate', 'fal', 'runway', 'luma'] as const;
export type RemoteName = (typeof remoteNames)[number];

export type VideoModel = {
  /** Names of the inputs for the first and the last frame; `at` is Runway's list with positions. */
  first: string;
  last?: string;
  negative?: string;
  takesSeed?: true;
  /** Lengths that can be asked for, in seconds, shortest first. */
  seconds: readonly number[];
  /** How a length is written: 5, "5" or "5s". */
  secondsAs: 'number' | 'text' | 'unit';
  /** Sizes of a clip, `width:height`, where the model must be told one. */
  sizes?: readonly string[];
  /** Further inputs. */
  extra?: Readonly<Record<string, unknown>>;
  /** Further inputs for our best model. */
  best?: Readonly<Record<string, unknown>>;
  /** Price of a second, in millionths of a dollar, where the provider does not tell what a clip cost. */
  microsPerSecond?: number;
};

/** A model that was chosen for one of ours; its price may be the operator's. */
export type ChosenModel = VideoModel & { id: string };
export type ChosenModels = Readonly<Record<Model, ChosenModel>>;

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const seedance: VideoModel = {
  first: 'image',
  last: 'last_frame_image',
  takesSeed: true,
  seconds: range(2, 12),
  secondsAs: 'number',
  extra: { resolution: '720p' },
  best: { resolution: '1080p' },
};
const klingOnFal: VideoModel = {
  first: 'start_image_url',
  last: 'end_image_url',
  negative: 'negative_prompt',
  seconds: [5, 10],
  secondsAs: 'text',
};
const runwayFirst: VideoModel = {
  first: 'first',
  takesSeed: true,
  seconds: range(2, 10),
  secondsAs: 'number',
  sizes: ['1280:720', '720:1280', '1104:832', '832:1104', '960:960'],
};
const veoOnRunway: VideoModel = {
  first: 'first',
  last: 'last',
  seconds: [4, 6, 8],
  secondsAs: 'number',
  sizes: ['1280:720', '720:1280'],
};
const ray: VideoModel = { first: 'frame0', last: 'frame1', seconds: [5, 9], secondsAs: 'unit' };

const tables: Record<RemoteName, Readonly<Record<string, VideoModel>>> = {
  replicate: {
    'bytedance/seedance-1-lite': seedance,
    'bytedance/seedance-1-pro': seedance,
    'kwaivgi/kling-v2.5-turbo-pro': {
      first: 'start_image',
      negative: 'negative_prompt',
      seconds: [5, 10],
      secondsAs: 'number',
      microsPerSecond: 70_000,
    },
  },
  fal: {
    'fal-ai/vidu/q2/image-to-video/pro': {
      first: 'image_url',
      last: 'end_image_url',
      takesSeed: true,
      seconds: range(2, 8),
      secondsAs: 'number',
    },
    'fal-ai/kling-video/v2.5-turbo/pro/image-to-video': {
      ...klingOnFal,
      first: 'image_url',
      last: 'tail_image_url',
      microsPerSecond: 70_000,
    },
    'fal-ai/kling-video/v2.6/pro/image-to-video': klingOnFal,
    'fal-ai/kling-video/v3/pro/image-to-video': {
      ...klingOnFal,
      seconds: range(3, 15),
    },
    'fal-ai/luma-dream-machine/ray-2/image-to-video': {
      first: 'image_url',
      last: 'end_image_url',
      seconds: [5, 9],
      secondsAs: 'unit',
    },
  },
  runway: {
    gen4_turbo: runwayFirst,
    'gen4.5': runwayFirst,
    'veo3.1_fast': veoOnRunway,
    'veo3.1': veoOnRunway,
  },
  luma: { 'ray-flash-2': ray, 'ray-2': ray },
};

export const defaultModels: Record<RemoteName, string> = {
  replicate:
    'fast=bytedance/seedance-1-lite,standard=bytedance/seedance-1-pro,cinema=bytedance/seedance-1-pro',
  fal: 'fast=fal-ai/vidu/q2/image-to-video/pro,standard=fal-ai/kling-video/v2.5-turbo/pro/image-to-video,cinema=fal-ai/kling-video/v3/pro/image-to-video',
  runway: 'fast=veo3.1_fast,standard=veo3.1_fast,cinema=veo3.1',
  luma: 'fast=ray-flash-2,standard=ray-2,cinema=ray-2',
};

/** What a list of models must look like, for who writes one. */
export function acceptedModels(name: RemoteName): string {
  return `fast=…,standard=…,cinema=… of ${Object.keys(tables[name]).join(', ')}, each with @<dollars a second> or without`;
}

/**
 * Reads `fast=<id>,standard=<id>,cinema=<id>`, each with `@<dollars a second>` or without.
 *
 * @throws {TypeError} for a list that lacks one of our models, or names one that is not in the table.
 */
export function readModels(name: RemoteName, text: string): ChosenModels {
  const chosen = new Map<string, ChosenModel>();
  for (const entry of text.split(',')) {
    const [, ours = '', id = '', dollars] =
      /^\s*(\w+)=([\w./-]{1,120})(?:@(\d{1,3}(?:\.\d{1,6})?))?\s*$/.exec(entry) ?? [];
    const found = tables[name][id];
    if (!found || !Model.options.some((one) => one === ours)) throw new TypeError(`not a model: ${entry}`);
    const price = dollars === undefined ? {} : { microsPerSecond: Math.round(Number(dollars) * 1e6) };
    chosen.set(ours, { ...found, id, ...price });
  }
  const of = (model: Model) => {
    const one = chosen.get(model);
    if (!one) throw new TypeError(`no model for ${model}`);
    return one;
  };
  return { fast: of('fast'), standard: of('standard'), cinema: of('cinema') };
}

/** Our models whose clips can be told how to end. */
export function withLastFrame(models: ChosenModels): Model[] {
  return Model.options.filter((model) => models[model].last !== undefined);
}

/**
 * The length to ask for: the shortest that is not below half of the wish for one of a loop's two clips, all of it
 * for a single clip, else the longest there is.
 */
export function secondsFor({ seconds }: VideoModel, job: Pick<VideoJob, 'segment' | 'seconds'>): number {
  const least = job.segment === 'whole' ? job.seconds : job.seconds / 2;
  return seconds.find((one) => one >= least) ?? seconds.at(-1) ?? job.seconds;
}

/** A length as the model takes it. */
export function writtenSeconds({ secondsAs }: VideoModel, seconds: number): number | string {
  if (secondsAs === 'number') return seconds;
  return secondsAs === 'text' ? String(seconds) : `${seconds}s`;
}

/** What a clip costs by its price, in millionths of a dollar; undefined where none is known. */
export function priceOf(models: ChosenModels, job: VideoJob): number | undefined {
  const model = models[job.model];
  const { microsPerSecond } = model;
  return microsPerSecond === undefined ? undefined : Math.round(microsPerSecond * secondsFor(model, job));
}

/** 31 bits are safe everywhere. */
export const seedFor = (seed: number): number => seed % 2 ** 31;
