/** Streams as compatible servers send them, and gateways before an upstream that sends one. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { rawUpstream, STREAM_HEAD } from "../upstreams/relay/raw-upstream.ts";

type Format = "messages" | "responses";
type Quirk = readonly [name: string, stream: string];

/** Reads the recordings of a format: the streams that are answers, and those that are errors. */
export function quirksOf(format: Format): { readonly answers: readonly Quirk[]; readonly errors: readonly Quirk[] } {
  const folder = join(import.meta.dirname, "../recordings/upstream", format, "quirks");
  const quirks = readdirSync(folder).map((file): Quirk => [
    file.slice(0, -".txt".length),
    readFileSync(join(folder, file), "utf8"),
  ]);
  const isError = ([name]: Quirk): boolean => name.startsWith("error");
  return { answers: quirks.filter((quirk) => !isError(quirk)), errors: quirks.filter(isError) };
}

/** Calls a gateway before an upstream that sends this stream. */
export async function before<T>(format: Format, stream: string, call: (gateway: Gateway) => Promise<T>): Promise<T> {
  await using upstream = await rawUpstream((socket) => socket.end(STREAM_HEAD + stream));
  const backend = relay({ format, baseUrl: upstream.url, apiKey: "sk-upstream" });
  const quotas = memoryQuotaStore([{ apiKey: "sk-test" }]);
  return await call(createGateway({ backend, quotas, onFailure: () => {} }));
}

/** Asks "Hi" for a stream. Resolves with its text. */
export async function streamed(gateway: Gateway, path: "/v1/chat/completions" | "/v1/messages"): Promise<string> {
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: { authorization: "Bearer sk-test", "content-type": "application/json", "anthropic-version": "1" },
      body: JSON.stringify({ model: "m", max_tokens: 100, stream: true, messages: [{ role: "user", content: "Hi" }] }),
    }),
  );
  return response.text();
}

/** Holds a stream of chat completions to an error, and to no answer. */
export function expectError(text: string): void {
  expect(text).toContain('"error"');
  expect(text).not.toContain("cannot be reached");
  expect(text).not.toMatch(/"finish_reason":"|\[DONE\]/);
}
