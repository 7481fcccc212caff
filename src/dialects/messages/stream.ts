/** The messages stream (spec 6.1): a state machine from neutral events to frames that cannot write them in a wrong order. */

import type { AnswerEvent } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import { DIALECT } from "./request.ts";
import { answerId } from "../shared/answer-id.ts";
import { fenced } from "../shared/fenced.ts";
import { showsThoughts } from "../shared/shows-thoughts.ts";
import { encodeStopReason, encodeUsage, type ContentBlock } from "./response.ts";
import { BlockWriter } from "./stream.blocks.ts";
import type { StreamFrame } from "./stream.frames.ts";

type FinishAnswer = Extract<AnswerEvent, { type: "finish" }>;

/** Writes the frames of one answer, in the spec's order whatever the order of the events. */
export class StreamEncoder {
  readonly #id: string;
  readonly #showsThoughts: boolean;
  readonly #blocks: BlockWriter = new BlockWriter();
  /** Whether an upstream of this format gives the answer. */
  #isNative = false;

  constructor({ request, requestId }: AnswerContext) {
    // Ids of the gateway's answers follow its request ids, so that one finds the other.
    this.#id = requestId.replace(/^req_/, "msg_");
    this.#showsThoughts = showsThoughts(request);
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  frames(event: AnswerEvent): StreamFrame[] {
    const blocks = this.#blocks;
    // The format has one candidate.
    if ("candidate" in event && event.candidate) return [];
    switch (event.type) {
      case "start":
        this.#isNative = event.native === DIALECT;
        return [messageStart(event, this.#id)];
      case "text-delta":
        blocks.text(event.text, event.block);
        break;
      case "reasoning-delta":
        // The seal of thoughts that are not shown is for all, to be sent back.
        if (this.#showsThoughts) blocks.thinking(event.text, event.block);
        break;
      case "reasoning-signature":
        blocks.sign(event.signature);
        break;
      case "redacted-reasoning":
        blocks.whole({ type: "redacted_thinking", data: event.data });
        break;
      case "tool-call":
        blocks.openTool(event.id, event.name);
        blocks.toolInput(event.id, JSON.stringify(event.input));
        blocks.endTool(event.id);
        break;
      case "tool-call-start":
        blocks.openTool(event.id, event.name);
        break;
      case "tool-call-delta":
        blocks.toolInput(event.id, event.json);
        break;
      case "tool-call-end":
        blocks.endTool(event.id);
        break;
      case "finish":
        blocks.endAll(event.endings[0].reason);
        return [...blocks.take(), ...closingFrames(event, this.#isNative)];
      case "code":
        blocks.text(fenced(event.code, event.language));
        break;
      case "code-result":
        blocks.text(fenced(event.output ?? "", ""));
        break;
      case "refusal-delta":
        blocks.text(event.text);
        break;
      case "native":
        return event.means.flatMap((meant) => this.frames(meant));
      case "provider":
        // A block of a type that is not known here: it is carried whole.
        if (event.dialect === DIALECT) blocks.whole(event.value as unknown as ContentBlock);
        break;
      // The format has no words for these. Its citations quote their source, which no other format's do.
      case "media":
      case "annotation":
      case "prompt-feedback":
        break;
      default:
        event satisfies never;
    }
    return blocks.take();
  }
}

const messageStart = (event: Extract<AnswerEvent, { type: "start" }>, id: string): StreamFrame => ({
  type: "message_start",
  message: {
    id: answerId(event, DIALECT, id),
    type: "message",
    role: "assistant",
    model: event.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: encodeUsage(event.usage),
  },
});

/**
 * The end of an answer.
 *
 * @param isNative Whether an upstream of this format gave it.
 */
export const closingFrames = (event: FinishAnswer, isNative: boolean): StreamFrame[] => [
  messageDelta(event, isNative),
  { type: "message_stop" },
];

function messageDelta({ endings: [{ reason, stopSequence }], usage }: FinishAnswer, isNative: boolean): StreamFrame {
  // Even an empty answer has cost a token (spec 2.7), whatever its backend says.
  const counts = encodeUsage({ ...usage, outputTokens: Math.max(1, usage.outputTokens) });
  const { input_tokens, output_tokens } = counts;
  return {
    type: "message_delta",
    delta: {
      stop_reason: encodeStopReason(reason, isNative),
      stop_sequence: stopSequence ?? null,
      usage: { input_tokens, output_tokens },
    },
    usage: counts,
  };
}
