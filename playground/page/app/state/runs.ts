/** The last chat call of each format. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { createParser } from "eventsource-parser";
import { type Answer, AnswerBuilder, callsIn, type ToolCall } from "../formats/answer.ts";
import type { ChatDraft, PastTurn } from "../formats/draft.ts";
import type { ChatFormat } from "../formats/format.ts";
import { type Exchange, isRunning, oncePerFrame, type Progress, startExchange } from "../http/exchange.ts";
import type { ShownKey } from "../http/secret.ts";
import { isObject, parsed } from "../json.ts";
import { draft, wantedFormats, weather } from "./draft.ts";
import { apiKey, keyToShow } from "./keys.ts";
import { watchQuota } from "./quota.ts";

export interface Run {
  readonly format: ChatFormat;
  /** The sent draft. Later changes by the user do not affect it. */
  readonly draft: ChatDraft;
  readonly key: ShownKey;
  readonly exchange: Exchange;
  readonly answer: ReadonlySignal<Answer>;
  /** The events of a stream, in order. */
  readonly events: ReadonlySignal<readonly StreamEvent[]>;
}

export interface StreamEvent {
  /** Milliseconds from the start of the call. */
  readonly ms: number;
  /** The type of the event; empty if the format has no types. */
  readonly name: string;
  readonly data: string;
}

export const runs: Signal<Readonly<Record<string, Run>>> = signal({});

/** Starts a conversation with the draft in all wanted formats at once. */
export const send = (): void => startAll(wantedFormats().map((format) => [format, draft.peek()]));

/** Continues each conversation with the results of its open calls and a prompt, which may be empty. */
export function followUp(prompt: string): void {
  const all = conversations().flatMap(({ format, past }): [ChatFormat, ChatDraft][] => {
    const results = openCalls(past).map(({ id, name }) => ({ id, name, text: weather.peek() }));
    return prompt === "" && results.length === 0 ? [] : [[format, { ...draft.peek(), past, prompt, results }]];
  });
  startAll(all);
}

function startAll(drafts: readonly (readonly [ChatFormat, ChatDraft])[]): void {
  stopAll();
  const started = drafts.map(([format, draft]) => start(format, draft));
  runs.value = { ...runs.peek(), ...Object.fromEntries(started.map((run) => [run.format.id, run])) };
}

/** Returns the conversations in the wanted formats that can continue, without stopped or failed turns. */
export const conversations = (): readonly { readonly format: ChatFormat; readonly past: readonly PastTurn[] }[] =>
  wantedFormats().flatMap((format) => {
    const run = runs.value[format.id];
    const past = run ? pastOf(run) : [];
    return past.length > 0 ? [{ format, past }] : [];
  });

function pastOf({ draft, exchange, answer }: Run): readonly PastTurn[] {
  const { phase, status } = exchange.progress.value;
  const isWhole = phase === "done" && status === 200 && !answer.value.error;
  if (!isWhole) return draft.past;
  const { prompt, results, past } = draft;
  return [...past, { prompt, results, answer: answer.value }];
}

/** Returns the calls of the last answer, which need results. */
export const openCalls = (past: readonly PastTurn[]): readonly ToolCall[] => {
  const last = past.at(-1);
  return last ? callsIn(last.answer) : [];
};

export function stopAll(): void {
  for (const { exchange } of Object.values(runs.peek())) exchange.stop();
}

export const isAnyRunning = (): boolean =>
  Object.values(runs.value).some((run) => isRunning(run.exchange.progress.value));

function start(format: ChatFormat, draft: ChatDraft): Run {
  const builder = new AnswerBuilder();
  const answer = signal(builder.answer);
  const seen: StreamEvent[] = [];
  const events: Signal<readonly StreamEvent[]> = signal([]);
  const startedAt = performance.now();
  const publish = oncePerFrame(() => {
    answer.value = builder.answer;
    events.value = seen.slice();
  });
  const parser = createParser({
    onEvent: ({ event: name = "", data }) => {
      const event = parsed(data);
      seen.push({ ms: Math.round(performance.now() - startedAt), name, data });
      if (isObject(event)) format.readEvent(builder, event);
    },
  });
  const exchange = startExchange(format.request(draft, apiKey.peek()), (text, progress) => {
    if (!isStream(progress)) return;
    parser.feed(text);
    publish.soon();
  });
  const ended = exchange.ended.then((progress) => {
    const body = parsed(progress.text);
    if (!isStream(progress) && progress.status === 200 && isObject(body)) format.readBody(builder, body);
    publish.now();
  });
  watchQuota(ended);
  return { format, draft, key: keyToShow.peek(), exchange, answer, events };
}

const isStream = ({ status, headers }: Progress): boolean =>
  status === 200 && headers.some(([name, value]) => name === "content-type" && value.startsWith("text/event-stream"));
