/** Native frames that name the model: a caller sees its own name of the model, not the upstream's. */

import { expect, it } from "vitest";
import type { ChatEvent } from "../../src/model/chat-event.ts";
import { renamed } from "../../src/upstreams/backend.ts";

const unsupported = (): readonly string[] => [];

const frame = (data: string): ChatEvent => ({
  type: "native",
  format: "messages",
  frames: [{ event: "e", data }],
  events: [{ type: "start", id: "1", model: "upstream-9" }],
  unsupported,
});

it.each([
  [
    '{"type":"message_start","message":{"id":"1","model":"upstream-9"}}',
    '{"type":"message_start","message":{"id":"1","model":"fast"}}',
  ],
  ['{"candidates":[],"modelVersion":"upstream-9-001"}', '{"candidates":[],"modelVersion":"fast"}'],
  ['{"id":"c","model" : "upstream-9","choices":[]}', '{"id":"c","model":"fast","choices":[]}'],
  // Some clients end a line at these characters, and so they stay escaped.
  [
    String.raw`{"model":"upstream-9","x":"a\u0085b\u2028c\u2029"}`,
    String.raw`{"model":"fast","x":"a\u0085b\u2028c\u2029"}`,
  ],
])("names the model as its caller does: %s", (data, expected) => {
  expect(renamed(frame(data), "fast")).toEqual({
    ...frame(expected),
    events: [{ type: "start", id: "1", model: "fast", upstreamModel: "upstream-9" }],
  });
});

it.each([
  '{"type":"content_block_delta", "delta":{"text":"1.0"},"n":1.0}',
  '{"type":"content_block_start","content_block":{"input":{"model": "upstream-9"}}}',
  '{"text":"a \\"model\\":\\"upstream-9\\" in words"}',
  '{"model":17}',
  '"model":',
])("leaves what does not name it as it is, to the letter: %s", (data) => {
  expect(renamed(frame(data), "fast")).toMatchObject({ frames: [{ event: "e", data }] });
});

it("names it so in a complete body as well", () => {
  const whole: ChatEvent = {
    type: "native",
    format: "messages",
    body: '{"model":"upstream-9","x":[1]}',
    events: [],
    unsupported,
  };
  expect(renamed(whole, "fast")).toMatchObject({ body: '{"model":"fast","x":[1]}', unsupported });
});
