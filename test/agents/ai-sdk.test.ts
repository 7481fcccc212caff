/** The loops of the official clients through backends of the AI SDK, whose providers call the strict upstreams. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect, it } from "vitest";
import { aiSdk } from "../../src/upstreams/ai-sdk/index.ts";
import type { AiSdkChatModel } from "../../src/upstreams/ai-sdk/options.ts";
import { CALL_LOOPS, KEEPS_ELSEWHERE } from "./clients.ts";
import { ENDS, TURNS } from "./script.ts";
import { asksToThink, MAKERS, type MakerName, serveGateway } from "./stage.ts";
import { serveUpstream, strictUpstream, UPSTREAM_KEY } from "./strict.ts";

const connection = (baseURL: string) => ({ baseURL, apiKey: UPSTREAM_KEY });

const PROVIDERS: readonly [maker: MakerName, model: (id: string, baseUrl: string) => AiSdkChatModel][] = [
  ["messages", (id, url) => createAnthropic(connection(url))(id)],
  ["messages-by-effort", (id, url) => createAnthropic(connection(url))(id)],
  ["generate-content", (id, url) => createGoogle(connection(url))(id)],
  ["openai", (id, url) => createOpenAI(connection(url)).chat(id)],
];

/** A backend of the AI SDK remembers nothing, so that a client must send its history back. */
const LOOPS = [...CALL_LOOPS].filter(([name]) => !name.includes("forgetful") && !KEEPS_ELSEWHERE.test(name));

describe.each(PROVIDERS)("before %s", (name, model) => {
  it.each(LOOPS)("%s", async (_name, { caller, run }) => {
    const { format, model: id } = MAKERS[name];
    const upstream = strictUpstream(format(), name);
    await using served = await serveUpstream(upstream);
    const backend = aiSdk({ chat: { [name]: model(id, served.url + upstream.version) }, showUpstreamMessages: true });
    await using gateway = await serveGateway(backend);
    const asks = caller === "chat-completions" ? "effort" : "budget";
    const ends = await run({ url: gateway.url, model: () => name, asks }).catch(String);
    expect(upstream.violations).toEqual([]);
    expect(ends).toEqual(ENDS);
    expect(upstream.requests).toHaveLength(TURNS.length);
    expect(upstream.requests.every(asksToThink)).toBe(true);
  });
});
