/**
 * `<animated-asset>`: the poster at once, the animation as soon as it is ready. A plain script without
 * dependencies, for pages of customers:
 *
 *   <script src="https://assets.example.com/embed.js" async></script>
 *   <animated-asset src="https://assets.example.com/v1/pk_…/….mp4" alt="A cat on a wall"></animated-asset>
 *
 * Attributes: `src`, the proxy URL of the mp4; or `project-key` and `image`, from which it is made, with `motion`,
 * `dur`, `seed`, `aspect`. `mode`: `loop` (default), `animate-in` (once, when it comes into view) or
 * `animate-on-hover`. `alt`; `poster`; `loading="eager"`; `fit` as in object-fit. Methods: `play()`, `pause()`.
 *
 * A video element takes an answer of 202 for a broken file and never asks again: so the URL is asked here, and
 * given to the video when it is ready. The attribute `state` says how far it is (`waiting`, `pending`, `ready`,
 * `playing`, `paused`, `failed`), events of the names `ready`, `playing` and `failed` the same; `failed` has
 * `reason` and `status` in its detail.
 */
// A block, so that a page that loads the script twice declares nothing twice.
{
  type State = 'waiting' | 'pending' | 'ready' | 'playing' | 'paused' | 'failed';
  /** What the service said: ready, ask again in so many ms, or why there will be no animation. */
  type Verdict = { ready: true } | { askInMs: number } | { reason: string; status: number };

  /** The service holds a question for so long (wait_ms). */
  const waitMs = 8_000;
  /** A run has ended after ten minutes, one way or the other. */
  const patienceMs = 11 * 60_000;
  const longestPauseMs = 30_000;
  const maxVideoFailures = 3;
  /** Loaded when it is nearly in view, played when it is. */
  const nearby = '200px';

  const origin = new URL((document.currentScript as HTMLScriptElement | null)?.src ?? location.href).origin;
  const lessMotion = matchMedia('(prefers-reduced-motion: reduce)');
  // Constructed: a page's content policy may forbid inline styles.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`
    :host { display: inline-block; position: relative; overflow: hidden; max-width: 100%; line-height: 0 }
    :host([hidden]) { display: none }
    img, video { width: 100%; height: 100%; object-fit: var(--fit, cover) }
    img { display: block }
    video { position: absolute; inset: 0; opacity: 0; pointer-events: none }
    :host([state=playing]) video, :host([state=paused]) video { opacity: 1 }
  `);

  class AnimatedAsset extends HTMLElement {
    static observedAttributes = [
      'src',
      'poster',
      'alt',
      'mode',
      'fit',
      'image',
      'project-key',
      'motion',
      'dur',
      'seed',
      'aspect',
    ];

    #image = document.createElement('img');
    #video: HTMLVideoElement | undefined;
    /** Ends everything that was begun since the element came into the page. */
    #life: AbortController | undefined;
    #isNear = false;
    #isSeen = false;
    #isHovered = false;
    /** By pause(), until play() is called. */
    #isStopped = false;
    #videoFailures = 0;
    #restarting = false;

    constructor() {
      super();
      this.#image.setAttribute('part', 'poster');
      this.#image.decoding = 'async';
      const root = this.attachShadow({ mode: 'open' });
      root.adoptedStyleSheets = [sheet];
      root.append(this.#image);
    }

    connectedCallback(): void {
      this.#restart();
    }

    disconnectedCallback(): void {
      this.#end();
    }

    attributeChangedCallback(name: string, before: string | null, after: string | null): void {
      if (before === after || !this.isConnected) return;
      if (name === 'alt') this.#image.alt = after ?? '';
      else if (name === 'fit') this.#applyFit();
      else this.#restart();
    }

    /** Plays on from where it is, whatever the mode; from the start when it has ended. */
    play(): void {
      this.#isHovered = true;
      this.#isStopped = false;
      if (this.#video?.ended) this.#video.currentTime = 0;
      this.#playOrPause();
    }

    /** Stays where it is until `play` is called. */
    pause(): void {
      this.#isHovered = false;
      this.#isStopped = true;
      this.#playOrPause();
    }

    get #state(): State | null {
      return this.getAttribute('state') as State | null;
    }

    /** Of the element, else of its address. */
    get #mode(): string {
      return this.getAttribute('mode') ?? /[?&]mode=([\w-]+)/.exec(this.#source)?.[1] ?? 'loop';
    }

    /** Address of the mp4; empty when the attributes name none. @throws {TypeError} when they name no address. */
    get #source(): string {
      const src = this.getAttribute('src');
      if (src) return new URL(src, location.href).href;
      const image = this.getAttribute('image');
      const key = this.getAttribute('project-key');
      if (!image || !key) return '';
      const url = new URL(`${origin}/v1/${key}/${toBase64Url(new URL(image, location.href).href)}.mp4`);
      for (const name of ['motion', 'dur', 'mode', 'seed', 'aspect']) {
        const value = this.getAttribute(name);
        if (value) url.searchParams.set(name, value);
      }
      return url.href;
    }

    /** Attributes that a framework sets one by one are one change. */
    #restart(): void {
      if (this.#restarting) return;
      this.#restarting = true;
      queueMicrotask(() => {
        this.#restarting = false;
        if (this.isConnected) this.#begin();
      });
    }

    #begin(): void {
      this.#end();
      this.#applyFit();
      this.#image.alt = this.getAttribute('alt') ?? '';
      this.#image.removeAttribute('src');
      try {
        const source = this.#source;
        if (source) this.#live(source);
      } catch {
        this.#fail({ reason: 'this is not a URL', status: 0 });
      }
    }

    #live(source: string): void {
      const life = new AbortController();
      this.#life = life;
      this.#become('waiting');
      const poster = this.getAttribute('poster');
      // Sends Origin on pages that send no Referer: the service must know who asks. Another's poster may forbid it.
      this.#image.crossOrigin = poster ? null : 'anonymous';
      this.#image.loading = this.#isEager ? 'eager' : 'lazy';
      this.#image.src = poster ?? posterOf(source);

      const { signal } = life;
      const hover = (isHovered: boolean) => () => {
        this.#isHovered = isHovered;
        if (this.#mode === 'animate-on-hover') this.#playOrPause();
      };
      for (const name of ['pointerenter', 'focusin']) this.addEventListener(name, hover(true), { signal });
      for (const name of ['pointerleave', 'focusout']) this.addEventListener(name, hover(false), { signal });
      const react = () => this.#playOrPause();
      lessMotion.addEventListener('change', react, { signal });
      document.addEventListener('visibilitychange', react, { signal });
      this.#watch(signal, react);
    }

    get #isEager(): boolean {
      return this.getAttribute('loading') === 'eager';
    }

    #end(): void {
      this.#life?.abort();
      this.#life = undefined;
      this.#isNear = this.#isEager;
      this.#isSeen = this.#isHovered = this.#isStopped = false;
      this.#videoFailures = 0;
      this.#dropVideo();
      this.removeAttribute('state');
    }

    #applyFit(): void {
      const fit = this.getAttribute('fit');
      if (fit) this.style.setProperty('--fit', fit);
      else this.style.removeProperty('--fit');
    }

    /** Nothing is asked before the element is nearly seen, or in a page that lies in the background. */
    #watch(signal: AbortSignal, react: () => void): void {
      const watch = (rootMargin: string, note: (isInside: boolean) => void) => {
        const watcher = new IntersectionObserver(
          (entries) => {
            note(entries.at(-1)?.isIntersecting === true);
            react();
          },
          { rootMargin },
        );
        watcher.observe(this);
        signal.addEventListener('abort', () => watcher.disconnect());
      };
      watch(nearby, (isInside) => {
        this.#isNear = isInside || this.#isEager;
      });
      watch('0px', (isInside) => {
        this.#isSeen = isInside;
      });
      react();
    }

    #playOrPause(): void {
      const isWanted = !document.hidden && !lessMotion.matches;
      if (isWanted && this.#isNear && this.#state === 'waiting') void this.#ask();
      const video = this.#video;
      if (!video) return;
      const isAtRest = this.#mode === 'animate-on-hover' && !this.#isHovered && !this.#isStopped;
      if (isWanted && this.#isSeen && !this.#isStopped && !isAtRest) {
        // Refused where a page may not play by itself: the poster stays.
        if (!video.ended) video.play().catch(() => undefined);
        return;
      }
      video.pause();
      if (isAtRest) video.currentTime = 0;
      if (isAtRest || lessMotion.matches) this.#rest();
      // What has ended shows its last frame: it is not in the middle of anything.
      else if (this.#state === 'playing' && !video.ended) this.#become('paused');
    }

    /** The poster again. */
    #rest(): void {
      if (this.#state === 'playing' || this.#state === 'paused') this.#become('ready');
    }

    /** Asks until there is an answer, at most as long as a run can take. */
    async #ask(): Promise<void> {
      const signal = this.#life?.signal;
      if (!signal) return;
      this.#become('pending');
      const source = this.#source;
      const untilTs = Date.now() + patienceMs;
      for (let failures = 0; Date.now() < untilTs; ) {
        const verdict = await ask(source, signal, failures);
        if (signal.aborted) return;
        if ('ready' in verdict) return this.#show(source, signal);
        if ('reason' in verdict) return this.#fail(verdict);
        failures = verdict.askInMs === 0 ? 0 : failures + 1;
        await sleep(verdict.askInMs, signal);
        if (signal.aborted) return;
      }
      this.#fail({ reason: 'it took too long', status: 0 });
    }

    #show(source: string, signal: AbortSignal): void {
      const video = document.createElement('video');
      const mode = this.#mode;
      video.setAttribute('part', 'video');
      video.setAttribute('aria-hidden', 'true');
      video.crossOrigin = 'anonymous';
      video.muted = true;
      video.defaultMuted = true;
      video.playsInline = true;
      video.disablePictureInPicture = true;
      video.preload = mode === 'animate-on-hover' ? 'metadata' : 'auto';
      video.loop = mode !== 'animate-in';
      video.addEventListener('playing', () => this.#become('playing'), { signal });
      video.addEventListener('error', () => this.#retryVideo(signal), { signal });
      video.src = source;
      this.#video = video;
      this.shadowRoot?.append(video);
      this.#become('ready');
      this.#playOrPause();
    }

    /** A connection that broke, or an address that is refused by now: asks again, a few times, under the poster. */
    async #retryVideo(signal: AbortSignal): Promise<void> {
      this.#dropVideo();
      this.#videoFailures += 1;
      if (this.#videoFailures > maxVideoFailures)
        return this.#fail({ reason: 'the video does not play', status: 0 });
      this.#become('pending');
      await sleep(pauseAfter(this.#videoFailures), signal);
      if (!signal.aborted) await this.#ask();
    }

    #dropVideo(): void {
      const video = this.#video;
      this.#video = undefined;
      if (!video) return;
      video.pause();
      // Frees the connection and the decoder, which an element out of the page would keep.
      video.removeAttribute('src');
      video.load();
      video.remove();
    }

    #fail({ reason, status }: { reason: string; status: number }): void {
      this.#become('failed', { reason, status });
    }

    #become(state: State, detail?: { reason: string; status: number }): void {
      if (this.#state === state) return;
      this.setAttribute('state', state);
      if (state === 'ready' || state === 'playing' || state === 'failed') {
        this.dispatchEvent(new CustomEvent(state, { detail }));
      }
    }
  }

  /** One question. The first byte is enough to know: the video reads the rest itself. */
  const ask = async (source: string, signal: AbortSignal, failures: number): Promise<Verdict> => {
    const url = new URL(source);
    url.searchParams.set('wait_ms', String(waitMs));
    const startedAt = Date.now();
    try {
      const answer = await fetch(url, { signal, credentials: 'omit', headers: { Range: 'bytes=0-0' } });
      const body =
        answer.ok && answer.status !== 202 ? undefined : await answer.json().catch(() => undefined);
      // What a server sends that knows no ranges is not wanted.
      if (!body) await answer.body?.cancel();
      const heldMs = Date.now() - startedAt;
      return judge(answer, body, heldMs, failures);
    } catch {
      return { askInMs: pauseAfter(failures + 1) };
    }
  };

  const judge = (
    { status, ok, headers }: Response,
    body: { error?: string; retry_after_ms?: number } | undefined,
    heldMs: number,
    failures: number,
  ): Verdict => {
    const toldMs = Number(headers.get('retry-after')) * 1_000;
    // It waited for us already: ask on at once.
    if (status === 202) return { askInMs: heldMs >= waitMs - 1_000 ? 0 : toldMs || pauseAfter(1) };
    if (ok) return { ready: true };
    const isPassing =
      status === 503 || status === 500 || status === 504 || body?.retry_after_ms !== undefined;
    if (isPassing) return { askInMs: Math.max(toldMs, pauseAfter(failures + 1)) };
    return { reason: body?.error ?? `status ${status}`, status };
  };

  /** 1, 2, 4 … s, spread at random so that pages do not come back together. */
  const pauseAfter = (failures: number): number =>
    Math.min(longestPauseMs, 1_000 * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);

  const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve();
      });
    });

  const posterOf = (source: string): string => {
    const url = new URL(source);
    url.pathname = url.pathname.replace(/\.mp4$/, '.jpg');
    return url.href;
  };

  const toBase64Url = (text: string): string =>
    btoa(String.fromCharCode(...new TextEncoder().encode(text)))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '');

  if (!customElements.get('animated-asset')) customElements.define('animated-asset', AnimatedAsset);
}
