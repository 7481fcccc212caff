/** The frames of a messages stream (spec 6.1), and their text. */

import type { ContentBlock, MessagesResponse, MessagesUsage, StopReason } from "./response.ts";

export type StreamFrame =
  | { type: "message_start"; message: MessagesResponse }
  | { type: "content_block_start"; index: number; content_block: ContentBlock }
  | { type: "content_block_delta"; index: number; delta: BlockDelta }
  | { type: "content_block_stop"; index: number }
  | {
      type: "message_delta";
      // The spec has the usage inside of delta, the official service beside it: clients of both are served.
      delta: {
        stop_reason: StopReason;
        stop_sequence: string | null;
        usage: Pick<MessagesUsage, "input_tokens" | "output_tokens">;
      };
      usage: MessagesUsage;
    }
  | { type: "message_stop" };

export type BlockDelta =
  | { type: "text_delta"; text: string }
  | { type: "thinking_delta"; thinking: string }
  | { type: "signature_delta"; signature: string }
  | { type: "input_json_delta"; partial_json: string };

/** A frame as it goes over the wire. JSON escapes line breaks, so the data is one line. */
export const frameText = (frame: { readonly type: string }): string =>
  `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`;

export const PING: string = frameText({ type: "ping" });
