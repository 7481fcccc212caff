/** The chat-completions stream: a state machine from neutral events to chunks that cannot write them in a wrong order. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent, ContentEvent, Ending } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import { answerId } from "../shared/answer-id.ts";
import { fenced } from "../shared/fenced.ts";
import {
  type Chunk,
  type ChunkChoice,
  type Delta,
  encodeLogprobs,
  encodeSources,
  encodeUsage,
  FINISH_REASON,
  isCutShort,
  type WireFinish,
} from "./answer.ts";
import { dataUrl, DIALECT } from "./schema.base.ts";
import { CallWriter } from "./stream.calls.ts";

type Finish = Extract<AnswerEvent, { type: "finish" }>;

/** How long a sound of an answer is said to be there, in seconds: as long as a picture (spec 3). */
const AUDIO_LIFETIME_S = 3_600;

export interface Answering extends AnswerContext {
  /** Unix time in seconds. */
  readonly created: number;
}

/** Makes the chunks of one answer, in the format's order whatever the order of the events. */
export class StreamEncoder {
  readonly #created: number;
  readonly #choices: Map<number, ChoiceWriter> = new Map();
  readonly #tellsUsage: boolean;
  #id: string;
  #model: string;
  #tier: string | undefined;
  #finished = false;

  /** @param tellsUsage Whether the counts come in a chunk of their own at the end, and each chunk before it has room for them. */
  constructor({ request, requestId, created }: Answering, tellsUsage: boolean) {
    this.#created = created;
    this.#tellsUsage = tellsUsage;
    this.#model = request.model;
    // Ids of the gateway's answers follow its request ids, so that one finds the other.
    this.#id = requestId.replace(/^req_/, "chatcmpl-");
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  chunks(event: AnswerEvent): Chunk[] {
    if (this.#finished) throw new GatewayError("backend_failed", "The model backend went on after its answer's end.");
    switch (event.type) {
      case "start":
        this.#id = answerId(event, DIALECT, this.#id);
        this.#model = event.model;
        this.#tier = event.usage.serviceTier;
        return [];
      case "native":
        return event.means.flatMap((meant) => this.chunks(meant));
      // The finish says that something was found.
      case "prompt-feedback":
        return [];
      case "finish":
        return this.#finish(event);
      default:
        return this.#wrap(this.#choice(event.candidate ?? 0).write(event));
    }
  }

  #finish({ endings, usage }: Finish): Chunk[] {
    this.#finished = true;
    this.#tier = usage.serviceTier ?? this.#tier;
    const ends = endings.flatMap((ending) => this.#wrap(this.#choice(ending.candidate).end(ending)));
    if (!this.#tellsUsage) return ends;
    return [...ends, { ...this.#chunk([]), usage: encodeUsage(usage) }];
  }

  #choice(index: number): ChoiceWriter {
    let choice = this.#choices.get(index);
    if (!choice) {
      choice = new ChoiceWriter(index, this.#id, this.#created + AUDIO_LIFETIME_S);
      this.#choices.set(index, choice);
    }
    return choice;
  }

  #wrap(choices: readonly ChunkChoice[]): Chunk[] {
    return choices.map((choice) => this.#chunk([choice]));
  }

  #chunk(choices: ChunkChoice[]): Chunk {
    return {
      id: this.#id,
      object: "chat.completion.chunk",
      created: this.#created,
      model: this.#model,
      ...(this.#tier !== undefined && { service_tier: this.#tier }),
      system_fingerprint: null,
      choices,
      ...(this.#tellsUsage && { usage: null }),
    };
  }
}

/** Writes one choice: who speaks, what is said, how it ended. */
class ChoiceWriter {
  readonly #index: number;
  readonly #audioId: string;
  readonly #audioExpiresAt: number;
  readonly #calls: CallWriter = new CallWriter();
  #begun = false;
  #images = 0;

  constructor(index: number, id: string, audioExpiresAt: number) {
    this.#index = index;
    this.#audioId = id.replace(/^chatcmpl-/, "audio_");
    this.#audioExpiresAt = audioExpiresAt;
  }

  write(event: ContentEvent): ChunkChoice[] {
    if (event.type === "annotation" && event.annotation.type === "logprobs") {
      const content = encodeLogprobs(event.annotation);
      return content.length > 0 ? this.#choices([{ delta: {}, logprobs: { content, refusal: null } }]) : [];
    }
    return this.#choices(this.#deltas(event).map((delta) => ({ delta })));
  }

  end({ reason }: Ending): ChunkChoice[] {
    this.#calls.endAll(isCutShort(reason));
    const calls = this.#callDeltas().map((delta) => ({ delta }));
    return this.#choices([...calls, { delta: {}, finish_reason: FINISH_REASON[reason] }]);
  }

  #deltas(event: ContentEvent): Delta[] {
    const calls = this.#calls;
    switch (event.type) {
      case "text-delta":
        return textDelta(event.text);
      case "reasoning-delta":
        return event.text === "" ? [] : [{ reasoning_content: event.text }];
      case "refusal-delta":
        return event.text === "" ? [] : [{ refusal: event.text }];
      case "code":
        return textDelta(fenced(event.code, event.language));
      case "code-result":
        return textDelta(fenced(event.output ?? "", ""));
      case "tool-call":
        calls.begin(event.id, event.name);
        calls.add(event.id, JSON.stringify(event.input));
        calls.end(event.id);
        return this.#callDeltas();
      case "tool-call-start":
        calls.begin(event.id, event.name);
        return this.#callDeltas();
      case "tool-call-delta":
        calls.add(event.id, event.json);
        return this.#callDeltas();
      case "tool-call-end":
        calls.end(event.id);
        return this.#callDeltas();
      case "media":
        return this.#media(event);
      case "provider":
        return this.#own(event);
      case "annotation": {
        const annotations = encodeSources(event.annotation);
        return annotations.length > 0 ? [{ annotations }] : [];
      }
      // The format has no words for what seals reasoning.
      case "reasoning-signature":
      case "redacted-reasoning":
        return [];
      default:
        return event satisfies never;
    }
  }

  /** A call of a tool that only this format knows; another provider's own is left out. */
  #own({ dialect, value }: Extract<ContentEvent, { type: "provider" }>): Delta[] {
    const { id, type } = value;
    if (dialect !== DIALECT || type !== "custom" || typeof id !== "string") return [];
    this.#calls.whole(id, value);
    return this.#callDeltas();
  }

  #media({ mediaType, data, thought }: Extract<ContentEvent, { type: "media" }>): Delta[] {
    if (thought) return [];
    if (mediaType.startsWith("audio/"))
      return [{ audio: { id: this.#audioId, data, transcript: "", expires_at: this.#audioExpiresAt } }];
    const image = { type: "image_url", index: this.#images++, image_url: { url: dataUrl(mediaType, data) } } as const;
    return [{ images: [image] }];
  }

  #callDeltas(): Delta[] {
    return this.#calls.take().map((call) => ({ tool_calls: [call] }));
  }

  /** The first says who speaks: with a text that is still empty, or with none where a call comes first. */
  #choices(
    pieces: readonly { delta: Delta; logprobs?: ChunkChoice["logprobs"]; finish_reason?: WireFinish }[],
  ): ChunkChoice[] {
    const [first] = pieces;
    if (!first) return [];
    const content = "tool_calls" in first.delta ? null : "";
    const opening = this.#begun ? [] : [{ delta: { role: "assistant", content, refusal: null } as const }];
    this.#begun = true;
    const index = this.#index;
    return [...opening, ...pieces].map(({ delta, ...piece }) => ({
      index,
      delta,
      logprobs: null,
      finish_reason: null,
      ...piece,
    }));
  }
}

const textDelta = (content: string): Delta[] => (content === "" ? [] : [{ content }]);

/** One frame of the stream. Line breaks of Unicode, which JSON leaves alone, end a line for some clients. */
export const frameText = (value: object): string =>
  `data: ${JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029")}\n\n`;

export const DONE = "[DONE]";

/** A comment, which every reader of this format skips. */
export const KEEP_ALIVE = ": keep-alive\n\n";
