/** An upstream's answer in this format (spec 2.7, 6.1), whole or in frames, to native events that say what they mean. */

import { isValid } from "../../http/validation.predicate.ts";
import type { ChatEvent, NativeEvent } from "../../model/event.ts";
import type { JsonLimits, JsonObject } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerDecoder as Decoder } from "../codec.ts";
import { collected, parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { decodeErrorBody } from "./errors.ts";
import { DIALECT } from "./request.ts";
import { BlockDecoder } from "./response.blocks.ts";
import { decodeStopReason, decodeUsage } from "./response.ts";
import {
  Frame,
  type FrameOf,
  type FrameType,
  MessageAnswer,
  unsaidInAnswer,
  unsaidInFrame,
  type WireUsage,
} from "./schema.upstream.ts";

type Meaning = NativeEvent["means"][number];

export class AnswerDecoder implements Decoder {
  readonly #blocks: BlockDecoder;
  readonly #limits: JsonLimits | undefined;
  /** The latest of each count: a report of some of them leaves the others as they are. */
  #usage: WireUsage = {};
  readonly #unsaid: Set<string> = new Set();
  #started = false;
  #finished = false;
  #stopped = false;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
    this.#blocks = new BlockDecoder(limits);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    const wire = parseAnswerObject(data, this.#limits);
    const type = typeof wire["type"] === "string" ? wire["type"] : (event ?? "message");
    if (type === "ping") return [];
    if (type === "error") throw decodeErrorBody(wire);
    // Clients go by the event's name, which some upstreams leave out.
    return [
      {
        type: "native",
        dialect: DIALECT,
        frames: [{ event: event ?? type, data }],
        means: this.#means(type, wire, data.length),
        unsaid: () => unsaidInFrame(type)(wire, this.#unsaid),
      },
    ];
  }

  end(): void {
    if (!this.#stopped) throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    const wire = parseAnswerObject(body, this.#limits);
    if (wire["type"] === "error") throw decodeErrorBody(wire);
    if (!isValid(MessageAnswer, wire)) throw upstreamFailed("The model backend's answer has not the shape of one.");
    const means = collected(this.#whole(wire));
    return [{ type: "native", dialect: DIALECT, body, means, unsaid: () => unsaidInAnswer(wire, this.#unsaid) }];
  }

  *#whole({ content, stop_reason, stop_sequence, ...start }: MessageAnswer): Generator<Meaning> {
    yield this.#start(start);
    for (const [index, block] of content.entries()) {
      yield* this.#blocks.start(index, block);
      yield* this.#blocks.stop(index);
    }
    yield* this.#finish(stop_reason ?? "end_turn", stop_sequence);
  }

  #means(type: string, wire: JsonObject, chars: number): Meaning[] {
    if (!Object.hasOwn(Frame, type)) return [];
    const known = type as FrameType;
    if (!isValid(Frame[known], wire))
      throw upstreamFailed("The model backend sent a frame that has not the shape of one.");
    if (known !== "message_start" && !this.#started)
      throw upstreamFailed("The model backend went on with an answer that it had not begun.");
    // Of these there are many: they cost no generator.
    if (known === "content_block_delta") {
      const { index, delta } = wire as FrameOf<typeof known>;
      return this.#blocks.delta(index, delta, chars);
    }
    return collected(this.#meaning(known, wire, chars));
  }

  *#meaning(type: Exclude<FrameType, "content_block_delta">, wire: unknown, chars: number): Generator<Meaning> {
    switch (type) {
      case "message_start":
        return yield this.#start((wire as FrameOf<typeof type>).message);
      case "content_block_start": {
        const { index, content_block } = wire as FrameOf<typeof type>;
        return yield* this.#blocks.start(index, content_block, chars);
      }
      case "content_block_stop":
        return yield* this.#blocks.stop((wire as FrameOf<typeof type>).index);
      case "message_delta": {
        const { delta, usage } = wire as FrameOf<typeof type>;
        this.#learn(delta.usage);
        this.#learn(usage);
        if (delta.stop_reason != null) return yield* this.#finish(delta.stop_reason, delta.stop_sequence);
        return yield { type: "usage", usage: this.#counts };
      }
      case "message_stop":
        this.#stopped = true;
        if (!this.#finished) yield* this.#finish("end_turn", undefined);
    }
  }

  #start({ id, model, usage }: FrameOf<"message_start">["message"]): Meaning {
    this.#started = true;
    this.#learn(usage);
    return {
      type: "start",
      ...(id != null && { id }),
      ...(model != null && { model }),
      usage: this.#counts,
    };
  }

  *#finish(reason: string, stopSequence: string | null | undefined): Generator<Meaning> {
    this.#finished = true;
    yield {
      type: "finish",
      reason: decodeStopReason(reason),
      ...(stopSequence != null && { stopSequence }),
      usage: this.#counts,
    };
  }

  #learn(usage: WireUsage | null | undefined): void {
    if (usage) this.#usage = { ...this.#usage, ...withoutNulls(usage) };
  }

  get #counts(): Partial<Usage> {
    return decodeUsage(this.#usage);
  }
}

/** The counts of a report without those that are null, as few are. */
function withoutNulls(usage: WireUsage): WireUsage {
  if (Object.values(usage).every((count) => count != null)) return usage;
  return Object.fromEntries(Object.entries(usage).filter(([, count]) => count != null));
}
