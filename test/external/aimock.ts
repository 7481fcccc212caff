/** aimock, a mock of the vendors' services, as the upstream of a relay: each caller's format before each of its formats. */

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { CALLERS, type ChatFormat, textOf } from "./callers.ts";

/** The part of aimock's server that is used here. */
interface Mock {
  readonly url: string;
  onMessage(pattern: RegExp, response: object): unknown;
  start(): Promise<unknown>;
  stop(): Promise<unknown>;
}

const TEXT = "Grüße, 世界 — the answer.";
const CALL = { name: "get_weather", arguments: '{"city":"Paris"}' };

/** Runs all pairs, complete and streamed, with a text and with a tool call. Returns the number of cases, and the problems. */
export async function runAimock(folder: string): Promise<{ cases: number; problems: string[] }> {
  const entry = pathToFileURL(resolve(folder, "node_modules/@copilotkit/aimock/dist/index.js")).href;
  const { LLMock } = (await import(entry)) as { LLMock: new (options: object) => Mock };
  const mock = new LLMock({ port: 0 });
  let cases = 0;
  const problems: string[] = [];
  try {
    for (const [index, answer] of [{ content: TEXT }, { toolCalls: [CALL] }].entries()) {
      mock.onMessage(new RegExp(`question ${index}`), answer);
    }
    await mock.start();
    const formats = Object.keys(CALLERS) as ChatFormat[];
    for (const upstream of formats)
      for (const caller of formats)
        for (const stream of [false, true])
          for (const asksTool of [false, true]) {
            cases++;
            const found = await ask(mock.url, upstream, caller, stream, asksTool);
            if (found) problems.push(`${caller} → ${upstream}, ${stream ? "streamed" : "complete"}: ${found}`);
          }
  } finally {
    await mock.stop();
  }
  return { cases, problems };
}

async function ask(
  url: string,
  upstream: ChatFormat,
  caller: ChatFormat,
  stream: boolean,
  asksTool: boolean,
): Promise<string | undefined> {
  const gateway = createGateway({
    quotas: memoryQuotaStore([{ apiKey: "sk-caller" }]),
    onFailure: () => {},
    backend: relay({ format: upstream, baseUrl: url, apiKey: "sk-upstream" }),
  });
  const { path, request } = CALLERS[caller](stream, asksTool ? "question 1" : "question 0", CALL.name);
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        authorization: "Bearer sk-caller",
      },
      body: JSON.stringify(request),
    }),
  );
  const body = await response.text();
  if (response.status !== 200) return `status ${response.status} ${body}`;
  if (!asksTool) return textOf(caller, body, stream) === TEXT ? undefined : `the text became ${body}`;
  // The pieces of the arguments differ by format; their names and values arrive in each.
  return [CALL.name, "city", "Paris"].every((word) => body.includes(word)) ? undefined : `the tool call became ${body}`;
}
