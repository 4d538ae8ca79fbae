/** What each error code means, why it comes, and what to do. A code without its text does not compile. */
import type { ApiErrorCode, ErrorCode } from '../../schemas/errors.ts';

export type ErrorText = {
  means: string;
  why: readonly string[];
  what: string;
  /** Whether sending the same request again may help. */
  again: string;
};

const notAgain = 'No: the answer stays the same until something has changed.';
const afterWait = 'Yes, after `Retry-After` seconds (or `retry_after_ms`).';

export const apiErrorTexts: Record<ApiErrorCode, ErrorText> = {
  invalid_request: {
    means: 'The request cannot be understood, or does not fit its schema.',
    why: [
      'A field is missing, has the wrong type, or lies outside of its limits: `issues` names each.',
      'The body is no JSON, or holds half a surrogate pair.',
      'The head is ambiguous: two `Host` headers, or two lengths.',
    ],
    what: 'Compare the request with the endpoint’s table of fields, and mend what `issues` names.',
    again: notAgain,
  },
  malformed_proxy_url: {
    means: 'The address of a proxy request is none that the proxy knows.',
    why: [
      'The source is not base64url without padding, is no http(s) URL, or is longer than 1,500 bytes.',
      'The extension is neither `.mp4` nor `.jpg`.',
      'An option has a value that it cannot have, or stands in the query of a signed request.',
    ],
    what: 'Encode the source with base64url (not base64), without `=`. In signed mode move options into the fragment of the source.',
    again: notAgain,
  },
  source_refused: {
    means: 'The address of the source is one that is never fetched.',
    why: ['It names a private or reserved network, an unusual port, or carries credentials.'],
    what: 'Use a public http or https address, or upload the image and use the upload’s `url`.',
    again: notAgain,
  },
  signing_not_enabled: {
    means: 'There is no signing secret to rotate.',
    why: ['Signing was never enabled for the project, or was switched off.'],
    what: 'Save the proxy configuration with `enable_signing: true`; the answer holds the secret.',
    again: notAgain,
  },
  no_webhook_url: {
    means: 'There is no endpoint to send to.',
    why: ['The project has no `webhook_url`: it was never saved, or was set to null.'],
    what: 'Save a `webhook_url`, then send the test or the delivery again.',
    again: notAgain,
  },
  overage_needs_paid_plan: {
    means: 'Overage cannot be enabled on the free plan.',
    why: ['`overage_enabled: true` was sent for a project whose owner is on the free plan.'],
    what: 'Change the plan at `upgrade_url`, then enable overage.',
    again: notAgain,
  },
  authentication_required: {
    means: 'The request names no one who is signed in.',
    why: ['The session cookie is missing, has ended, or belongs to a session that was ended elsewhere.'],
    what: 'Sign in, and send the cookie `service.session_token` with each request.',
    again: 'Yes, once signed in.',
  },
  invalid_credentials: {
    means: 'E-mail and password do not belong together.',
    why: ['The password is wrong, the e-mail has no account, or the account has no password.'],
    what: 'Check both. After ten failures in a quarter of an hour further attempts are refused for a while.',
    again: notAgain,
  },
  wrong_password: {
    means: 'The present password that came along, `current`, is not the account’s.',
    why: ['A typing error.', 'The password was changed meanwhile.'],
    what: 'Ask for it again. After ten wrong ones in 15 minutes the answer is `rate_limited`.',
    again: notAgain,
  },
  not_with_api_token: {
    means: 'An API token may not do this: it takes the session of a browser.',
    why: ['Tokens cannot make tokens, change the password or e-mail, end sessions or delete the account.'],
    what: 'Sign in, and send the session cookie.',
    again: notAgain,
  },
  forbidden: {
    means: 'The request is understood and refused.',
    why: ['The text in `error` says why.'],
    what: 'Read `error`; it names what stands in the way.',
    again: notAgain,
  },
  cross_site_request_refused: {
    means: 'A page of another site tried to use a session.',
    why: [
      'The request carries the session cookie, and an `Origin` that is not ours, or `Sec-Fetch-Site: cross-site`.',
    ],
    what: 'Call the API from your server. In pages use the proxy and the event stream by project key.',
    again: notAgain,
  },
  unknown_project_key: {
    means: 'No project has this key.',
    why: ['The key was rotated, its project deleted, or it was copied incompletely.'],
    what: 'Read the project, and use its `proxy_key`.',
    again: notAgain,
  },
  origin_not_allowed: {
    means: 'The page that asks is not one of the project’s.',
    why: [
      'Its origin is not in `allowed_origins`; an empty list allows none.',
      'The request names no origin at all: a plain `<video>` on a page with `Referrer-Policy: no-referrer`.',
    ],
    what: 'Add the origin to `allowed_origins`, or `crossorigin="anonymous"` to the element. For programs, sign the URL.',
    again: notAgain,
  },
  invalid_signature: {
    means: 'The signature of the URL does not hold.',
    why: [
      'It was made over something else than `<project_key>:<source_url>:<exp>`.',
      '`exp` has passed, or is missing.',
      'base64 was used instead of base64url.',
      'The signing secret was rotated, or signing is switched off.',
    ],
    what: 'Sign again with the present secret, and give `exp` at least a minute.',
    again: notAgain,
  },
  source_host_not_allowed: {
    means: 'The project takes no sources from this host.',
    why: ['`source_hosts` is set, and the source’s host is not in it.'],
    what: 'Add the host to `source_hosts`, or set it to null to allow any.',
    again: notAgain,
  },
  not_in_plan: {
    means: 'The plan does not have what was asked for.',
    why: ['`model` or `aspect` names something of a higher plan.'],
    what: 'Leave the option out, or change the plan at `upgrade_url`. Assets that exist keep working.',
    again: notAgain,
  },
  too_many_projects: {
    means: 'The account holds as many projects as it may.',
    why: ['A user has at most 1,000 projects.'],
    what: 'Delete projects that are no longer needed.',
    again: notAgain,
  },
  not_found: {
    means: 'There is nothing there, or nothing of yours.',
    why: [
      'The id is wrong, or what it named was deleted.',
      'It belongs to someone else: that answers the same, so that ids cannot be probed.',
      'The path is none of the service.',
    ],
    what: 'Check the id and the path, and that the session is the owner’s.',
    again: notAgain,
  },
  poster_not_available: {
    means: 'The source gives no poster.',
    why: ['The asset is not ready, and its source cannot be fetched or decoded.'],
    what: 'Check that the source can be reached from outside and is a png, jpeg or webp image.',
    again: 'Yes, after some minutes: failures are remembered for a while.',
  },
  method_not_allowed: {
    means: 'The path exists, but not with this method.',
    why: ['A `POST` where a `PUT` belongs, or the like.'],
    what: 'Use one of the methods in the `Allow` header.',
    again: notAgain,
  },
  request_timeout: {
    means: 'The body took too long to arrive.',
    why: ['The connection is slow or stalled, or `Content-Length` announces more than was sent.'],
    what: 'Send the whole body without pauses.',
    again: 'Yes, on a new connection.',
  },
  conflict: {
    means: 'The request contradicts what is there.',
    why: ['The text in `error` names what is in the way.'],
    what: 'Read the present state, and decide anew.',
    again: notAgain,
  },
  email_taken: {
    means: 'The e-mail has an account already.',
    why: ['Someone, perhaps you, has signed up with it. Case and blanks do not matter.'],
    what: 'Sign in instead.',
    again: notAgain,
  },
  asset_not_pending: {
    means: 'There is no run to cancel.',
    why: ['The run has ended already, or was cancelled.'],
    what: 'Read the asset: its `status` says how it ended.',
    again: notAgain,
  },
  head_too_large: {
    means: 'The head of the request is larger than 32 KB.',
    why: ['Cookies of other services on the same domain, or a very long address.'],
    what: 'Send fewer and shorter headers.',
    again: notAgain,
  },
  body_too_large: {
    means: 'The body is larger than 1 MB.',
    why: ['JSON bodies have at most 1 MB.'],
    what: 'Send images by upload, and their address in JSON.',
    again: notAgain,
  },
  image_too_large: {
    means: 'The image is larger than 10 MB.',
    why: ['Uploads have at most 10 MB, counted while they arrive.'],
    what: 'Scale the image down: about 2,000 pixels on the longer side are plenty.',
    again: notAgain,
  },
  too_many_uploads: {
    means: 'Too many uploads wait to be used.',
    why: ['Uploads that no asset uses take at most 500 MB of a user together.'],
    what: 'Prepare assets from them, or wait: unused uploads are deleted after 7 days.',
    again: 'Later, when room has been made.',
  },
  unsupported_type: {
    means: 'The body has a type that is not taken here.',
    why: [
      'A JSON endpoint got a body without `Content-Type: application/json`.',
      'An upload is none of png, jpeg and webp: its first bytes decide, not its name.',
    ],
    what: 'Set the header, or convert the image.',
    again: notAgain,
  },
  range_not_satisfiable: {
    means: 'The range of bytes begins behind the end of the file.',
    why: ['`Range` was computed for another file.'],
    what: 'Take the length from `Content-Range`, and use `If-Range` with the ETag.',
    again: notAgain,
  },
  unprocessable: {
    means: 'The request is well formed, but contradicts one before it.',
    why: ['An idempotency key was used again with another body.'],
    what: 'Use a new key for a new request.',
    again: notAgain,
  },
  rate_limited: {
    means: 'Too many requests in the last minute.',
    why: ['Requests are counted per user and minute; sign-in and sign-up per address.'],
    what: 'Wait, and spread requests out. Events and webhooks replace asking again and again.',
    again: afterWait,
  },
  monthly_limit_reached: {
    means: 'The month’s generations, or crawls, are used up.',
    why: ['Every accepted run counts one. What exists stays available.'],
    what: 'Wait for the next cycle (`aiGenerationsResetAt` of the profile), or change the plan at `upgrade_url`.',
    again: 'In the next cycle.',
  },
  overage_disabled: {
    means: 'The month’s generations are used up, and the project takes no more for money.',
    why: ['`overage_enabled` is false, which is the default.'],
    what: 'Enable overage in the proxy configuration; `overage_cap_cents` bounds it. Or wait for the next cycle.',
    again: 'In the next cycle, or with overage enabled.',
  },
  internal_error: {
    means: 'Something went wrong on our side.',
    why: ['A fault of ours. The log has it under the answer’s `X-Request-Id`.'],
    what: 'Try again; when it stays, tell us the `X-Request-Id`.',
    again: 'Yes, after a moment.',
  },
  generation_failed: {
    means: 'The last generation of the asset ended without an animation.',
    why: ['`hint` names the `error_code` of the run: each has a page here.'],
    what: 'Mend what the `error_code` says, then regenerate: the address stays the same.',
    again: 'No: nothing is begun anew by asking. `POST /api/assets/{id}/regenerate` does.',
  },
  unavailable: {
    means: 'A part of the service cannot be reached just now.',
    why: ['The store, the bus or the storage is away for a moment. Nothing was counted.'],
    what: 'Wait, and send the same request again.',
    again: afterWait,
  },
  busy: {
    means: 'There is more to do than can be done soon.',
    why: [
      'A new run would wait for more than five minutes, or too many passwords are being checked. Nothing was counted.',
    ],
    what: 'Wait, and send the same request again.',
    again: afterWait,
  },
};

const noRetry = 'No: the run fails at once. A regenerate begins another.';
const threeAttempts = 'Yes, by the service: up to 3 attempts of the stage, 1 s and 4 s after a failure.';

export const runErrorTexts: Record<ErrorCode, ErrorText> = {
  vision_blocked: {
    means: 'The analysis has rejected the source.',
    why: ['It shows what must not be animated, or has more than 40 megapixels.'],
    what: 'Use another image, or scale it down.',
    again: noRetry,
  },
  vision_timeout: {
    means: 'The analysis took longer than 30 seconds.',
    why: ['The model behind it is slow or away.'],
    what: 'Regenerate after a while.',
    again: threeAttempts,
  },
  source_unfetchable: {
    means: 'The source could not be fetched.',
    why: [
      'Its server answered 4xx or 5xx, or not at all.',
      'Its name leads to an address that is never fetched, or it redirects too often.',
    ],
    what: 'Open the address in a private window: it must answer without a login. Or upload the image.',
    again: `5xx and broken connections: ${threeAttempts.charAt(0).toLowerCase()}${threeAttempts.slice(1)} 4xx: no.`,
  },
  source_too_large: {
    means: 'The source is larger than 10 MB.',
    why: ['The limit applies while the source is being fetched, whatever its server announces.'],
    what: 'Scale the image down.',
    again: noRetry,
  },
  source_unsupported: {
    means: 'The source is not a readable png, jpeg or webp image.',
    why: ['It is another type (svg, gif, mp4, a web page), or it is damaged. Its first bytes decide.'],
    what: 'Convert the image to png, jpeg or webp.',
    again: noRetry,
  },
  i2v_failed: {
    means: 'The model could not make the animation.',
    why: ['The image-to-video model has failed or refused.'],
    what: 'Regenerate, perhaps with another motion or seed.',
    again: threeAttempts,
  },
  i2v_timeout: {
    means: 'The animation took longer than 5 minutes.',
    why: ['The image-to-video model is slow or overloaded.'],
    what: 'Regenerate after a while.',
    again: 'Only when another full attempt fits into the 10 minutes of a run.',
  },
  merge_failed: {
    means: 'The loop could not be closed.',
    why: ['The two halves of the animation could not be joined.'],
    what: 'Regenerate; another seed often helps.',
    again: threeAttempts,
  },
  store_write_failed: {
    means: 'The finished files could not be stored.',
    why: ['Storage was away.'],
    what: 'Regenerate after a while.',
    again: threeAttempts,
  },
  quota_exceeded: {
    means: 'The plan no longer allows the run.',
    why: ['The plan was changed after the run was accepted and before its first paid step.'],
    what: 'Regenerate with what the plan has, or change the plan.',
    again: noRetry,
  },
  pipeline_stalled: {
    means: 'The run made no progress for 10 minutes.',
    why: ['A part of the service was away for longer than a run may wait.'],
    what: 'Regenerate.',
    again: noRetry,
  },
};
