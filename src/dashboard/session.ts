/** Who is signed in, in this tab and told to the others. */
import { createStore } from '@xstate/store';
import type { SessionUser, UserProfile } from '../../schemas/user.ts';
import { get, post, whenSignedOut } from './api.ts';

type SessionState = {
  /** undefined until it is known; null when nobody is. */
  user: SessionUser | null | undefined;
  /** Plan, verification and the like; read after the user. */
  profile: UserProfile | undefined;
  /** The session has ended while something was being done: a dialog asks to sign in again. */
  isAsking: boolean;
};

export const session = createStore({
  context: { user: undefined, profile: undefined, isAsking: false } as SessionState,
  on: {
    found: (context, { user }: { user: SessionUser | null }) => ({
      user,
      profile: context.profile?.id === user?.id ? context.profile : undefined,
      isAsking: false,
    }),
    profiled: (context, { profile }: { profile: UserProfile }) => ({ ...context, profile }),
    asked: (context) => ({ ...context, isAsking: true }),
    answered: (context) => ({ ...context, isAsking: false }),
  },
});

/** @throws {ApiError} */
export async function loadSession(): Promise<void> {
  const { user } = await get<{ user: SessionUser | null }>('/api/user/session');
  session.trigger.found({ user });
}

/** @throws {ApiError} */
export async function loadProfile(): Promise<void> {
  session.trigger.profiled({ profile: await get<UserProfile>('/api/user/me') });
}

/** @throws {ApiError} */
export async function signIn(email: string, password: string): Promise<void> {
  const path = '/api/user/signin';
  const { user } = await post<{ user: SessionUser }>(path, { email, password }, { isSignIn: true });
  enter(user);
}

/** @throws {ApiError} */
export async function signUp(body: { email: string; password: string; name: string }): Promise<void> {
  const { user } = await post<{ user: SessionUser }>('/api/user/signup', body, { isSignIn: true });
  enter(user);
}

/** @throws {ApiError} */
export async function signOut(): Promise<void> {
  await post('/api/user/signout', undefined, { isSignIn: true }).catch((cause) => {
    // Over already.
    if (cause?.status !== 401) throw cause;
  });
  leave();
  tabs?.postMessage({ left: true });
}

/** The session is over and nothing of it may stay in this tab. */
export function leave(): void {
  answerAsked(false);
  session.trigger.found({ user: null });
}

/** Ends the question that the dialog puts. */
export function answerAsked(isSignedIn: boolean): void {
  for (const answer of asked.splice(0)) answer(isSignedIn);
  session.trigger.answered();
}

function enter(user: SessionUser): void {
  const { user: before } = session.getSnapshot().context;
  tabs?.postMessage({ entered: user });
  takeOver(before, user);
}

/** Another user's page must not go on with what this one's had read. */
function takeOver(before: SessionUser | null | undefined, user: SessionUser): void {
  if (before && before.id !== user.id) {
    location.assign('/dashboard');
    return;
  }
  session.trigger.found({ user });
  answerAsked(true);
}

const asked: ((isSignedIn: boolean) => void)[] = [];

whenSignedOut(() => {
  if (!session.getSnapshot().context.user) return Promise.resolve(false);
  session.trigger.asked();
  return new Promise((resolve) => asked.push(resolve));
});

type Told = { left?: true; entered?: SessionUser };

const tabs = 'BroadcastChannel' in globalThis ? new BroadcastChannel('session') : undefined;
tabs?.addEventListener('message', ({ data }: MessageEvent<Told>) => {
  const { user } = session.getSnapshot().context;
  if (data.left && user) session.trigger.asked();
  if (data.entered) takeOver(user, data.entered);
});
