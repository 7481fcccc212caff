/** Upstreams that fail before anything is answered: a refusal in each caller's own format, at no charge, and the whole story for the host. */

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { RelayOptions } from "../../../src/backends/relay/index.ts";
import { pairs, type Speaker, typeOf } from "./hostile.formats.ts";
import {
  BROKEN_OFF,
  expectRefused,
  FAILED,
  type Failing,
  LATE,
  LIMITED,
  met,
  NO_JSON,
  OVERLOADED,
  REFUSED_US,
  type Setting,
  UNAVAILABLE,
  UNREACHED,
} from "./hostile.stage.ts";
import { endless, head, hundredMegabytes, type RawAnswer, STREAM_HEAD, whole } from "./raw-upstream.ts";

type Answering = (upstream: Speaker, stream: boolean) => RawAnswer;
type Headers = Readonly<Record<string, string>>;

interface Case extends Failing {
  /** What an upstream does. */
  readonly does: string;
  readonly answer: Answering;
  /** The forms in which it can. Default: all of them. */
  readonly only?: "streamed" | "complete";
  /** Chat alone: a stream of pictures may be answered complete. */
  readonly from?: "chat";
  readonly setting?: Setting;
}

/** Writes so and ends. */
const says =
  (bytes: string | Buffer): Answering =>
  () =>
  (socket) =>
    socket.end(bytes);

/** Answers a body under the type that is expected. */
const answers =
  (body: string | Buffer, more: Headers = {}): Answering =>
  (_upstream, stream) =>
  (socket) =>
    socket.end(whole(200, typeOf(stream), body, more));

const NOTHING: Answering = () => () => {};

/** For one that says no more, so that a phase takes too long. */
const SILENT: Setting = { isSilent: true };
const within = (timeouts: NonNullable<RelayOptions["timeouts"]>): Setting => ({ ...SILENT, relay: { timeouts } });

const TLS: Setting = { baseUrl: (url) => url.replace("http:", "https:") };

/** The error of the upstream's own format; it may have another status than it tells. */
const tells =
  (status: number, more: Headers = {}, told = status): Answering =>
  ({ error }) =>
  (socket) =>
    socket.end(whole(status, "application/json", JSON.stringify(error(told, "Account 7 of tier 1")), more));

/** Begins a stream, and says the same for ever. */
const forEver =
  (more: (upstream: Speaker) => string): Answering =>
  (upstream) =>
    endless(STREAM_HEAD, more(upstream));

const page = (status: number, more: Headers = {}): Answering =>
  says(whole(status, "text/html", "<h1>nginx</h1>", more));

const CASES: readonly Case[] = [
  {
    does: "dies before it answers",
    answer: () => (socket) => socket.destroy(),
    ...UNREACHED,
    told: /other side closed/,
  },
  {
    does: "is reset before it answers",
    answer: () => (socket) => socket.resetAndDestroy(),
    ...UNREACHED,
    told: /ECONNRESET|closed/,
  },
  {
    does: "dies in the middle of its headers",
    answer: says("HTTP/1.1 200 OK\r\ncontent-ty"),
    ...UNREACHED,
    told: /closed|HTTP/,
  },
  {
    does: "speaks no TLS",
    answer: NOTHING,
    setting: { ...TLS, greet: (socket) => socket.end("220 ready\r\n") },
    ...UNREACHED,
    told: /SSL/,
  },
  { does: "speaks no HTTP", answer: says("220 ready\r\n"), ...FAILED, told: /HTTP/ },
  {
    does: "has headers without end",
    answer: says(`HTTP/1.1 200 OK\r\n${`x-a: ${"b".repeat(1_000)}\r\n`.repeat(30)}`),
    ...FAILED,
    told: /[Hh]eaders/,
  },
  {
    does: "switches to another protocol",
    answer: says("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    ...UNREACHED,
    told: /bad upgrade/,
  },
  {
    does: "redirects elsewhere",
    answer: says(whole(302, "", "", { location: "http://127.0.0.1:1/elsewhere" })),
    ...FAILED,
    told: /answered 302/,
  },
  {
    does: "redirects for good",
    answer: says(whole(308, "", "", { location: "/v1/other" })),
    ...FAILED,
    told: /answered 308/,
  },
  { does: "answers a page as a success", answer: page(200), ...FAILED, told: /answered 200, text\/html: "<h1>nginx/ },
  { does: "answers a page: 404", answer: page(404), ...FAILED, told: /answered 404, text\/html: "<h1>nginx/ },
  { does: "answers a page: 500", answer: page(500), ...FAILED, told: /nginx/ },
  { does: "answers a page: 502", answer: page(502), ...UNAVAILABLE, told: /nginx/ },
  {
    does: "answers a page: 503, and when to come back",
    answer: page(503, { "retry-after": "7" }),
    ...UNAVAILABLE,
    retryAfterMs: 7_000,
    told: /nginx/,
  },
  { does: "answers a page: 504", answer: page(504), ...LATE, told: /nginx/ },
  { does: "answers a page: 403", answer: page(403), ...REFUSED_US, told: /nginx/ },
  {
    does: "answers plain text",
    answer: says(whole(200, "text/plain", "Hello")),
    ...FAILED,
    told: /text\/plain: "Hello"/,
  },
  {
    does: "answers a complete body to a stream",
    answer: says(whole(200, "application/json", "{}")),
    only: "streamed",
    from: "chat",
    ...FAILED,
    told: /application\/json/,
  },
  {
    does: "answers a stream to a complete request",
    answer: says(whole(200, "text/event-stream", "data: {}\n\n")),
    only: "complete",
    ...FAILED,
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
    message: "The model backend does not take this request.",
    told: /Account 7/,
  },
  {
    does: "does not know the model",
    answer: tells(404),
    code: "model_not_found",
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
  {
    does: "says nothing until the call's deadline",
    answer: NOTHING,
    setting: { ...SILENT, gateway: { limits: { deadlineMs: 5_000 } } },
    code: "deadline_exceeded",
    message: "The request took longer than the gateway allows.",
    outcome: "deadline",
  },
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
    does: "breaks its chunks",
    answer: (_upstream, stream) => (socket) =>
      socket.end(`${head(200, { "content-type": typeOf(stream), "transfer-encoding": "chunked" })}zz\r\n`),
    ...BROKEN_OFF,
    told: /chunk/i,
  },
  {
    does: "is coded as nothing that is known",
    answer: answers("x", { "content-encoding": "zzz" }),
    ...FAILED,
    told: /zzz/,
  },
  {
    does: "sends gzip that is none",
    answer: answers("This is no gzip.", { "content-encoding": "gzip" }),
    ...BROKEN_OFF,
    told: /header/,
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
  // An error's status has come, whatever becomes of its body.
  {
    does: "breaks the body of its error off",
    answer: () => (socket) => socket.end(`${head(429, { "retry-after": 7, "content-length": 99 })}{"error`),
    ...LIMITED,
    retryAfterMs: 7_000,
    told: /answered 429/,
  },
  {
    does: "does not end the body of its error",
    answer: () => (socket) => socket.write(`${head(429, { "retry-after": 7, "content-length": 99 })}{"error`),
    setting: SILENT,
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
    does: "sends an error in gzip that is none",
    answer: says(whole(529, "application/json", "x", { "content-encoding": "gzip" })),
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
    does: "does not end a page",
    answer: () => (socket) =>
      socket.write(`${head(200, { "content-type": "text/html", "content-length": 999 })}<h1>nginx`),
    setting: SILENT,
    ...FAILED,
    told: /nginx/,
  },
  {
    does: "sends no headers",
    answer: NOTHING,
    only: "streamed",
    setting: within({ headersMs: 5_000 }),
    ...LATE,
    told: /headers did not come within 5000 ms/,
  },
  {
    does: "sends no headers for a complete answer",
    answer: NOTHING,
    only: "complete",
    setting: within({ completeMs: 5_000 }),
    ...LATE,
    told: /complete answer did not come within 5000 ms/,
  },
  {
    does: "does not end its headers",
    answer: () => (socket) => socket.write("HTTP/1.1 200 OK\r\ncontent-"),
    only: "streamed",
    setting: within({ headersMs: 5_000 }),
    ...LATE,
    told: /headers did not come within 5000 ms/,
  },
  {
    does: "says no more than that it is there",
    answer: forEver(({ alive }) => alive),
    only: "streamed",
    setting: within({ firstEventMs: 5_000 }),
    ...LATE,
    told: /first event did not come within 5000 ms/,
  },
  {
    does: "comments without end",
    answer: forEver(() => ": still here\n\n"),
    only: "streamed",
    setting: within({ firstEventMs: 5_000 }),
    ...LATE,
    told: /first event did not come within 5000 ms/,
  },
  {
    does: "sends 100 MB in one event",
    answer: () => hundredMegabytes(STREAM_HEAD),
    only: "streamed",
    ...FAILED,
    told: /longer than 16777216 characters/,
  },
  {
    does: "sends no event",
    answer: () => (socket) => socket.write(STREAM_HEAD),
    only: "streamed",
    setting: within({ firstEventMs: 5_000 }),
    ...LATE,
    told: /first event did not come within 5000 ms/,
  },
  {
    does: "does not end its body",
    answer: () => (socket) =>
      socket.write(`${head(200, { "content-type": "application/json", "content-length": 99 })}{`),
    only: "complete",
    setting: within({ betweenEventsMs: 5_000 }),
    ...LATE,
    told: /next event did not come within 5000 ms/,
  },
];

describe.each(pairs)("to a caller of $name", (pair) => {
  const cases = CASES.filter(({ from }) => from === undefined || pair.caller.name !== "images");

  it.each(cases)("an upstream that $does is $code", async ({ answer, only, setting, ...failing }) => {
    expect.hasAssertions();
    for (const form of pair.caller.forms)
      if (only === undefined || (only === "streamed") === form.stream)
        await expectRefused(pair, form, await met(pair, form, answer(pair.upstream, form.stream), setting), failing);
  });

  it.each<[string, Answering]>([
    ["its headers", NOTHING],
    [
      "its first event or byte",
      (_upstream, stream) => (socket) => socket.write(head(200, { "content-type": typeOf(stream) })),
    ],
  ])("a caller who hangs up before %s takes the upstream along, at no charge", async (_what, answer) => {
    for (const form of pair.caller.forms) {
      const setting = { leavesAfter: "asking" } as const;
      const { record, charge, failures } = await met(pair, form, answer(pair.upstream, form.stream), setting);
      expect(record).toMatchObject({ outcome: "client-closed", status: 499, errorCode: "client_closed", units: 0 });
      expect([charge, failures]).toEqual([{ used: 0, estimated: 0 }, []]);
    }
  });

  it("an upstream that refuses connections is backend_unavailable", async () => {
    expect.hasAssertions();
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const setting = { baseUrl: () => `http://127.0.0.1:${port}/v1` };
    for (const form of pair.caller.forms)
      await expectRefused(pair, form, await met(pair, form, () => {}, setting), { ...UNREACHED, told: /ECONNREFUSED/ });
  });
});

it("an upstream that never finishes its TLS handshake is backend_unavailable", async () => {
  expect.hasAssertions();
  const [pair] = pairs;
  const setting = { ...TLS, ...within({ connectMs: 20 }), greet: () => {} };
  const told = /connection did not come within 20 ms|Connect Timeout/;
  for (const form of pair.caller.forms)
    await expectRefused(pair, form, await met(pair, form, () => {}, setting), { ...UNREACHED, told });
});
