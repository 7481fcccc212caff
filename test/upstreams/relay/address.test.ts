/** The base addresses that hosts write, in the spellings of the providers' documents, and the address of the request that follows. */

import { describe, expect, it } from "vitest";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { callContext, chatRequest } from "./stage.ts";

const PICTURE = {
  model: "large",
  prompt: "A cat.",
  count: 1,
  operation: "generate",
  stream: false,
  delivery: "inline",
  files: [],
} as const;

/** Returns the address that a relay asks for its first request. */
async function asked(format: RelayFormat, baseUrl: string): Promise<string> {
  const urls: string[] = [];
  const fetch = (url: string): Promise<Response> => {
    urls.push(url);
    return Promise.resolve(Response.json({}, { status: 500 }));
  };
  const backend = relay({ format, baseUrl, fetch });
  const answer =
    backend.chat?.(chatRequest({ model: "large", stream: false }), callContext()) ??
    backend.image?.(PICTURE as never, callContext());
  await expect(answer?.[Symbol.asyncIterator]().next()).rejects.toThrow("The model backend failed.");
  return urls.join();
}

const GENERATE = "/models/large:generateContent";

const DOCUMENTED: readonly [format: RelayFormat, baseUrl: string, asked: string][] = [
  // The version is added where the official clients of the format add it.
  ["messages", "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"],
  ["messages", "https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"],
  ["messages", "https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"],
  ["messages", "https://api.moonshot.ai/anthropic/", "https://api.moonshot.ai/anthropic/v1/messages"],
  ["messages", "https://api.z.ai/api/anthropic", "https://api.z.ai/api/anthropic/v1/messages"],
  ["messages", "https://api.minimax.io/anthropic", "https://api.minimax.io/anthropic/v1/messages"],
  ["messages", "https://openrouter.ai/api", "https://openrouter.ai/api/v1/messages"],
  ["messages", "https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/messages"],
  ["messages", "https://me.services.ai.azure.com/anthropic", "https://me.services.ai.azure.com/anthropic/v1/messages"],
  [
    "messages",
    "https://gateway.ai.cloudflare.com/v1/account/gateway/anthropic",
    "https://gateway.ai.cloudflare.com/v1/account/gateway/anthropic/v1/messages",
  ],
  ["messages", "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/messages"],
  [
    "generate-content",
    "https://generativelanguage.googleapis.com",
    `https://generativelanguage.googleapis.com/v1beta${GENERATE}`,
  ],
  [
    "generate-content",
    "https://generativelanguage.googleapis.com/v1alpha",
    `https://generativelanguage.googleapis.com/v1alpha${GENERATE}`,
  ],
  [
    "generate-content",
    "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
    `https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google${GENERATE}`,
  ],
  [
    "generate-content",
    "https://gateway.ai.cloudflare.com/v1/account/gateway/google-ai-studio",
    `https://gateway.ai.cloudflare.com/v1/account/gateway/google-ai-studio/v1beta${GENERATE}`,
  ],
  ["generate-content", "http://127.0.0.1:4000/gemini", `http://127.0.0.1:4000/gemini/v1beta${GENERATE}`],
  // Addresses for the official clients of chat completions are complete.
  ["chat-completions", "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"],
  ["chat-completions", "https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"],
  ["chat-completions", "https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1/chat/completions"],
  ["chat-completions", "https://api.deepseek.com", "https://api.deepseek.com/v1/chat/completions"],
  ["chat-completions", "https://api.mistral.ai/v1", "https://api.mistral.ai/v1/chat/completions"],
  ["chat-completions", "https://api.moonshot.ai/v1", "https://api.moonshot.ai/v1/chat/completions"],
  ["chat-completions", "https://api.z.ai/api/paas/v4/", "https://api.z.ai/api/paas/v4/chat/completions"],
  ["chat-completions", "http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"],
  ["chat-completions", "http://localhost:8000", "http://localhost:8000/v1/chat/completions"],
  [
    "chat-completions",
    "https://generativelanguage.googleapis.com/v1beta/openai/",
    "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
  ],
  [
    "chat-completions",
    "https://me.openai.azure.com/openai/v1/",
    "https://me.openai.azure.com/openai/v1/chat/completions",
  ],
  [
    "chat-completions",
    "https://me.services.ai.azure.com/models",
    "https://me.services.ai.azure.com/models/chat/completions",
  ],
  ["chat-completions", "https://models.github.ai/inference", "https://models.github.ai/inference/chat/completions"],
  ["chat-completions", "https://host.test/api/openai", "https://host.test/api/openai/chat/completions"],
  ["images", "https://api.openai.com", "https://api.openai.com/v1/images/generations"],
  ["images", "https://host.test/api/openai", "https://host.test/api/openai/images/generations"],
];

describe("a documented address", () => {
  it.each(DOCUMENTED)("of %s, %s, leads to %s", async (format, baseUrl, expected) => {
    expect(await asked(format, baseUrl)).toBe(expected);
  });
});

const ROUTES: Readonly<Record<RelayFormat, readonly [version: string, routes: readonly string[]]>> = {
  messages: ["/v1", ["/messages", "/messages/count_tokens"]],
  "generate-content": [
    "/v1beta",
    ["/models", "/models/small:generateContent", "/models/small:embedContent", "/tunedModels/a/b:countTokens"],
  ],
  "chat-completions": ["/v1", ["/chat/completions", "/embeddings"]],
  responses: ["/v1", ["/responses"]],
  images: ["/v1", ["/images/generations", "/images/edits"]],
};

describe.each(Object.entries(ROUTES) as [RelayFormat, (typeof ROUTES)[RelayFormat]][])(
  "an address of %s",
  (format, [version, routes]) => {
    const origin = "https://host.test";

    it("may have slashes too many, and lack its version", async () => {
      const expected = await asked(format, origin + version);
      for (const path of ["", "/", "//", `${version}/`, `${version}//`, `/${version}`, `/.${version}`])
        expect(await asked(format, origin + path)).toBe(expected);
    });

    it("may be the address of a route, and then has the version that is written", async () => {
      for (const route of routes)
        for (const above of [version, `/deep//${version}/`, "/v9", "/deep", ""]) {
          const base = above.replaceAll(/\/+/g, "/").replace(/\/$/, "");
          const expected = (await asked(format, `${origin}/v1`)).replace("/v1", base);
          expect(await asked(format, origin + above + route)).toBe(expected);
          expect(await asked(format, `${origin}${above}${route}/`)).toBe(expected);
        }
    });

    it("is refused at once where it goes on behind the version with a route that no relay asks", () => {
      for (const [path, named] of [
        ["/v1/completions", "/completions"],
        ["/v1/chat/", "/chat"],
        ["/openai/v1/audio/speech", "/audio"],
        ["/v1/messages/batches", "/messages"],
        ...(format === "generate-content" ? [] : [["/secret-word/v1beta/models/secret-model", "/models"]]),
      ])
        expect(() => relay({ format, baseUrl: origin + path })).toThrow(
          new TypeError(
            `relay: baseUrl goes on behind its version with ${named}. It must end with the version, such as https://api.example.com${version}: the relay adds its routes.`,
          ),
        );
    });

    it.each(Object.keys(ROUTES).filter((other) => other !== format) as RelayFormat[])(
      "is refused at once where it is the address of a route of %s",
      (other) => {
        const open = (): unknown => relay({ format, baseUrl: `${origin}/secret-word${ROUTES[other][1].at(-1)}` });
        const message = `relay: baseUrl is the address of a route of ${other}, but the format is ${format}. It must be the address above the routes of ${format}, such as https://api.example.com${version}.`;
        expect(open).toThrow(new TypeError(message));
      },
    );
  },
);
