/**
 * Every number of the contract (specification 8, decisions), unit in the name.
 *
 * What an operator may change at start is a setting with its default here: see src/config.ts.
 */

/** Source images (specification 8, decisions 3 and 8). */
export const source = {
  maxBytes: 10 * 1024 * 1024,
  maxPixels: 40_000_000,
  minSidePixels: 64,
  maxUrlChars: 2048,
  firstByteMs: 10_000,
  totalMs: 30_000,
  maxRedirects: 3,
} as const;

/** Accounts (specification 4.1 and 8, decisions 1). */
export const account = {
  emailMaxChars: 255,
  nameMaxChars: 255,
  passwordMinChars: 8,
  passwordMaxChars: 128,
  sessionSlidingDays: 30,
  sessionAbsoluteDays: 90,
  sessionTouchHours: 24,
  /** How coarse the times are at which a session or an API token was last seen. */
  seenEveryMinutes: 10,
  userAgentMaxChars: 255,
  maxSessionsListed: 100,
  tokenNameMaxChars: 100,
  maxTokens: 50,
  tokenPreviewChars: 12,
  resetMinutes: 60,
  emailChangeHours: 24,
  verifyDays: 7,
} as const;

/** Attempts within a sliding time, shared by all processes (decisions 1, Throttling). */
export const throttle = {
  signIn: { windowMs: 15 * 60_000, perPair: 10, perEmail: 100, perAddress: 50 },
  signUp: { windowMs: 60 * 60_000, perAddress: 20 },
  /** Mails to reset a password. */
  forgot: { windowMs: 60 * 60_000, perEmail: 5, perAddress: 50 },
  /** Wrong passwords of who is signed in already. */
  confirm: { windowMs: 15 * 60_000, perUser: 10 },
  /** Mails to an address that a user names. */
  changeEmail: { windowMs: 60 * 60_000, perUser: 5 },
} as const;

/** Mail: the outbox and the development mailbox (decisions 1). */
export const mail = {
  sendMs: 30_000,
  /** A claimed mail is another's again after this: longer than any sending. */
  leaseMs: 120_000,
  firstRetryMs: 15_000,
  maxRetryMs: 60 * 60_000,
  giveUpAfterMs: 24 * 60 * 60_000,
  /** How often the outbox is looked at. */
  lookEveryMs: 1_000,
  maxAtOnce: 4,
  mailboxKept: 200,
  mailboxDays: 7,
} as const;

/** Sign-in at other providers (decisions 1, OAuth). */
export const oauth = {
  stateMs: 10 * 60_000,
  /** Flows that one browser may have under way: a cookie each, in a head of about 4 KB. */
  maxFlows: 3,
  maxSubjectChars: 255,
  /** Longest wait for one answer of a provider, and the most that is read of it. */
  providerMs: 10_000,
  maxAnswerBytes: 1024 * 1024,
  /** How long what was discovered about a provider is believed. */
  discoveryMs: 60 * 60_000,
  /** Redirects to and from providers, per client address. */
  perAddress: 60,
  addressWindowMs: 10 * 60_000,
} as const;

/** Projects (specification 2 and 8, decisions 2). */
export const project = {
  nameMaxChars: 255,
  domainMaxChars: 255,
  maxDomains: 100,
  maxOrigins: 100,
  maxSourceHosts: 100,
  brandTextMaxChars: 2048,
  maxPerUser: 1000,
} as const;

/** Options of an asset (decisions 3). */
export const asset = {
  minSeconds: 2,
  maxSeconds: 8,
  defaultSeconds: 4,
  promptMaxChars: 2000,
  maxSeed: 2 ** 32 - 1,
  maxListed: 100,
  defaultListed: 50,
  /** Earlier runs' facts that stay in the document; the present run's all stay (invariant I1). */
  earlierFactsKept: 100,
  /** Newest deliveries whose events a timeline shows. */
  maxTimelineDeliveries: 100,
} as const;

/** Stages of the pipeline (specification 3 and 7). */
export const pipeline = {
  maxAttempts: 3,
  backoffMs: [0, 1_000, 4_000],
  visionTimeoutMs: 30_000,
  videoTimeoutMs: 5 * 60_000,
  mergeTimeoutMs: 5 * 60_000,
  storeWriteTimeoutMs: 60_000,
  fetchTimeoutMs: 45_000,
  reconcileAfterMs: 5 * 60_000,
  reconcileEveryMs: 60_000,
  stallAfterMs: 10 * 60_000,
  /** Longest estimated wait for a slot before a new run is refused with 503 (decisions 3, Busy). */
  maxQueueWaitMs: 5 * 60_000,
} as const;

/** Exchanges with model providers (provider wire formats, 1). */
export const provider = {
  submitMs: 30_000,
  statusMs: 15_000,
  cancelMs: 10_000,
  downloadMs: 120_000,
  visionMs: 30_000,
  maxAnswerBytes: 1024 * 1024,
  /** Longest wait that a provider may ask for. */
  maxRetryAfterMs: 5 * 60_000,
  /** How long nobody submits after a refusal for haste that names no time. */
  throttledMs: 10_000,
  /** Of an image that travels inside a request, before it is encoded as text. */
  maxInlineBytes: 190 * 1024,
  maxImageSide: 2048,
  promptMaxChars: 1000,
  messageMaxChars: 300,
  callbackMaxBytes: 1024 * 1024,
  callbackToleranceMs: 5 * 60_000,
  /** An id that nobody knows is answered with 404 for so long after a submit: the provider asks again. */
  callbackUnknownMs: 60_000,
  webhookSecretMs: 60 * 60_000,
  keySetMs: 24 * 60 * 60_000,
  keySetRefetchMs: 60_000,
  /** Predictions under way at once and submits in a minute, over all processes, unless the operator says more. */
  concurrent: 20,
  submitsPerMinute: 60,
  /** Failures in a row after which a provider is asked last, and for how long: twice as long each time. */
  failuresToOpen: 5,
  openMs: 30_000,
  maxOpenMs: 5 * 60_000,
  /** How long what is known of a prediction stays. */
  predictionKeptMs: 24 * 60 * 60_000,
} as const;

/** Uploads (specification 4.3, decisions 3). */
export const upload = {
  maxBytes: source.maxBytes,
  unusedKeptDays: 7,
  maxUnusedBytesPerUser: 500 * 1024 * 1024,
} as const;

/** Calls of an object store (decisions 10, STORAGE_URL). */
export const storage = {
  connectMs: 5_000,
  /** From the end of a request to the first byte of its answer; also how long the store may take no more of a body. */
  answerMs: 15_000,
  /** Between two pieces of an answer, while its reader is ready for more. */
  idleMs: 15_000,
  /** A whole call without a body, its wait for a connection included; of a stream the time until it begins. */
  callMs: 30_000,
  /** Attempts after the first, and the wait before the first of them: it doubles, lengthened at random. */
  retries: 3,
  retryMs: 200,
  keepAliveMs: 10_000,
  /** Connections of this process for calls, and for objects that are being read. */
  connections: 64,
  streams: 1_024,
  /** Until the check at the start has found the bucket usable. */
  checkMs: 20_000,
} as const;

/** The public proxy (specification 4.4, decisions 4). */
export const proxy = {
  maxSourceUrlBytes: 1500,
  maxWaitMs: 8_000,
  minRetryAfterSeconds: 1,
  maxRetryAfterSeconds: 30,
  preflightMaxAgeSeconds: 7200,
  cacheMaxAgeSeconds: 60,
  cacheStaleSeconds: 600,
  maxPosterFetchesPerProject: 10,
  maxSignatureExpiryDigits: 10,
} as const;

/** Server-sent events (specification 4.4, decisions 5). */
export const sse = {
  maxMs: 5 * 60_000,
  /** A stream ends at a random point between this share of its longest life and all of it. */
  minLifeShare: 0.8,
  heartbeatMs: 15_000,
  minRetryMs: 1_000,
  maxRetryMs: 5_000,
  outageRetryMs: 30_000,
  /** When a process stops: its streams come back to others, spread, or to the one that takes its place. */
  minRestartRetryMs: 2_000,
  maxRestartRetryMs: 8_000,
  blockedMs: 15_000,
  ringEvents: 1024,
  ringBytes: 1024 * 1024,
  keptHours: 24,
} as const;

/** Webhooks (specification 3, 5 and 8, decisions 6). */
export const webhook = {
  timeoutMs: 10_000,
  maxAttempts: 5,
  scheduleMs: [30_000, 120_000, 600_000, 1_800_000, 7_200_000],
  toleranceMs: 5 * 60_000,
  maxListed: 50,
  secretPreviewChars: 12,
  previewBytes: 1024,
  secretBytes: 32,
  rotationMs: 24 * 60 * 60_000,
  maxUrlChars: 2048,
  /** A wait after a failed attempt is lengthened by up to this share of it. */
  maxLengthening: 0.1,
  maxRetryAfterMs: 2 * 60 * 60_000,
  maxAnswerBytes: 64 * 1024,
  bodyMs: 1_000,
  maxInFlightPerEndpoint: 10,
  keptDays: 30,
  /** Deliveries that one request sends again at most. */
  maxRedelivered: 10_000,
  /** Facts of a delivery's earlier rounds that stay in its document. */
  earlierFactsKept: 24,
} as const;

/** What operators may ask for and set (decisions 10, Operator). */
export const operator = {
  maxListed: 100,
  defaultListed: 50,
  searchMaxChars: 255,
  maxUsed: 1_000_000,
  lastBillingDay: 31,
  /** How old counts may be that are shown again. */
  countsMs: 2_000,
  /** How long what was measured of past runs is believed, and of how many of them it is. */
  usualMs: 60_000,
  usualRuns: 200,
  /** Waiting for a slot is expected to be over by then. */
  slotMs: 60_000,
  /** Longer than its share of the slowest by this factor is longer than usual, but never within this time. */
  usualFactor: 3,
  usualAtLeastMs: 10_000,
  /** The last runs and deliveries that the verdict is made of, how many at most, and at least. */
  verdictMs: 15 * 60_000,
  verdictMax: 1_000,
  verdictMin: 5,
  /** Of those that have ended, the share that may have failed. */
  failedShare: 0.5,
  /** Webhooks that are given up at fewer endpoints are a matter of these customers. */
  failedEndpoints: 3,
  /** An endpoint to which an attempt was made within this is being worked on; so many of them are looked at. */
  triedMs: 2 * 60_000,
  maxEndpoints: 200,
  /** A worker that was not heard for so long is not there. */
  workerMs: 5_000,
  /** How long workers are waited for that were asked what they do. */
  lookMs: 400,
  /** What a worker tells of those that wait in a class of slots. */
  maxWaitingTold: 500,
  maxFound: 20,
  maxRelated: 50,
  maxPredictions: 100,
  reasonMaxChars: 300,
  /** A bulk job: its sample, what a preview counts up to, machines a second, how long its worker holds it. */
  bulkSample: 10,
  bulkCounted: 100_000,
  bulkPerSecond: 50,
  bulkLeaseMs: 10_000,
} as const;

/** Counting of runs (specification 8, decisions 7). */
export const usage = {
  freeCycleDays: 30,
  /** Past cycles that are kept and shown. */
  historyCycles: 12,
  /** Projects of a user whose runs of a cycle are told apart; the runs of all others are one sum. */
  projectsCounted: project.maxPerUser,
} as const;

/** Brand detection and deep crawl (specification 4.2 and 8, decisions 7). */
export const crawl = {
  cacheHours: 24,
  /** From the request to its answer, everything included. */
  detectMs: 20_000,
  deepMs: 75_000,
  /** Of a result as JSON: it travels over the bus in one message. */
  maxResultBytes: 512 * 1024,
  maxPages: 25,
  pagesAtOnce: 4,
  maxPageBytes: 10 * 1024 * 1024,
  maxSheets: 30,
  maxSheetsBytes: 8 * 1024 * 1024,
  maxImportDepth: 3,
  /** Followed at most, each judged as the first address was. */
  maxRedirects: 3,
  /** All fetching of a deep crawl: then what was read is what there is. */
  fetchMs: 60_000,
  /** Of the memory of the thread that reads a site. */
  maxThreadMb: 128,
} as const;

/** Drawing of pages that are made by scripts, in a browser of the operator's. */
export const browser = {
  /** Browsers at once in one worker, and pages that may wait for one. */
  atOnce: 1,
  maxWaiting: 4,
  /** From the page's address to its first tree; of quiet after it; of everything, with the browser's start. */
  drawMs: 8_000,
  quietMs: 2_000,
  totalMs: 14_000,
  requestMs: 4_000,
  requestsAtOnce: 4,
  maxRequests: 100,
  maxRequestBytes: 5 * 1024 * 1024,
  maxBytes: 20 * 1024 * 1024,
  maxRedirects: 3,
  maxHtmlChars: 4 * 1024 * 1024,
  /** Of all its processes together, and of the scripts of one page. */
  maxMemoryMb: 512,
  maxHeapMb: 128,
  /** Of one deep crawl, with the home page. */
  pagesOfCrawl: 5,
} as const;

/** A language model that chooses among candidates of a brand. */
export const brandModel = {
  answerMs: 8_000,
  leastConfidence: 0.5,
  maxAnswerBytes: 64 * 1024,
  /** Of each list that it is shown, and of each text. */
  maxCandidates: 6,
  maxTextChars: 300,
  /** A detection that took longer by then asks no model. */
  latestStartMs: 10_000,
} as const;

/** Requests per user and minute (specification 8); `other` is shared by all endpoints without a row. */
export const perMinute = {
  prepare: 60,
  regenerate: 30,
  deepCrawl: 10,
  detectBrand: 30,
  webhookTest: 30,
  other: 300,
} as const;

/** Bodies and headers of requests (specification 7, decisions 9). */
export const http = {
  maxJsonBytes: 1024 * 1024,
  /** Path and headers together; one that comes in pieces is refused by the parser past 4 KB. */
  maxHeadBytes: 32 * 1024,
  /** Longest time for a body that is kept in memory, and for one that is streamed. */
  bodyMs: 30_000,
  streamMs: 5 * 60_000,
  /** Longest silence within a body. The parser itself hangs up without a word after 8 to 12 seconds. */
  bodySilenceMs: 6_000,
  requestIdMinChars: 4,
  requestIdMaxChars: 64,
  stopMs: 10_000,
  /** How long a stop still answers on open connections, so that balancers and clients leave by themselves. */
  drainMs: 1_500,
  /** How long what is safe to repeat is repeated while store or bus are away: an election takes 2 to 5 s. */
  waitOutMs: 8_000,
} as const;

/** Requests that may be sent again (decisions 3, Idempotency). */
export const idempotency = {
  keyMaxChars: 255,
  keptMs: 24 * 60 * 60_000,
  /** How long an attempt is taken to be running after its process was last heard of. */
  leaseMs: 30_000,
  /** Larger answers are not kept. */
  maxAnswerBytes: 256 * 1024,
} as const;

/** Erasing assets and accounts (decisions 1 and 3). */
export const erasure = {
  /** How soon it is looked whether the machine of an asset knows; then after twice as long, again and again. */
  retryMs: 2_000,
  /** An upload is not deleted sooner than this after an asset began to use it: its document may be on the way. */
  uploadUsedMs: 60_000,
  /** When the files of an asset are deleted once more: most of what was under way has ended. */
  settleMs: 2 * 60_000,
  /** How long the last of an asset or account stays, so that everything that was under way is found. */
  keptMs: 15 * 60_000,
  /** How often an account is gone through until then. */
  passMs: 60_000,
} as const;

/** The durable runtime (architecture 3 and 3a). */
export const runtime = {
  partitions: 64,
  maxBatch: 512,
  maxQueued: 4096,
  /** A command bears the time at which it was sent, unless it has waited for its owner for longer than this. */
  maxLagMs: 10_000,
} as const;

/** Of the keys of images that are put under an address for a model provider alone: deleted soon, and never cached. */
export const shownEnding = '-shown.jpg';
