/** What the status of an upstream's error means to a caller of the gateway's, whatever format the upstream speaks. */

import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/index.ts";
import { generateContentCodec } from "../../src/formats/generate-content/index.ts";
import { imagesCodec } from "../../src/formats/images/index.ts";
import { messagesCodec } from "../../src/formats/messages/index.ts";

const CODECS = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
  images: imagesCodec,
} as const;

const CODE_OF_STATUS = [
  [401, "backend_refused"],
  [402, "backend_refused"],
  [403, "backend_refused"],
  [405, "backend_failed"],
  [407, "backend_failed"],
  [408, "deadline_exceeded"],
  [409, "backend_unavailable"],
  [413, "body_too_large"],
  [415, "backend_failed"],
  [418, "invalid_request"],
  [422, "invalid_request"],
  [429, "rate_limited"],
  [500, "backend_failed"],
  [502, "backend_unavailable"],
  [503, "backend_unavailable"],
  [504, "deadline_exceeded"],
  [520, "backend_failed"],
  [529, "backend_overloaded"],
] as const;

describe.each(Object.entries(CODECS))("an error of an upstream that speaks %s", (_format, codec) => {
  it.each(CODE_OF_STATUS)("of status %i is %s, in the gateway's own words", (status, code) => {
    const body = { error: { message: "A secret." } };
    const error = codec.decodeError(status, new Headers(), body);
    expect(error).toMatchObject({ code, port: "model-backend" });
    expect(error.message).not.toContain("secret");
  });
});
