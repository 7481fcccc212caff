/** Counts what a call uses while its events pass, by the backend's word where it gave one, by estimate where it did not. */

import { GatewayError } from "../errors.ts";
import type { ChatEvent, FinishEvent, FinishReason } from "../model/event.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { CountTokens } from "./estimate.ts";

export class Meter {
  readonly #inputEstimate: number;
  readonly #countTokens: CountTokens;
  #outputEstimate = 0;
  #known: Partial<Usage> = {};
  #touched = false;
  #calledTools = false;
  #finish: FinishEvent | undefined;
  #complete = false;

  constructor(inputEstimate: number, countTokens: CountTokens) {
    this.#inputEstimate = inputEstimate;
    this.#countTokens = countTokens;
  }

  observe(event: ChatEvent): void {
    switch (event.type) {
      case "start":
      case "usage":
        if (event.usage) this.#learn(event.usage);
        return;
      case "finish":
        // The first reason counts; counts that come later still replace earlier ones.
        this.#finish ??= event;
        if (event.usage) this.#learn(event.usage);
        return;
      case "text-delta":
      case "reasoning-delta":
        return this.#count(event.text);
      case "tool-call":
        this.#calledTools = true;
        this.#count(event.name);
        return this.#count(JSON.stringify(event.input));
      case "tool-call-start":
        this.#calledTools = true;
        return this.#count(event.name);
      case "tool-call-delta":
        return this.#count(event.json);
      case "redacted-reasoning":
        return this.#count(event.data);
      case "reasoning-signature":
      case "tool-call-end":
        return;
    }
  }

  /** The backend is done: what it has counted is final. */
  complete(): void {
    this.#complete = true;
  }

  /** Why the answer ended. An answer that calls tools ends for them, even where its backend said `stop`. */
  get reason(): FinishReason {
    const reason = this.#finish?.reason ?? "stop";
    return reason === "stop" && this.#calledTools ? "tool-calls" : reason;
  }

  get stopSequence(): string | undefined {
    return this.reason === "stop-sequence" ? this.#finish?.stopSequence : undefined;
  }

  /** Known counts, completed by estimates. */
  get usage(): Usage {
    const estimated = Math.ceil(this.#outputEstimate);
    const known = this.#known.outputTokens;
    return {
      inputTokens: this.#known.inputTokens ?? this.#inputEstimate,
      // Before the end, a count may be older than the text; after it, even an empty answer has cost a token (spec 2.7).
      outputTokens: this.#complete ? (known ?? Math.max(1, estimated)) : Math.max(known ?? 0, estimated),
      cacheReadTokens: this.#known.cacheReadTokens ?? 0,
      cacheWriteTokens: this.#known.cacheWriteTokens ?? 0,
      reasoningTokens: this.#known.reasoningTokens ?? 0,
    };
  }

  /** What to charge: undefined where the backend has done nothing yet, which costs nothing. */
  get charged(): Usage | undefined {
    return this.#touched || this.#complete ? this.usage : undefined;
  }

  get certainty(): Certainty {
    const counted = this.#known.inputTokens !== undefined && this.#known.outputTokens !== undefined;
    return (this.#complete && counted) || !this.charged ? "exact" : "estimated";
  }

  #learn(usage: Partial<Usage>): void {
    for (const [name, count] of Object.entries(usage))
      if (!Number.isSafeInteger(count) || count < 0)
        throw new GatewayError("backend_failed", `The model backend reported a usage that is no count: ${name}.`);
    this.#touched = true;
    this.#known = { ...this.#known, ...usage };
  }

  #count(text: string): void {
    this.#touched = true;
    this.#outputEstimate += this.#countTokens(text);
  }
}
