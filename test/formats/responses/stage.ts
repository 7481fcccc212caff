/** A gateway in this process that is asked for Responses, and the laws that hold for every stream of it. */

import { createParser } from "eventsource-parser";
import { accumulateResponse } from "openai/lib/responses/ResponseAccumulator";
import type { Response as OpenAIResponse, ResponseStreamEvent } from "openai/resources/responses/responses";
import { expect } from "vitest";
import { openStage as open, type Play, type Stage, type StageOptions } from "../chat-completions/stage.ts";

export { CREATED, fails, type Play, plays } from "../chat-completions/stage.ts";

export const openStage = (play: Play, options: StageOptions = {}): Stage =>
  open(play, { path: "/v1/responses", ...options });

/** A body that is in order, but for what is changed. */
export const having = (changes: object = {}): object => ({ model: "model-a", input: "Hi", ...changes });

/** An event of a stream. Tests read fields that only some events have. */
export interface StreamEvent {
  readonly type: string;
  readonly sequence_number: number;
  readonly item_id?: string;
  readonly item?: { readonly id: string };
  readonly output_index?: number;
  readonly content_index?: number;
  readonly summary_index?: number;
  readonly delta?: string;
  readonly response?: OpenAIResponse;
}

const ENDS: ReadonlySet<string> = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** The field of an event that repeats all deltas of a kind. */
const WHOLE: Readonly<Record<string, string>> = {
  "response.output_text": "text",
  "response.refusal": "refusal",
  "response.reasoning_summary_text": "text",
  "response.function_call_arguments": "arguments",
  "response.custom_tool_call_input": "input",
  "response.code_interpreter_call_code": "code",
};

/** Returns the events of a stream. Holds each frame to its form: the name of the event, and its data in one line. */
export function eventsIn(text: string): StreamEvent[] {
  const events: StreamEvent[] = [];
  createParser({
    onEvent({ event, data, id }) {
      const parsed = JSON.parse(data) as StreamEvent;
      expect([parsed.type, id]).toEqual([event, undefined]);
      events.push(parsed);
    },
  }).feed(text);
  return events;
}

/** Holds the events of an answer that has not failed to the laws of the format. Returns its response. */
export function expectWhole(events: readonly StreamEvent[]): OpenAIResponse {
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
  const types = events.map(({ type }) => type);
  expect(types.slice(0, 2)).toEqual(["response.created", "response.in_progress"]);
  expect(types.flatMap((type, index) => (ENDS.has(type) ? index : []))).toEqual([events.length - 1]);
  const last = events.at(-1)?.response;
  if (!last) throw new Error("The stream has no last response.");

  // Each item is added once, in its order, and is done once.
  const of = (type: string): StreamEvent[] => events.filter((event) => event.type === `response.output_item.${type}`);
  expect(of("added").map(({ output_index }) => output_index)).toEqual(last.output.map((_, index) => index));
  const done = of("done").toSorted((a, b) => Number(a.output_index) - Number(b.output_index));
  expect(done.map(({ item }) => item)).toEqual(last.output);

  // An item begins empty, and its deltas are the whole text.
  const begun = new Map(of("added").map(({ item }) => [item?.id, item as unknown as Record<string, unknown>]));
  const deltas = new Map<string, string>();
  for (const event of events) {
    const { type, item_id, content_index, summary_index, delta } = event;
    const [, kind = "", step] = /^(.*)\.(delta|done)$/.exec(type) ?? [];
    const field = WHOLE[kind];
    if (field === undefined) continue;
    expect(begun.get(item_id)?.[field] ?? "").toBe("");
    const key = [kind, item_id, content_index ?? summary_index].join(" ");
    if (step === "delta") deltas.set(key, (deltas.get(key) ?? "") + String(delta));
    else expect((event as unknown as Record<string, unknown>)[field]).toBe(deltas.get(key) ?? "");
  }

  // The official client makes the same response of the events, with the last one and without it.
  const accumulated = accumulate(events);
  expect(accumulated).toEqual({ ...last, output_text: accumulated?.output_text });
  expect(accumulate(events.slice(0, -1))?.output).toEqual(last.output);
  return last;
}

const accumulate = (events: readonly StreamEvent[]): OpenAIResponse | undefined =>
  events.reduce<OpenAIResponse | undefined>(
    (snapshot, event) => accumulateResponse(event as unknown as ResponseStreamEvent, snapshot),
    undefined,
  );

/** The text with all ids of a response replaced: an answer and its stream have ids of their own. */
export const withoutIds = (response: object): unknown =>
  JSON.parse(JSON.stringify(response).replaceAll(/\b(resp|msg|rs|fc|ctc|ci|ig|cntr)_[0-9a-f]{32}/g, "$1_id"));
