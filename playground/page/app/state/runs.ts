/** The chat calls that were made, the last one of each format. */

import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { createParser } from "eventsource-parser";
import { type Answer, AnswerBuilder } from "../formats/answer.ts";
import type { ChatDraft } from "../formats/draft.ts";
import type { ChatFormat } from "../formats/format.ts";
import { type Exchange, isRunning, oncePerFrame, type Progress, startExchange } from "../http/exchange.ts";
import type { ShownKey } from "../http/secret.ts";
import { isObject, parsed } from "../json.ts";
import { draft, wantedFormats } from "./draft.ts";
import { apiKey, keyToShow } from "./keys.ts";
import { watchQuota } from "./quota.ts";

export interface Run {
  readonly format: ChatFormat;
  /** What was sent, whatever the user has changed since. */
  readonly draft: ChatDraft;
  readonly key: ShownKey;
  readonly exchange: Exchange;
  readonly answer: ReadonlySignal<Answer>;
}

export const runs: Signal<Readonly<Record<string, Run>>> = signal({});

/** Sends the draft in each of the wanted formats at once. */
export function send(): void {
  stopAll();
  const started = wantedFormats().map((format) => start(format, draft.peek()));
  runs.value = { ...runs.peek(), ...Object.fromEntries(started.map((run) => [run.format.id, run])) };
}

export function stopAll(): void {
  for (const { exchange } of Object.values(runs.peek())) exchange.stop();
}

export const isAnyRunning = (): boolean =>
  Object.values(runs.value).some((run) => isRunning(run.exchange.progress.value));

function start(format: ChatFormat, draft: ChatDraft): Run {
  const builder = new AnswerBuilder();
  const answer = signal(builder.answer);
  const publish = oncePerFrame(() => (answer.value = builder.answer));
  const parser = createParser({
    onEvent: ({ data }) => {
      const event = parsed(data);
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
  return { format, draft, key: keyToShow.peek(), exchange, answer };
}

const isStream = ({ status, headers }: Progress): boolean =>
  status === 200 && headers.some(([name, value]) => name === "content-type" && value.startsWith("text/event-stream"));
