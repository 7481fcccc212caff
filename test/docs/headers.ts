/** Writes the page of the reference with the headers that the gateway reads and sends. */

import { wrapped } from "./wrapped.ts";

/** The names of headers, and their meaning. */
type Headers = readonly (readonly [names: string, about: string])[];

const OF_REQUESTS: Headers = [
  [
    "authorization",
    "The api key as `Bearer sk-…`, in every format. See [the headers with the api key](../mounting.md#which-header-has-the-api-key).",
  ],
  ["x-api-key", "The api key, in messages. It comes before `authorization`."],
  ["x-goog-api-key", "The api key, in generate content. It comes before `?key=` and `authorization`."],
  ["api-key", "The api key of Azure's clients, in OpenAI's formats, without an `authorization`."],
  ["anthropic-version compat-version", "The version of messages, such as `2023-06-01`: one of the two is required."],
  ["anthropic-beta compat-beta", "The betas of a request in messages, with commas between them."],
  [
    "idempotency-key",
    "Repeats a request without a second charge: 1 to 255 visible ASCII characters. See [retries](../retries.md). The admin takes it for [changes](../admin.md#changes).",
  ],
  ["content-type", "`application/json`, or `multipart/form-data` for pictures."],
  ["content-encoding", "Refused with 415: a body must not be compressed."],
  ["upgrade", "`websocket` opens [responses over a WebSocket](../responses.md#websockets)."],
  ["if-none-match", "The `etag` of a picture that the client has: 304 if it is the same."],
  [
    "traceparent tracestate",
    "The caller's trace, which [`openTelemetry()`](../telemetry.md#traces) continues and passes to upstreams.",
  ],
  ["origin", "The page that calls. [`cors`](polygate.md#corsoptions) lists those that may."],
];

const OF_ANSWERS: Headers = [
  [
    "request-id x-request-id",
    "The id of the call, under both names that clients read. [`polygate why`](../usage.md#why-a-call-was-refused) explains it.",
  ],
  ["retry-after", "The seconds until another try may work, with many errors of status 429 and 503."],
  ["retry-after-ms", "The same time in milliseconds."],
  [
    "x-should-retry",
    "`false` where no retry helps, such as for an empty quota: the SDKs of OpenAI and Anthropic do not repeat the request. See [which codes](errors-by-format.md).",
  ],
  [
    "x-ratelimit-limit-requests x-ratelimit-remaining-requests x-ratelimit-reset-requests",
    "A key's [rate limit](../keys-and-limits.md#rate-limits) of requests, in OpenAI's formats. The reset is a duration, such as `6m0s`.",
  ],
  ["x-ratelimit-limit-tokens x-ratelimit-remaining-tokens x-ratelimit-reset-tokens", "The same for tokens."],
  [
    "anthropic-ratelimit-requests-limit anthropic-ratelimit-requests-remaining anthropic-ratelimit-requests-reset",
    "A key's rate limit of requests, in messages. The reset is a time.",
  ],
  [
    "anthropic-ratelimit-tokens-limit anthropic-ratelimit-tokens-remaining anthropic-ratelimit-tokens-reset",
    "The same for tokens.",
  ],
  [
    "anthropic-ratelimit-unified-status anthropic-ratelimit-unified-reset anthropic-ratelimit-unified-representative-claim",
    "The [limit of a subscription](../errors.md#limits-of-a-subscription), with a 429 of an upstream, in messages.",
  ],
  [
    "x-codex-primary-… x-codex-secondary-…",
    "The same in responses, of a window that is used up: `used-percent`, `window-minutes`, `reset-at` and `reset-after-seconds`.",
  ],
  [
    "polygate-dropped",
    "The fields of the request that the model's format cannot express. See [across formats](../conversions.md).",
  ],
  ["polygate-approximated", "The fields of the request that are passed on in a similar form."],
  [
    "polygate-output-limit",
    "The output tokens that the remaining quota pays for, where these are fewer than the request allows. See [what is held](../quota.md#what-is-held-and-what-can-exceed-it).",
  ],
  ["polygate-replayed", "The id of the call whose answer a [repeated request](../retries.md) gets again."],
  ["allow", "The methods of the path, with 405."],
  ["etag", "The version of a picture; in the admin, of a key or a budget."],
  ["cache-control", "`no-cache, no-transform` for a stream."],
  [
    "access-control-allow-origin access-control-allow-methods access-control-allow-headers access-control-allow-credentials access-control-expose-headers access-control-max-age vary",
    "For the pages of [`cors`](polygate.md#corsoptions) alone.",
  ],
  ["x-accel-buffering", "`no` for a stream, so that [nginx](../production.md#proxies) does not buffer it."],
];

const OF_THE_ADMIN: Headers = [
  ["confirm", "`true` makes a change that is often a mistake. See [changes](../admin.md#changes)."],
  ["if-match", "The `etag` that the change is for: 412 if another change came first."],
  ["idempotency-replayed", "`true` in the answer to a repeated change."],
  ["polygate-note", "What a reader of a CSV must know of its amounts, such as [other currencies](../usage.md)."],
];

const list = (headers: Headers): string =>
  headers
    .map(([names, about]) =>
      wrapped(
        `- ${names
          .split(" ")
          .map((name) => `\`${name}\``)
          .join(", ")}: ${about}`,
        "  ",
      ),
    )
    .join("\n");

export const headersPage = (): string => `# Headers

The headers of HTTP that polygate reads and sends, in small letters. A hook or a host may add others.

## Of requests

${list(OF_REQUESTS)}

## Of answers

${list(OF_ANSWERS)}

## Of the admin

Beside those above, in [the admin over HTTP](../admin.md):

${list(OF_THE_ADMIN)}
`;
