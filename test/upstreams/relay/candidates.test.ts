/** An answer with several candidates ends when all of them have ended, and not with the first. */

import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { ChatCodec } from "../../../src/formats/format.ts";
import { generateContentCodec } from "../../../src/formats/generate-content/upstream.ts";
import { manualClock } from "../../../src/testing/laws/manual-clock.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";
import { rawUpstream, STREAM_HEAD } from "./raw-upstream.ts";
import { callContext, chatRequest } from "./stage.ts";

/** A piece of a candidate, in each format. */
type Write = (index: number, text: string, isLast: boolean) => object;

const FORMATS: readonly ["chat-completions" | "generate-content", ChatCodec, Write][] = [
  [
    "chat-completions",
    chatCompletionsCodec(),
    (index, content, isLast) => ({ choices: [{ index, delta: { content }, finish_reason: isLast ? "stop" : null }] }),
  ],
  [
    "generate-content",
    generateContentCodec(),
    (index, text, isLast) => ({
      candidates: [{ index, content: { role: "model", parts: [{ text }] }, ...(isLast && { finishReason: "STOP" }) }],
    }),
  ],
];

const frame = (data: object | string): string => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

describe.each(FORMATS)("an answer of two candidates by %s", (format, codec, write) => {
  it("is not cut while the second of them goes on", async () => {
    const clock = manualClock();
    const open = Promise.withResolvers<Socket>();
    await using upstream = await rawUpstream((socket) => {
      socket.write(STREAM_HEAD + frame(write(1, "slow", false)) + frame(write(0, "quick", true)));
      open.resolve(socket);
    });
    const backend = relay({ format, baseUrl: upstream.url, clock });
    const said = ["", ""];
    const heard = Promise.withResolvers<void>();
    const asking = (async () => {
      for await (const event of backend.chat?.(chatRequest({ candidateCount: 2 }), callContext()) ?? [])
        for (const meant of typeof event === "object" && event.type === "native" ? event.events : []) {
          if (meant.type === "text-delta") said[meant.candidate ?? 0] += meant.text;
          if (meant.type === "finish") heard.resolve();
        }
    })();
    await heard.promise;
    await clock.advance(60_000);
    (await open.promise).end(frame(write(1, "er", true)));
    await asking;
    expect(said).toEqual(["quick", "slower"]);
    await backend.close();
  });

  it("has broken off where only one of them has ended", () => {
    const decoder = codec.answerDecoder();
    decoder.frame(undefined, JSON.stringify(write(1, "slow", false)));
    decoder.frame(undefined, JSON.stringify(write(0, "quick", true)));
    expect(() => decoder.end()).toThrow(expect.objectContaining({ code: "backend_failed" }));
    decoder.frame(undefined, JSON.stringify(write(1, "er", true)));
    expect(() => decoder.end()).not.toThrow();
  });
});
