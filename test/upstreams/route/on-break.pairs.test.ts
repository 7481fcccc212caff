/** A route that goes on after a break: for every two formats of its caller and its upstreams, and a break behind every frame, one answer. */

import { describe, expect, it } from "vitest";
import { FORMATS, callerOf, type ChatFormatName } from "./callers.ts";
import { breakStage, GRANTED, KEY, restOf } from "./on-break.stage.ts";
import { breaksAfter, framesOf, outputOf, type Script, writesAll } from "./speakers.ts";

const PROMPT = "ten tokens";
/** The characters of the prompt and of the clients' tool: the gateway estimates as this upstream counts. */
const INPUT = 75;
const WHOLE = "Now is the winter of our discontent 🌍 made glorious summer";

const script = (id: string, inputTokens: number): Script => ({
  id,
  inputTokens,
  parts: [{ type: "text", pieces: WHOLE.match(/[^]{1,9}/gu) ?? [] }],
});

/** The end of a whole answer in each format. */
const ENDS: Readonly<Record<ChatFormatName, string>> = {
  messages: "end_turn",
  "chat-completions": "stop",
  "generate-content": "STOP",
  responses: "completed",
};

/** The frames of each format from which on the answer has ended, so that a break changes nothing. */
const isEnd = (bytes: string): boolean =>
  /"message_delta"|"finish_reason":"stop"|"STOP"|response\.completed/.test(bytes);

/** A Latin square: every caller meets every first and every second upstream, and every first upstream meets every second one. */
const triples = FORMATS.flatMap((caller, row) =>
  FORMATS.map((first, column) => {
    const second = FORMATS[(row + column) % FORMATS.length] ?? first;
    return { name: `${caller}: ${first} → ${second}`, caller, first, second };
  }),
);

describe.each(triples)("$name", ({ caller, first, second }) => {
  it("goes on after a break behind every frame, and charges both upstreams' counts", async () => {
    const begun = script("first", INPUT);
    const frames = framesOf(first, begun);
    const last = frames.findIndex(({ bytes }) => isEnd(bytes));
    let count = 0;
    let counted = 0;
    await using stage = await breakStage([
      { format: first, answer: (socket) => breaksAfter(socket, frames, count) },
      {
        format: second,
        answer(socket, { body }) {
          const rest = restOf(script("second", 500), body);
          counted = rest.inputTokens + outputOf(rest);
          writesAll(socket, framesOf(second, rest));
        },
      },
    ]);
    const client = callerOf(caller, stage.url, KEY);
    let used = 0;
    for (count = 1; count <= last; count++) {
      counted = 0;
      const read = await client.stream(PROMPT);
      const where = `behind frame ${count}`;
      expect([where, read]).toMatchObject([where, { text: WHOLE, finish: ENDS[caller], calls: [], reasoning: "" }]);
      expect([where, read.ids.length]).toEqual([where, 1]);
      const { chars } = frames[count - 1] ?? { chars: 0 };
      // Messages count their input and a first token at once. Other upstreams are charged from the first word on.
      const own = first === "messages" ? INPUT + Math.max(1, chars) : chars > 0 ? INPUT + chars : 0;
      const record = stage.records.at(-1);
      expect([where, record?.attempts.map(({ upstream, movedOn }) => [upstream, movedOn])]).toEqual([
        where,
        [
          ["upstream-0", "broke-off"],
          ["upstream-1", undefined],
        ],
      ]);
      expect([where, record?.units]).toEqual([where, own + counted]);
      used += own + counted;
      expect([where, (read.inputTokens ?? 0) + (read.outputTokens ?? 0)]).toEqual([where, own + counted]);
      expect(stage.quotas.report("caller")).toMatchObject({ available: GRANTED - used, used, held: 0, liveHolds: 0 });
    }
    expect(stage.upstreams[1]?.requests).toHaveLength(last);
  });
});
