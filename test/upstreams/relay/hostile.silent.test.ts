/** Upstreams that keep their callers waiting: each phase before the answer has its timeout and its error. */

import { describe, expect, it } from "vitest";
import type { RelayOptions } from "../../../src/upstreams/relay/index.ts";
import {
  type Answering,
  casesFor,
  expectAllRefused,
  FAILED,
  LATE,
  LIMITED,
  type RefusedCase,
  UNREACHED,
} from "./hostile.expect.ts";
import { pairs, type Speaker, typeOf } from "./hostile.formats.ts";
import { met, type Setting } from "./hostile.stage.ts";
import { endless, head, STREAM_HEAD } from "./raw-upstream.ts";

const NOTHING: Answering = () => () => {};

/** For an upstream that falls silent, so that a phase takes too long. */
const SILENT: Setting = { isSilent: true };
const within = (timeouts: NonNullable<RelayOptions["timeouts"]>): Setting => ({ ...SILENT, relay: { timeouts } });

/** Begins a stream, and sends the same bytes for ever. */
const forEver =
  (more: (upstream: Speaker) => string): Answering =>
  (upstream) =>
    endless(STREAM_HEAD, more(upstream));

const CASES: readonly RefusedCase[] = [
  {
    does: "says nothing until the call's deadline",
    answer: NOTHING,
    setting: { ...SILENT, gateway: { limits: { deadlineMs: 5_000 } } },
    code: "deadline_exceeded",
    message: "The request took longer than the gateway allows.",
    outcome: "deadline",
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
    does: "does not end a page",
    answer: () => (socket) =>
      socket.write(`${head(200, { "content-type": "text/html", "content-length": 999 })}<h1>nginx`),
    setting: SILENT,
    ...FAILED,
    isOfHost: true,
    told: /nginx/,
  },
  {
    does: "sends no headers",
    answer: NOTHING,
    only: "streamed",
    setting: within({ headersMs: 5_000 }),
    ...LATE,
    told: /headers did not come within 5000 ms\. A higher timeouts\.headersMs gives it more time/,
  },
  {
    does: "sends no headers for a complete answer",
    answer: NOTHING,
    only: "complete",
    setting: within({ completeMs: 5_000 }),
    ...LATE,
    told: /complete answer did not come within 5000 ms\. A higher timeouts\.completeMs gives/,
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
    told: /first event did not come within 5000 ms\. A higher timeouts\.firstEventMs gives/,
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
    told: /next event did not come within 5000 ms\. A higher timeouts\.betweenEventsMs gives/,
  },
];

describe.each(pairs)("to a caller of $name", (pair) => {
  it.each(casesFor(pair, CASES))("an upstream that $does is $code", async (one) => {
    expect.hasAssertions();
    await expectAllRefused(pair, one);
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
});

it("an upstream that never finishes its TLS handshake is backend_unavailable", async () => {
  expect.hasAssertions();
  await expectAllRefused(pairs[0], {
    ...UNREACHED,
    told: /connection did not come within 20 ms|Connect Timeout/,
    answer: NOTHING,
    setting: { ...within({ connectMs: 20 }), baseUrl: (url) => url.replace("http:", "https:"), greet: () => {} },
  });
});
