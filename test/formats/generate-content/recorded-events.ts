/** What the backends of the recorded generate-content cases yield, in short. */

import type { Annotation, ChatEvent, FinishReason } from "../../../src/index.ts";

/** What a backend yields; an error in it is thrown. */
export type Recorded = readonly (ChatEvent | Error)[];

export const start = (id: string, inputTokens: number): ChatEvent => ({
  type: "start",
  id,
  model: "model-a-001",
  usage: { inputTokens },
});
export const text = (text: string): ChatEvent => ({ type: "text-delta", text });
export const reasoning = (text: string): ChatEvent => ({ type: "reasoning-delta", text });
export const note = (annotation: Annotation): ChatEvent => ({ type: "annotation", annotation });
export const finish = (reason: FinishReason, outputTokens: number): ChatEvent => ({
  type: "finish",
  reason,
  usage: { outputTokens },
});

export const hello = (id: string): Recorded => [
  start(id, 9),
  text("Hello"),
  text(", 世界"),
  text(" 🌍!\n"),
  finish("stop", 7),
];
