/** Each field of an upstream's answer, complete and streamed, is read, or is told where the answer crosses into another format. */

import type * as v from "valibot";
import { describe, expect, it } from "vitest";
import { AnswerDecoder as ChatCompletionsDecoder } from "../../src/dialects/chat-completions/answer.decode.ts";
import { chatCompletions } from "../../src/dialects/chat-completions/index.ts";
import { Answer } from "../../src/dialects/chat-completions/schema.answer.ts";
import type { AnswerDecoder } from "../../src/dialects/codec.ts";
import { generateContent } from "../../src/dialects/generate-content/index.ts";
import { AnswerDecoder as GenerateContentDecoder } from "../../src/dialects/generate-content/response.decode.ts";
import { GenerateContentResponse } from "../../src/dialects/generate-content/schema.answer.ts";
import { messages } from "../../src/dialects/messages/index.ts";
import { AnswerDecoder as MessagesDecoder } from "../../src/dialects/messages/response.decode.ts";
import { Frame, MessageAnswer } from "../../src/dialects/messages/schema.upstream.ts";
import { type ChatEvent, createGateway, memoryQuotaStore, systemClock } from "../../src/index.ts";
import { CHAT_CHUNKS, CHATS, CONTENTS, MESSAGE, MESSAGE_FRAMES } from "./wire-fields.answers.ts";
import { Fields, type Read } from "./wire-fields.ts";

/** What answers of these events mean. A change that breaks an answer is seen. */
function readBy(events: () => readonly ChatEvent[]): Read {
  try {
    const native = events().filter((event) => event.type === "native");
    return {
      said: native.flatMap(({ means }) => means),
      unsaid: native.flatMap(({ unsaid }) => unsaid?.() ?? []),
    };
  } catch (error) {
    return { said: String(error), unsaid: [] };
  }
}

const whole =
  (decoder: () => AnswerDecoder) =>
  (body: unknown): Read =>
    readBy(() => decoder().answer(JSON.stringify(body)));

function streamed(decoder: () => AnswerDecoder, frames: readonly unknown[]): Read {
  return readBy(() => {
    const stream = decoder();
    const events = frames.flatMap((frame) => stream.frame(undefined, JSON.stringify(frame)));
    stream.end();
    return events;
  });
}

/** Sees the fields of each frame of a stream, those that are of the schema. */
function seeFrames(fields: Fields, decoder: () => AnswerDecoder, frames: readonly object[], type?: string): void {
  for (const [index, frame] of frames.entries())
    if (type === undefined || Reflect.get(frame, "type") === type)
      fields.see(frame, (changed) => streamed(decoder, frames.with(index, changed as object)));
}

const ofMessages = (): AnswerDecoder => new MessagesDecoder();
const ofChatCompletions = (): AnswerDecoder => new ChatCompletionsDecoder();
const ofGenerateContent = (): AnswerDecoder => new GenerateContentDecoder();

/** What is the same in every answer of a format, says nothing, or follows from what is read. */
const TELLS_NOTHING =
  /(?:^|\.)(?:type|role|object|created|obfuscation|(?:images|tool_calls)\.index|total_tokens|totalTokenCount)$/;

type See = (fields: Fields) => void;

describe.each<[name: string, schema: v.GenericSchema, see: See]>([
  ["a messages answer", MessageAnswer, (fields) => fields.see(MESSAGE, whole(ofMessages))],
  ...Object.entries(Frame).map(([type, schema]): [string, v.GenericSchema, See] => [
    `a messages stream's ${type}`,
    schema,
    (fields) => seeFrames(fields, ofMessages, MESSAGE_FRAMES, type),
  ]),
  [
    "an answer or a stream of chat completions",
    Answer,
    (fields) => {
      for (const answer of CHATS) fields.see(answer, whole(ofChatCompletions));
      for (const chunks of CHAT_CHUNKS) seeFrames(fields, ofChatCompletions, chunks);
    },
  ],
  [
    "an answer or a stream of generate-content",
    GenerateContentResponse,
    (fields) => {
      for (const answer of CONTENTS) fields.see(answer, whole(ofGenerateContent));
      seeFrames(fields, ofGenerateContent, CONTENTS);
    },
  ],
])("%s", (_name, schema, see) => {
  const fields = new Fields(schema);

  it("has each of its fields read, or told", () => {
    see(fields);
    expect([...fields.silent].filter((change) => !TELLS_NOTHING.test(change.split(":")[0] ?? ""))).toEqual([]);
  });

  it("has a sample of each field", () => {
    expect(fields.unseen).toEqual([]);
  });
});

it("tells what a frame of a type that is not known here holds", () => {
  const { unsaid } = streamed(ofMessages, MESSAGE_FRAMES);
  expect(unsaid).toContain("moon");
  expect(unsaid.length).toBe(new Set(unsaid).size);
});

const DIALECTS = [messages(), generateContent(), chatCompletions({ clock: systemClock })];

it.each(DIALECTS.map((dialect) => [dialect.name, dialect] as const))(
  "is told to callers of %s where it crosses into their format, and not where it is of it",
  (name, { endpoints }) => {
    const endpoint = endpoints.find(({ kind }) => kind === "chat");
    for (const dialect of ["messages", "elsewhere"]) {
      const lost = { type: "native", dialect, means: [], unsaid: () => ["container"] } as const;
      const losses = endpoint?.kind === "chat" ? endpoint.lossesOf(lost) : [];
      expect(losses.map(({ field, fate }) => [field, fate])).toEqual(
        dialect === name ? [] : [["answer.native.container", "dropped"]],
      );
    }
  },
);

it("stands in the record of a call, once, and 32 of them at most", async () => {
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`field_${index}`, 1]));
  const frames = MESSAGE_FRAMES.map((frame) => ({ ...frame, ...many }));
  const decoder = ofMessages();
  const events = frames.flatMap((frame) => decoder.frame(undefined, JSON.stringify(frame)));
  const lost: string[] = [];
  const gateway = createGateway({
    backend: {
      async *chat() {
        yield* events;
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-a", granted: 1_000_000 }]),
    onCall: ({ droppedFromAnswer }) => void lost.push(...droppedFromAnswer.map(({ field }) => field)),
  });
  const response = await gateway.fetch(
    new Request("http://local/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-a", "content-type": "application/json" },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hi" }] }),
    }),
  );
  expect(response.status).toBe(200);
  await response.text();
  const told = lost.filter((field) => field.startsWith("answer.native."));
  expect(told).toHaveLength(32);
  expect(told).toContain("answer.native.field_0");
  await gateway.close();
});
