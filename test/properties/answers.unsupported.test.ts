/** Each field of an upstream's answer, complete and streamed, is decoded, or is reported if the answer is converted. */

import type * as v from "valibot";
import { describe, expect, it } from "vitest";
import { CompletionDecoder } from "../../src/formats/chat-completions/answer.decode.ts";
import { chatCompletions } from "../../src/formats/chat-completions/index.ts";
import { LooseCompletion } from "../../src/formats/chat-completions/schema.upstream.ts";
import type { AnswerDecoder } from "../../src/formats/format.ts";
import { GenerateContentDecoder } from "../../src/formats/generate-content/answer.decode.ts";
import { generateContent } from "../../src/formats/generate-content/index.ts";
import { GenerateContentResponse } from "../../src/formats/generate-content/schema.answer.ts";
import { MessagesDecoder } from "../../src/formats/messages/answer.decode.ts";
import { messages } from "../../src/formats/messages/index.ts";
import { UPSTREAM_FRAMES, UpstreamAnswer } from "../../src/formats/messages/schema.upstream.ts";
import { ResponseDecoder } from "../../src/formats/responses/answer.decode.ts";
import { responses } from "../../src/formats/responses/index.ts";
import { LooseResponse } from "../../src/formats/responses/schema.upstream.ts";
import { type ChatEvent, createGateway, memoryQuotaStore, systemClock } from "../../src/index.ts";
import { chatOf } from "../kinds/chat.ts";
import { CHAT_CHUNKS, CHATS, CONTENTS, MESSAGE, MESSAGE_FRAMES, RESPONSE } from "./wire-fields.answers.ts";
import { Fields, type Read } from "./wire-fields.ts";

/** Reads an answer. An error counts as content, so that a change which breaks the answer is noticed. */
function readBy(events: () => readonly ChatEvent[]): Read {
  try {
    const native = events().filter((event) => event.type === "native");
    return {
      said: native.flatMap(({ events }) => events),
      unsupported: native.flatMap(({ unsupported }) => unsupported?.() ?? []),
    };
  } catch (error) {
    return { said: String(error), unsupported: [] };
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

/** Tries the fields of each frame of a stream that belongs to the schema. */
function seeFrames(fields: Fields, decoder: () => AnswerDecoder, frames: readonly object[], type?: string): void {
  for (const [index, frame] of frames.entries())
    if (type === undefined || Reflect.get(frame, "type") === type)
      fields.see(frame, (changed) => streamed(decoder, frames.with(index, changed as object)));
}

const ofMessages = (): AnswerDecoder => new MessagesDecoder();
const ofChatCompletions = (): AnswerDecoder => new CompletionDecoder();
const ofResponses = (): AnswerDecoder => new ResponseDecoder();
const ofGenerateContent = (): AnswerDecoder => new GenerateContentDecoder();

/** Fields that are equal in every answer of a format, have no meaning, or follow from other fields. */
const TELLS_NOTHING =
  /(?:^|\.)(?:type|role|object|created|obfuscation|closed|(?:images|tool_calls)\.index|output\.(?:id|status|container_id)|total_tokens|totalTokenCount)$/;

type See = (fields: Fields) => void;

describe.each<[name: string, schema: v.GenericSchema, see: See]>([
  ["a messages answer", UpstreamAnswer, (fields) => fields.see(MESSAGE, whole(ofMessages))],
  ...Object.entries(UPSTREAM_FRAMES).map(([type, schema]): [string, v.GenericSchema, See] => [
    `a messages stream's ${type}`,
    schema,
    (fields) => seeFrames(fields, ofMessages, MESSAGE_FRAMES, type),
  ]),
  [
    "an answer or a stream of chat completions",
    LooseCompletion,
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
  ["an answer of Responses", LooseResponse, (fields) => fields.see(RESPONSE, whole(ofResponses))],
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
  const { unsupported } = streamed(ofMessages, MESSAGE_FRAMES);
  expect(unsupported).toContain("moon");
  expect(unsupported.length).toBe(new Set(unsupported).size);
});

const FORMATS = [
  messages(),
  generateContent(),
  chatCompletions({ clock: systemClock }),
  responses({ clock: systemClock }),
];

it.each(FORMATS.map((format) => [format.name, format] as const))(
  "is told to callers of %s where it crosses into their format, and not where it is of it",
  (name, served) => {
    const endpoint = chatOf(served);
    for (const format of ["messages", "elsewhere"]) {
      const lost = { type: "native", format, events: [], unsupported: () => ["container"] } as const;
      const conversions = endpoint.conversionsOfEvent(lost);
      expect(conversions.map(({ field, conversion }) => [field, conversion])).toEqual(
        format === name ? [] : [["answer.native.container", "dropped"]],
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
