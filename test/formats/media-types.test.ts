/** The media types of files, as clients of each format spell them, before upstreams of the other formats. */

import { expect, it } from "vitest";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { responsesCodec } from "../../src/formats/responses/upstream.ts";
import { type ChatRequest, createGateway, memoryQuotaStore } from "../../src/index.ts";

const CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
  responses: responsesCodec(),
};

const DATA = "YSxiCg==";
const TEXT = "a,b\n";

/** A caller's file of a type, as the last part of its only message. */
const CALLERS = {
  "a picture of chat-completions": [
    "/v1/chat/completions",
    (type: string) => ({ type: "image_url", image_url: { url: `data:${type};base64,${DATA}` } }),
  ],
  "a picture of responses": [
    "/v1/responses",
    (type: string) => ({ type: "input_image", image_url: `data:${type};base64,${DATA}` }),
  ],
  "a file of chat-completions": [
    "/v1/chat/completions",
    (type: string) => ({ type: "file", file: { file_data: `data:${type};base64,${DATA}` } }),
  ],
  "a file of responses": [
    "/v1/responses",
    (type: string) => ({ type: "input_file", file_data: `data:${type};base64,${DATA}` }),
  ],
  "a medium of generate-content": [
    "/v1beta/models/m:generateContent",
    (mimeType: string) => ({ inlineData: { mimeType, data: DATA } }),
  ],
} as const;

const bodyOf = (path: string, part: object): object => {
  if (path === "/v1/responses") return { model: "m", input: [{ role: "user", content: [part] }] };
  if (path === "/v1/chat/completions") return { model: "m", messages: [{ role: "user", content: [part] }] };
  return { contents: [{ role: "user", parts: [part] }] };
};

async function decoded(
  [path, partOf]: readonly [string, (type: string) => object],
  type: string,
): Promise<ChatRequest> {
  const asked: ChatRequest[] = [];
  const gateway = createGateway({
    backend: {
      async *chat(request) {
        asked.push(request);
        yield "Seen.";
      },
    },
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
  });
  const response = await gateway.fetch(
    new Request(`http://local${path}`, {
      method: "POST",
      headers: { authorization: "Bearer sk-test", "content-type": "application/json" },
      body: JSON.stringify(bodyOf(path, partOf(type))),
    }),
  );
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
  const { native: _native, ...request } = asked[0] as ChatRequest;
  return request;
}

/** Returns the only part that an upstream gets, and the conversion of each field that is not exact. */
function asked(format: keyof typeof CODECS, request: ChatRequest): [unknown, Record<string, string>] {
  const { body, conversions } = CODECS[format].encodeRequest(request);
  const [turn] = (body["messages"] ?? body["input"] ?? body["contents"]) as Record<string, unknown>[];
  const parts = turn?.["content"] ?? turn?.["parts"];
  return [
    Array.isArray(parts) ? parts[0] : parts,
    Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion])),
  ];
}

it.each([
  ["a picture of chat-completions", "image/jpg"],
  ["a picture of chat-completions", "image/JPEG"],
  ["a picture of responses", "image/pjpeg"],
  ["a medium of generate-content", "image/jpg"],
  ["a medium of generate-content", "IMAGE/JPEG; q=1"],
] as const)("%s that its client calls %s is a JPEG before every upstream", async (caller, type) => {
  const request = await decoded(CALLERS[caller], type);
  const image = { media_type: "image/jpeg", data: DATA };
  const url = `data:image/jpeg;base64,${DATA}`;
  expect(asked("messages", request)).toEqual([{ type: "image", source: { type: "base64", ...image } }, {}]);
  expect(asked("generate-content", request)).toEqual([{ inlineData: { mimeType: "image/jpeg", data: DATA } }, {}]);
  expect(asked("chat-completions", request)).toEqual([{ type: "image_url", image_url: { url } }, {}]);
  expect(asked("responses", request)).toEqual([{ type: "input_image", image_url: url, detail: "auto" }, {}]);
});

it.each([
  ["a file of chat-completions", "application/x-pdf"],
  ["a file of responses", "application/PDF"],
  ["a medium of generate-content", "application/x-pdf"],
] as const)("%s that its client calls %s is a PDF before every upstream", async (caller, type) => {
  const request = await decoded(CALLERS[caller], type);
  const document = { media_type: "application/pdf", data: DATA };
  expect(asked("messages", request)).toEqual([{ type: "document", source: { type: "base64", ...document } }, {}]);
  expect(asked("generate-content", request)).toEqual([{ inlineData: { mimeType: "application/pdf", data: DATA } }, {}]);
});

it.each([
  ["a file of chat-completions", "text/csv"],
  ["a file of chat-completions", "Text/Plain"],
  ["a file of responses", "application/json"],
] as const)("%s of %s is a text before upstreams that take no such file", async (caller, type) => {
  const request = await decoded(CALLERS[caller], type);
  const conversions = { "messages.document.text": "approximated" };
  const source = { type: "text", media_type: "text/plain", data: TEXT };
  expect(asked("messages", request)).toEqual([{ type: "document", source }, conversions]);
  expect(asked("generate-content", request)).toEqual([{ text: TEXT }, conversions]);
});

it("a file that is no text is not called one where it is dropped", async () => {
  const request = await decoded(CALLERS["a file of responses"], "application/msword");
  // Without its file, the message is empty.
  const conversions = { "messages.document": "dropped", "messages.none": "rejected" };
  for (const format of ["messages", "generate-content"] as const)
    expect(asked(format, request)[1]).toEqual(conversions);
});

it.each([
  ["audio/wave", "wav"],
  ["audio/vnd.wave", "wav"],
  ["audio/x-wav", "wav"],
  ["audio/wav; codecs=1", "wav"],
  ["AUDIO/MP3", "mp3"],
  ["audio/mpeg", "mp3"],
])("a sound of %s has the format %s before both upstreams of OpenAI", async (type, format) => {
  const request = await decoded(CALLERS["a medium of generate-content"], type);
  const sound = [{ type: "input_audio", input_audio: { data: DATA, format } }, {}];
  expect([asked("chat-completions", request), asked("responses", request)]).toEqual([sound, sound]);
});
