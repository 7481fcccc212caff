/** What is booked for a JSON body is what it takes once it is parsed, whatever it is made of. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { decodeMessages } from "../../src/formats/messages/request.messages.ts";
import { messagesRequest } from "../../src/formats/messages/schema.ts";
import { KnownBodies } from "../../src/http/known-bodies.ts";
import { assertValid } from "../../src/http/validation.ts";
import { estimateInputTokens } from "../../src/kinds/chat/input-tokens.ts";
import { countTokensByScript } from "../../src/kinds/count-tokens.ts";
import type { ChatMessage } from "../../src/model/chat-request.ts";
import { DEFAULT_JSON_LIMITS, JsonBudget, type JsonObject } from "../../src/model/json.ts";
import { writeJson } from "../../src/model/kept-text.ts";
import { type BodyLease, BodyRoom } from "../../src/ports/shared-room.ts";
import { parsed } from "./intake.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function heapBytes(): number {
  // What was compiled or cached meanwhile is gone after the second.
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

const list = (count: number, item: (index: number) => string): string =>
  `[${Array.from({ length: count }, (_, index) => item(index)).join(",")}]`;
const nested = (levels: number, key: (level: number) => string): string =>
  `${Array.from({ length: levels }, (_, level) => `{"${key(level)}":`).join("")}1${"}".repeat(levels)}`;

const LEVELS = 190;

/** The value of a text, booked with a lease. */
function booked(text: string, lease: BodyLease): unknown {
  const budget = new JsonBudget();
  budget.booking = lease;
  return parsed(text, budget);
}

// Each has tens of thousands of values: what else the process does is little beside them.
it.each<[what: string, text: () => string]>([
  ["empty objects", () => list(40_000, () => "{}")],
  ["empty arrays", () => list(40_000, () => "[]")],
  ["arrays in arrays", () => list(400, () => "[".repeat(LEVELS) + "]".repeat(LEVELS))],
  ["fractions in arrays", () => list(40_000, () => "[1.5]")],
  ["short texts", () => list(80_000, (index) => `"${index.toString(36)}"`)],
  ["short texts beyond Latin-1", () => list(40_000, (index) => `"语${index}"`)],
  ["keys that no other object has", () => list(40_000, (index) => `{"k${index}":1}`)],
  [
    "keys that no other object has, nested",
    () => list(400, (index) => nested(LEVELS, (level) => `a${index}_${level}`)),
  ],
  [
    "as many keys of an object as it may have",
    () =>
      list(8, (at) =>
        JSON.stringify(
          Object.fromEntries(
            Array.from({ length: DEFAULT_JSON_LIMITS.maxJsonKeys }, (_, key) => [`k${at}_${key}`, {}]),
          ),
        ),
      ),
  ],
  ["numeric keys", () => list(40_000, () => '{"15":1}')],
  ["numeric keys, nested", () => list(400, () => nested(LEVELS, () => "4000000000"))],
  ["parts of a conversation", () => list(40_000, (index) => `{"type":"text","text":"Hello ${index}"}`)],
])("%s", (_what, make) => {
  const text = make();
  const room = new BodyRoom(2 ** 40);
  const lease = room.lease("key");
  const before = heapBytes();
  lease.take(Buffer.byteLength(text));
  const value = booked(text, lease);
  const taken = heapBytes() - before;
  expect(taken, "it was measured").toBeGreaterThan(128 * 1024);
  // A twentieth for the process itself.
  expect(taken).toBeLessThan(room.takenBytes * 1.05);
  expect(value).toBeTypeOf("object");
});

it("a body for which there is no room once parsed is not parsed", () => {
  const lease = new BodyRoom(1_000, 1_000).lease("key");
  lease.take(100);
  // The text is no JSON, so that the parser would throw another error.
  expect(() => booked("[1,2,3,4,5,", lease)).toThrow(expect.objectContaining({ code: "body_too_large" }));
});

const KNOWN_BYTES = 4 * 2 ** 20;

it.each<[what: string, text: (index: number) => string]>([
  ["Latin-1", (index) => JSON.stringify({ index, text: `é${index}`.repeat(20_000) })],
  ["wide texts", (index) => JSON.stringify({ index, text: `语${index}`.repeat(20_000) })],
  ["texts with one wide character", (index) => JSON.stringify({ index, texts: ["语", `x${index}`.repeat(20_000)] })],
  ["many members", (index) => `{${list(2_000, (at) => `"k${index}_${at}":1`).slice(1, -1)}}`],
  ["arrays", (index) => `{${list(250, (at) => `"k${index}_${at}":[1,"${"x".repeat(40)}"]`).slice(1, -1)}}`],
  [
    "conversations",
    (index) =>
      JSON.stringify({
        messages: Array.from({ length: 200 }, (_, at) => ({ role: "user", content: `${index} ${at}` })),
      }),
  ],
])("known bodies of %s stay within their memory", async (_what, make) => {
  const bodies = new KnownBodies(KNOWN_BYTES);
  const parse = (index: number): unknown =>
    bodies.parse(`key ${index}`, Buffer.from(make(index)).toString(), new JsonBudget());
  // The first call compiles the code.
  parse(0);
  bodies.clear();
  const before = heapBytes();
  for (let index = 0; index < 60; index++) parse(index);
  await expect.poll(() => heapBytes() - before).toBeLessThan(KNOWN_BYTES * 1.05);
  bodies.clear();
  await expect.poll(() => heapBytes() - before).toBeLessThan(KNOWN_BYTES / 4);
});

const MESSAGES = 1_500;
const SCHEMA = messagesRequest({ vendorRanges: false, vendorSources: false });

/** Writes a conversation of short messages of one role, but for some of the other role. */
const conversation = (isOther: (index: number) => boolean): string =>
  `{"model":"m","max_tokens":9,"messages":${list(MESSAGES, (at) => `{"role":"${isOther(at) ? "assistant" : "user"}","content":"${at}"}`)}}`;

/** Does with a body what each call of the messages format does. */
function callWith(bodies: KnownBodies, text: string): readonly ChatMessage[] {
  const body = bodies.parse("key", text, new JsonBudget()) as JsonObject;
  assertValid(SCHEMA, body);
  const messages = decodeMessages(body["messages"]);
  estimateInputTokens({ messages, tools: [], system: [] } as never, countTokensByScript);
  writeJson({ ...body }, body);
  return messages;
}

it.each<[what: string, isOther: (index: number, round: number) => boolean, rounds: number]>([
  ["alternate", (index) => index % 2 === 1, 2],
  ["are turns of several messages", (index) => index % 8 >= 4, 2],
  ["are turns that get shorter and shorter", (index, round) => index % 18 === 0 || index % 18 === 17 - round, 15],
  ["are turns whose beginning moves", (index, round) => index % 5 === 4 - (round % 5), 15],
])(
  "known bodies of messages that %s stay within their memory with what is derived from them",
  async (_what, isOther, rounds) => {
    const serve = (bodies: KnownBodies): void => {
      for (let round = 0; round < rounds; round++) {
        const text = conversation((index) => isOther(index, round));
        // What comes again is shared, and keeps what is derived from it.
        const known = [1, 2].map(() => callWith(bodies, text))[1];
        expect(Object.isFrozen(known?.[0]), "it is shared").toBe(true);
      }
    };
    serve(new KnownBodies(KNOWN_BYTES));
    const bodies = new KnownBodies(KNOWN_BYTES / 2);
    const before = heapBytes();
    serve(bodies);
    // The compiler may still hold code of the last calls.
    await expect.poll(() => heapBytes() - before).toBeLessThan((KNOWN_BYTES / 2) * 1.05);
    bodies.clear();
  },
);
