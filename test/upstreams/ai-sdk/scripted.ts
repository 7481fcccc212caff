/** Upstreams that answer each turn of a loop with reasoning and calls, sign these, and record every signature that comes back. */

import { createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import type { ChatEvent } from "../../../src/model/chat-event.ts";
import type { Sent } from "./stage.ts";

export interface ScriptedUpstream {
  readonly fetch: typeof fetch;
  readonly sent: readonly Sent[];
  /** All signatures and encrypted reasoning so far, in order. */
  readonly issued: readonly string[];
  /** Returns the number of signatures that were issued before a turn, from 0. */
  sealsBefore(turn: number): number;
  /** Returns the signatures and the encrypted reasoning of the last request, in order. Leaves out Google's word for a missing one. */
  sealsSent(): string[];
}

const SEAL =
  /"(?:signature|thoughtSignature|encrypted_content)":"([^"]*)"|"type":"redacted_thinking","data":"([^"]*)"/g;

/** Records the requests and the signatures of one upstream. */
class Record {
  readonly sent: Sent[] = [];
  readonly issued: string[] = [];
  readonly #before: number[] = [];

  begin(sent: Sent): Sent {
    this.sent.push(sent);
    this.#before.push(this.issued.length);
    return sent;
  }

  issue(name: string): string {
    const seal = Buffer.from(`${name} ${this.issued.length}`).toString("base64");
    this.issued.push(seal);
    return seal;
  }

  sealsBefore(turn: number): number {
    return this.#before[turn] ?? Number.NaN;
  }

  sealsSent(): string[] {
    const seals = JSON.stringify(this.sent.at(-1)?.body).matchAll(SEAL);
    return Array.from(seals, ([, seal, data]) => seal ?? data ?? "").filter((seal) => !seal.startsWith("skip_"));
  }
}

const sentBy = (url: string | URL | Request, init: RequestInit | undefined): Sent => ({
  url: url instanceof Request ? url.url : url.toString(),
  body: JSON.parse(init?.body as string) as Sent["body"],
});

/** Makes an upstream of a format that the gateway itself serves. Each fifth answer has no call. */
export function scriptedUpstream(format: "messages" | "generate-content"): ScriptedUpstream {
  const record = new Record();
  const seal = () => ({ signature: record.issue(format), maker: format });
  const chat: ModelBackend["chat"] = async function* (): AsyncGenerator<ChatEvent> {
    const turn = record.sent.length;
    const [first, second] = [`toolu_${format}_${turn}_a`, `toolu_${format}_${turn}_b`];
    const isLast = turn % 5 === 0;
    yield { type: "reasoning-delta", text: `Turn ${turn}` };
    if (format === "messages") {
      yield { type: "reasoning-signature", ...seal() };
      if (turn % 2 === 0) yield { type: "redacted-reasoning", data: record.issue(format), maker: format };
    }
    if (isLast) yield { type: "text-delta", text: "Done", ...(format === "generate-content" && seal()) };
    else {
      const call = { type: "tool-call", name: "look", input: { at: turn } } as const;
      yield { ...call, id: first, ...(format === "generate-content" && seal()) };
      yield { ...call, id: second };
    }
    yield { type: "finish", reason: isLast ? "stop" : "tool-calls", usage: { inputTokens: 1, outputTokens: 1 } };
  };
  const gateway = createGateway({
    backend: { chat },
    quotas: memoryQuotaStore([{ apiKey: "k" }]),
    onFailure: () => {},
  });
  return Object.assign(record, {
    fetch: (async (url, init) => {
      record.begin(sentBy(url, init));
      return gateway.fetch(new Request(url instanceof Request ? url.url : url, init));
    }) satisfies typeof fetch,
  });
}

/** Makes an upstream of OpenAI's responses. Each item of reasoning is encrypted, and each second has no summary. */
export function responsesUpstream(): ScriptedUpstream {
  const record = new Record();
  return Object.assign(record, {
    fetch: (async (url, init) => {
      const { body } = record.begin(sentBy(url, init));
      const turn = record.sent.length;
      const summary = turn % 2 === 0 ? [] : [{ type: "summary_text", text: `Turn ${turn}` }];
      const reasoning = { type: "reasoning", id: `rs_${turn}`, summary, encrypted_content: record.issue("responses") };
      const call = {
        type: "function_call",
        id: `fc_${turn}`,
        call_id: `call_responses_${turn}`,
        name: "look",
        arguments: `{"at":${turn}}`,
        status: "completed",
      };
      const usage = {
        input_tokens: 1,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 1,
        output_tokens_details: { reasoning_tokens: 0 },
      };
      const response = { id: `resp_${turn}`, created_at: 0, model: "gpt-5", output: [reasoning, call], usage };
      if (body["stream"] !== true) return Response.json(response);
      const text = summary.map((part) => part.text).join("");
      const at = { item_id: reasoning.id, output_index: 0, summary_index: 0 };
      const frames = [
        { type: "response.created", response: { ...response, output: [] } },
        { type: "response.output_item.added", output_index: 0, item: { ...reasoning, summary: [] } },
        ...(text === ""
          ? []
          : [
              { type: "response.reasoning_summary_part.added", ...at, part: { type: "summary_text", text: "" } },
              { type: "response.reasoning_summary_text.delta", ...at, delta: text },
              { type: "response.reasoning_summary_part.done", ...at, part: { type: "summary_text", text } },
            ]),
        { type: "response.output_item.done", output_index: 0, item: reasoning },
        { type: "response.output_item.added", output_index: 1, item: { ...call, arguments: "" } },
        {
          type: "response.function_call_arguments.delta",
          item_id: call.id,
          output_index: 1,
          delta: call.arguments,
        },
        { type: "response.output_item.done", output_index: 1, item: call },
        { type: "response.completed", response },
      ];
      const sse = frames.map((frame) => `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`).join("");
      return new Response(sse, { headers: { "content-type": "text/event-stream" } });
    }) satisfies typeof fetch,
  });
}
