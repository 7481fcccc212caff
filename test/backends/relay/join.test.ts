/** Pieces of an answer that come at once go on as one: nothing of them is lost, and no limit is passed by far. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { joined } from "../../../src/backends/relay/join.ts";
import type { ChatEvent } from "../../../src/model/event.ts";

const native = (data: string, ...means: Extract<ChatEvent, { type: "native" }>["means"]): ChatEvent => ({
  type: "native",
  dialect: "messages",
  frames: [{ event: "e", data }],
  means,
  unsaid: () => [data],
});
const text = (data: string): ChatEvent => native(data, { type: "text-delta", text: data });
const finish = native("end", { type: "finish", reason: "stop" });

const pieces = (events: readonly ChatEvent[]): string[] =>
  events.map((event) => (event.type === "native" ? (event.frames ?? []).map(({ data }) => data).join() : event.type));
const of = (events: readonly ChatEvent[], field: "frames" | "means"): unknown[] =>
  events.flatMap((event): readonly unknown[] => (event.type === "native" ? (event[field] ?? []) : []));
const unsaid = (events: readonly ChatEvent[]): readonly string[] =>
  events.flatMap((event) => (event.type === "native" ? (event.unsaid?.() ?? []) : []));

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
      for (const field of ["frames", "means"] as const) expect(of(all, field)).toEqual(of(events, field));
      expect(unsaid(all)).toEqual(unsaid(events));
    }),
  );
});
