/** Upstreams that fail before their answer: a refusal in each caller's own format, at no charge, and the whole cause for the host. */

import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  type Answering,
  BROKEN_OFF,
  casesFor,
  expectAllRefused,
  FAILED,
  LIMITED,
  NO_JSON,
  OVERLOADED,
  REFUSED_CONTENT,
  REFUSED_US,
  type RefusedCase,
  UNAVAILABLE,
  UNREACHED,
} from "./hostile.expect.ts";
import { pairs, typeOf } from "./hostile.formats.ts";
import { head, hundredMegabytes, NOBODY, STREAM_HEAD, whole } from "./raw-upstream.ts";

type Headers = Readonly<Record<string, string>>;

/** Writes the bytes and ends. */
const says =
  (bytes: string | Buffer): Answering =>
  () =>
  (socket) =>
    socket.end(bytes);

/** Answers with a body of the expected type. */
const answers =
  (body: string | Buffer, more: Headers = {}): Answering =>
  (_upstream, stream) =>
  (socket) =>
    socket.end(whole(200, typeOf(stream), body, more));

/** An error in the upstream's own format. Its HTTP status may differ from the status in its body. */
const tells =
  (status: number, more: Headers = {}, told = status): Answering =>
  ({ error }) =>
  (socket) =>
    socket.end(whole(status, "application/json", JSON.stringify(error(told, "Account 7 of tier 1")), more));

const page = (status: number, more: Headers = {}): Answering =>
  says(whole(status, "text/html", "<h1>nginx</h1>", more));

/** xAI names the host's key where it refuses a prompt. */
const REFUSED_PROMPT = "Content violates usage guidelines. Team: 7, API key ID: 7";

const CASES: readonly RefusedCase[] = [
  {
    does: "dies before it answers",
    answer: () => (socket) => socket.destroy(),
    ...UNREACHED,
    told: /other side closed/,
  },
  {
    does: "speaks no TLS",
    answer: () => () => {},
    setting: { baseUrl: (url) => url.replace("http:", "https:"), greet: (socket) => socket.end("220 ready\r\n") },
    isOfHost: true,
    ...FAILED,
    told: /SSL/,
  },
  {
    does: "has headers without end",
    answer: says(`HTTP/1.1 200 OK\r\n${`x-a: ${"b".repeat(1_000)}\r\n`.repeat(30)}`),
    ...FAILED,
    told: /[Hh]eaders/,
  },
  {
    does: "redirects elsewhere",
    answer: says(whole(302, "", "", { location: "http://127.0.0.1:1/elsewhere" })),
    ...FAILED,
    isOfHost: true,
    told: /answered 302/,
  },
  {
    does: "answers a page as a success",
    answer: page(200),
    ...FAILED,
    isOfHost: true,
    told: /answered 200, text\/html: "<h1>nginx/,
  },
  { does: "answers a page: 502", answer: page(502), ...UNAVAILABLE, told: /nginx/ },
  {
    does: "answers a page: 503, and when to come back",
    answer: page(503, { "retry-after": "7" }),
    ...UNAVAILABLE,
    retryAfterMs: 7_000,
    told: /nginx/,
  },
  { does: "answers a page: 403", answer: page(403), ...REFUSED_US, told: /nginx/ },
  {
    does: "answers a complete body that is no JSON to a stream",
    answer: says(whole(200, "application/json", "{")),
    only: "streamed",
    from: "chat",
    ...NO_JSON,
    told: /JSON/,
  },
  {
    does: "answers a stream to a complete request",
    answer: says(whole(200, "text/event-stream", "data: {}\n\n")),
    only: "complete",
    ...FAILED,
    isOfHost: true,
    told: /event-stream/,
  },
  {
    does: "has a limit",
    answer: tells(429, { "retry-after": "7" }),
    ...LIMITED,
    retryAfterMs: 7_000,
    told: /Account 7/,
  },
  { does: "is overloaded", answer: tells(529), ...OVERLOADED, told: /Account 7/ },
  { does: "refuses the relay's key", answer: tells(401), ...REFUSED_US, told: /Account 7/ },
  {
    does: "refuses the request",
    answer: tells(400),
    code: "invalid_request",
    outcome: "refused",
    message: "The model backend does not take this request.",
    told: /Account 7/,
  },
  {
    does: "refuses the prompt by its policy, with 403",
    answer: says(whole(403, "application/json", JSON.stringify({ error: REFUSED_PROMPT }))),
    ...REFUSED_CONTENT,
    outcome: "refused",
    told: /API key ID: 7/,
  },
  {
    does: "does not know the model",
    answer: tells(404),
    code: "model_not_found",
    outcome: "refused",
    message: "The model backend does not know this model.",
    field: "model",
    told: /Account 7/,
  },
  { does: "fails", answer: tells(500), ...FAILED, told: /Account 7/ },
  {
    does: "tells its key back",
    answer: () => (socket, request) =>
      socket.end(whole(429, "application/json", JSON.stringify({ error: request.head }))),
    ...LIMITED,
    told: /\[redacted\]/,
  },
  {
    does: "tells of a limit with a 200",
    answer: tells(200, {}, 429),
    only: "complete",
    ...LIMITED,
    told: /Account 7/,
  },
  { does: "answers 204", answer: says(head(204)), only: "complete", ...NO_JSON, told: /JSON/ },
  { does: "answers 204 to a stream", answer: says(head(204)), only: "streamed", ...BROKEN_OFF, told: /broke off/ },
  { does: "sends an empty body", answer: answers(""), only: "complete", ...NO_JSON, told: /JSON/ },
  {
    does: "sends garbage for a body",
    answer: answers(Buffer.of(0, 255, 254, 0, 123, 200)),
    only: "complete",
    ...NO_JSON,
    told: /JSON/,
  },
  { does: "sends garbage for frames", answer: answers("data: {{{\n\n"), only: "streamed", ...NO_JSON, told: /JSON/ },
  { does: "sends an empty stream", answer: answers(""), only: "streamed", ...BROKEN_OFF, told: /broke off/ },
  {
    does: "sends comments alone",
    answer: answers(": hello\n\n: still here\n\n"),
    only: "streamed",
    ...BROKEN_OFF,
    told: /broke off/,
  },
  {
    does: "breaks its body off",
    answer: (_upstream, stream) => (socket) =>
      socket.end(`${head(200, { "content-type": typeOf(stream), "content-length": 99 })}{`),
    ...BROKEN_OFF,
    told: /closed|length/i,
  },
  {
    does: "breaks its gzip off",
    answer: answers(gzipSync("data: {}".repeat(999)).subarray(0, 20), { "content-encoding": "gzip" }),
    ...BROKEN_OFF,
    told: /end of file/,
  },
  {
    does: "sends a body larger than it may be",
    answer: answers(gzipSync(Buffer.alloc(2 * 1024 ** 2, " ")), { "content-encoding": "gzip" }),
    only: "complete",
    setting: { relay: { limits: { maxBodyBytes: 1024 ** 2 } } },
    ...FAILED,
    told: /larger than 1048576 bytes/,
  },
  // The status alone tells the error.
  {
    does: "breaks the body of its error off",
    answer: () => (socket) => socket.end(`${head(429, { "retry-after": 7, "content-length": 99 })}{"error`),
    ...LIMITED,
    retryAfterMs: 7_000,
    told: /answered 429/,
  },
  {
    does: "codes its error as nothing that is known",
    answer: says(whole(529, "application/json", "x", { "content-encoding": "zzz" })),
    ...OVERLOADED,
    told: /answered 529/,
  },
  {
    does: "nests its error beyond reason",
    answer: says(whole(529, "application/json", `${"[".repeat(30_000)}${"]".repeat(30_000)}`)),
    ...OVERLOADED,
    told: /answered 529/,
  },
  {
    does: "has an error with headers that are no Latin-1",
    answer: tells(429, { "retry-after": "7", "x-region": "日本語 🌍" }),
    ...LIMITED,
    retryAfterMs: 7_000,
    told: /Account 7/,
  },
  {
    does: "sends 100 MB in one event",
    answer: () => hundredMegabytes(STREAM_HEAD),
    only: "streamed",
    ...FAILED,
    told: /longer than 16777216 characters/,
  },
];

describe.each(pairs)("to a caller of $name", (pair) => {
  it.each(casesFor(pair, CASES))("an upstream that $does is $code", async (one) => {
    expect.hasAssertions();
    await expectAllRefused(pair, one);
  });

  it("an upstream that refuses connections is backend_unavailable", async () => {
    expect.hasAssertions();
    const setting = { baseUrl: () => `http://${NOBODY}/v1` };
    await expectAllRefused(pair, { ...UNREACHED, told: /ECONNREFUSED/, answer: () => () => {}, setting });
  });
});
