/** The complete chat-completions answer: the chunks of the stream, collected. */

import { GatewayError } from "../../errors.ts";
import type { Chunk, Delta, TokenLogprob, UsageBody, WireCall, WireFinish } from "./answer.ts";

interface Collected {
  readonly delta: Pick<Delta, "annotations" | "images" | "audio">;
  readonly content: string[];
  readonly refusal: string[];
  readonly reasoning: string[];
  readonly calls: { readonly call: WireCall; readonly json: string[] }[];
  readonly logprobs: TokenLogprob[];
  finish: WireFinish | null;
}

/** The complete answer: the same chunks, collected, so that both forms always agree. */
export class ChunkCollector {
  readonly #choices: Map<number, Collected> = new Map();
  #last: Chunk | undefined;
  #usage: UsageBody | null = null;

  add(chunk: Chunk): void {
    this.#last = chunk;
    if (chunk.usage) this.#usage = chunk.usage;
    for (const choice of chunk.choices) {
      const collected = this.#choice(choice.index);
      collect(collected, choice.delta);
      for (const step of choice.logprobs?.content ?? []) collected.logprobs.push(step);
      collected.finish = choice.finish_reason ?? collected.finish;
    }
  }

  get body(): object {
    if (!this.#last) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    const { id, created, model, system_fingerprint, service_tier } = this.#last;
    const choices = [...this.#choices]
      .toSorted(([a], [b]) => a - b)
      .map(([index, collected]) => ({
        index,
        message: messageOf(collected),
        logprobs: collected.logprobs.length > 0 ? { content: collected.logprobs, refusal: null } : null,
        finish_reason: collected.finish,
      }));
    const tier = service_tier === undefined ? {} : { service_tier };
    return { id, object: "chat.completion", created, model, choices, usage: this.#usage, ...tier, system_fingerprint };
  }

  #choice(index: number): Collected {
    let choice = this.#choices.get(index);
    if (!choice) {
      choice = { delta: {}, content: [], refusal: [], reasoning: [], calls: [], logprobs: [], finish: null };
      this.#choices.set(index, choice);
    }
    return choice;
  }
}

function collect(collected: Collected, { content, refusal, reasoning_content, tool_calls, ...rest }: Delta): void {
  if (content) collected.content.push(content);
  if (refusal) collected.refusal.push(refusal);
  if (reasoning_content) collected.reasoning.push(reasoning_content);
  for (const { index, ...call } of tool_calls ?? []) {
    const known = collected.calls[index];
    if (known) known.json.push(call.function?.arguments ?? "");
    else collected.calls[index] = { call, json: [call.function?.arguments ?? ""] };
  }
  const { delta } = collected;
  for (const annotation of rest.annotations ?? []) (delta.annotations ??= []).push(annotation);
  for (const image of rest.images ?? []) (delta.images ??= []).push(image);
  // The pieces of a sound are put together as a stream's reader does.
  if (rest.audio) delta.audio = { ...rest.audio, data: (delta.audio?.data ?? "") + rest.audio.data };
}

function messageOf({ delta, content, refusal, reasoning, calls }: Collected): object {
  const text = content.join("");
  const saysElsewhere =
    calls.length > 0 || refusal.length > 0 || delta.audio !== undefined || delta.images !== undefined;
  return {
    role: "assistant",
    content: text === "" && saysElsewhere ? null : text,
    refusal: refusal.length > 0 ? refusal.join("") : null,
    ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
    ...(calls.length > 0 && { tool_calls: calls.map(wholeCall) }),
    ...delta,
  };
}

const wholeCall = ({ call, json }: Collected["calls"][number]): WireCall =>
  call.function ? { ...call, function: { ...call.function, arguments: json.join("") } } : call;
