/** Answers that the chat-completions format can say, and what any events say of an answer, whatever their pieces. */

import fc from "fast-check";
import { type Annotation, type ChatEvent, citationsIn } from "../../src/model/chat-event.ts";
import type { JsonObject } from "../../src/model/json.ts";
import { webUrl } from "./arbitraries.ts";

const text = fc.string({ minLength: 1, maxLength: 10, unit: "grapheme" });
const name = fc.stringMatching(/^[a-z]\w{0,9}$/);
const json = fc
  .dictionary(name, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
const base64 = fc.uint8Array({ minLength: 1, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64"));
const count = fc.nat({ max: 30_000 });

const spoken: fc.Arbitrary<ChatEvent> = fc.oneof(
  fc.record({ type: fc.constant("text-delta" as const), text }),
  fc.record({ type: fc.constant("reasoning-delta" as const), text }),
  fc.record({ type: fc.constant("refusal-delta" as const), text }),
  fc.record({ type: fc.constant("media" as const), mediaType: fc.constant("image/png"), data: base64 }),
  fc.record({ uri: webUrl, title: text }).map((chunk): ChatEvent => ({
    type: "annotation",
    annotation: { type: "grounding", chunks: [chunk] },
  })),
  fc
    .record({ token: text, logProbability: fc.double({ min: -9, max: -0.001, noNaN: true }) })
    .map((step): ChatEvent => ({
      type: "annotation",
      annotation: { type: "logprobs", chosen: [step], top: [[step]] },
    })),
);

const callOf = (id: string): fc.Arbitrary<ChatEvent[]> =>
  fc.oneof(
    fc.tuple(name, json).map(([tool, input]): ChatEvent[] => [{ type: "tool-call", id, name: tool, input }]),
    fc.tuple(name, json, fc.nat(), fc.boolean()).map(([tool, input, at, isEnded]): ChatEvent[] => {
      const whole = JSON.stringify(input);
      const cut = at % whole.length;
      return [
        { type: "tool-call-start", id, name: tool },
        { type: "tool-call-delta", id, json: whole.slice(0, cut) },
        { type: "tool-call-delta", id, json: whole.slice(cut) },
        ...(isEnded ? [{ type: "tool-call-end", id } as const] : []),
      ];
    }),
  );

/** One candidate: what it says and its calls, by turns, each in its own order. */
const candidate = (index: number): fc.Arbitrary<ChatEvent[]> =>
  fc
    .tuple(
      fc.array(spoken, { maxLength: 6 }),
      fc.option(callOf(`call_${index}a`), { nil: [] }),
      fc.option(callOf(`call_${index}b`), { nil: [] }),
      fc.array(fc.nat({ max: 2 }), { maxLength: 12 }),
      fc.constantFrom("stop" as const, "length" as const, "content-filter" as const),
    )
    .map(([said, a, b, order, reason]) => {
      const sources = [[...said], [...a], [...b]];
      const mixed = order.flatMap((source) => sources[source]?.shift() ?? []);
      const refuses = reason !== "length" && said.some(({ type }) => type === "refusal-delta");
      const events: ChatEvent[] = [
        ...mixed,
        ...sources.flat(),
        { type: "finish", reason: refuses ? "refusal" : reason },
      ];
      return index === 0 ? events : events.map((event) => ({ ...event, candidate: index }) as ChatEvent);
    });

const usage = fc
  .record({
    inputTokens: count,
    outputTokens: count.map((n) => n + 1_000),
    cacheReadTokens: count,
    reasoningTokens: count,
  })
  .map(({ inputTokens, outputTokens, ...parts }): ChatEvent => {
    const { cacheReadTokens, reasoningTokens } = parts;
    const wholes = { inputTokens: inputTokens + cacheReadTokens, outputTokens: outputTokens + reasoningTokens };
    return { type: "usage", usage: { ...wholes, ...parts } };
  });

export interface Answer {
  readonly events: readonly ChatEvent[];
  readonly candidates: number;
}

export const answer: fc.Arbitrary<Answer> = fc.integer({ min: 1, max: 3 }).chain((candidates) =>
  fc
    .tuple(
      fc.option(fc.record({ id: name, model: name }), { nil: { id: "a", model: "m" } }),
      fc.tuple(...Array.from({ length: candidates }, (_, index) => candidate(index))),
      usage,
    )
    .map(([start, said, counts]) => ({
      candidates,
      events: [{ type: "start", ...start }, ...said.flat(), counts],
    })),
);

interface SaidByOne {
  text: string;
  thoughts: string;
  refusal: string;
  calls: { id: string; name: string; json: string }[];
  media: unknown[];
  sources: unknown[];
  chosen: unknown[];
  top: unknown[];
  reason: string | undefined;
}

/** What an answer says, whatever the pieces that it came in. */
export interface Said {
  readonly id: string | undefined;
  readonly model: string | undefined;
  readonly candidates: readonly SaidByOne[];
  readonly usage: object;
}

export function saidBy(events: readonly ChatEvent[]): Said {
  const candidates: SaidByOne[] = [];
  let [id, model, used]: [string | undefined, string | undefined, object] = [undefined, undefined, {}];
  const flat = events.flatMap((event) => (event.type === "native" ? event.events : [event]));
  for (const event of flat) {
    if (event.type === "start") [id, model] = [event.id, event.model];
    else if (event.type === "usage") used = { ...used, ...event.usage };
    else if (event.type !== "prompt-feedback") add((candidates[event.candidate ?? 0] ??= silent()), event);
  }
  for (const one of candidates) {
    for (const call of one.calls) call.json = call.json === "" ? "{}" : call.json;
    if (one.reason === "stop" && one.calls.length > 0) one.reason = "tool-calls";
  }
  // The decoder takes a source for the sign of a search.
  const searched = candidates.some(({ sources }) => sources.length > 0) ? { serverToolUses: { web_search: 1 } } : {};
  return { id, model, candidates, usage: { ...used, ...searched } };
}

const silent = (): SaidByOne => ({
  text: "",
  thoughts: "",
  refusal: "",
  calls: [],
  media: [],
  sources: [],
  chosen: [],
  top: [],
  reason: undefined,
});

function add(one: SaidByOne, event: ChatEvent): void {
  switch (event.type) {
    case "text-delta":
      one.text += event.text;
      break;
    case "reasoning-delta":
      one.thoughts += event.text;
      break;
    case "refusal-delta":
      one.refusal += event.text;
      break;
    case "tool-call":
      one.calls.push({ id: event.id, name: event.name, json: JSON.stringify(event.input) });
      break;
    case "tool-call-start":
      one.calls.push({ id: event.id, name: event.name, json: "" });
      break;
    case "tool-call-delta": {
      const call = one.calls.find(({ id }) => id === event.id);
      if (!call) throw new Error(`The call ${event.id} goes on before it begins.`);
      call.json += event.json;
      break;
    }
    case "media":
      one.media.push([event.mediaType, event.data]);
      break;
    case "annotation":
      note(one, event.annotation);
      break;
    case "finish":
      one.reason = event.reason;
      break;
    default:
      break;
  }
}

function note(one: SaidByOne, annotation: Annotation): void {
  one.sources.push(...citationsIn(annotation));
  if (annotation.type !== "logprobs") return;
  one.chosen.push(...annotation.chosen);
  one.top.push(...annotation.top);
}
