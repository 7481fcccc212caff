/** Frames that come at once are joined: nothing is lost, and an answer beyond its limit is soon cut. */

import fc from "fast-check";
import { expect, it } from "vitest";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import { joined } from "../../../src/upstreams/relay/chat.ts";

const native = (data: string, ...events: Extract<ChatEvent, { type: "native" }>["events"]): ChatEvent => ({
  type: "native",
  format: "messages",
  frames: [{ event: "e", data }],
  events,
  unsupported: () => [data],
});
const text = (data: string): ChatEvent => native(data, { type: "text-delta", text: data });
const finish = native("end", { type: "finish", reason: "stop" });

const pieces = (events: readonly ChatEvent[]): string[] =>
  events.map((event) => (event.type === "native" ? (event.frames ?? []).map(({ data }) => data).join() : event.type));
const of = (events: readonly ChatEvent[], field: "frames" | "events"): unknown[] =>
  events.flatMap((event): readonly unknown[] => (event.type === "native" ? (event[field] ?? []) : []));
const unsupported = (events: readonly ChatEvent[]): readonly string[] =>
  events.flatMap((event) => (event.type === "native" ? (event.unsupported?.() ?? []) : []));

it("are one event", () => {
  expect(pieces(joined([text("a"), text("b"), text("c")]))).toEqual(["a,b,c"]);
});

it("are parted before a finish, which waits with all that follows", () => {
  expect(pieces(joined([text("a"), text("b"), finish, text("c")]))).toEqual(["a,b", "end,c"]);
});

it("are parted once they are long, so that an answer beyond its limit is soon seen to be", () => {
  const long = "x".repeat(3_000);
  expect(pieces(joined([text(long), text(long), text("a"), text("b")]))).toEqual([`${long},${long}`, "a,b"]);
});

it("lose nothing and keep their order", () => {
  const event = fc.oneof({ weight: 9, arbitrary: fc.string({ maxLength: 2_000 }).map(text) }, fc.constant(finish));
  fc.assert(
    fc.property(fc.array(event), (events) => {
      const all = joined(events);
      for (const field of ["frames", "events"] as const) expect(of(all, field)).toEqual(of(events, field));
      expect(unsupported(all)).toEqual(unsupported(events));
    }),
  );
});
