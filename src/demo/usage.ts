/** Counts the tokens of a request by modality, and the tokens of its answers. */

import type { ChatRequest, JsonPart, ModalityCount, Part, Usage } from "../index.ts";
import { countTokens, Loop } from "./words.ts";

type Modality = ModalityCount["modality"];

/** The tokens of a media part or a document by the media resolution (spec 8). */
const MEDIA_TOKENS = { low: 64, medium: 256, high: 256 };

/** The tokens of a single answer. */
export interface Spoken {
  /** All tokens of the answer, with thoughts. */
  readonly total: number;
  readonly thoughts: number;
  readonly images: number;
  readonly sounds: number;
  /** The tokens of code and its results, which the model reads during the answer. */
  readonly read: number;
}

/** Returns the input tokens of a request by modality: at least a single token. */
export async function countInput(request: ChatRequest): Promise<readonly ModalityCount[]> {
  const { system, messages, tools, mediaResolution } = request;
  const media = MEDIA_TOKENS[mediaResolution ?? "medium"];
  const counts: ModalityCount[] = [];
  const loop = new Loop();
  for (const part of [...system, ...messages.flatMap((message) => message.parts)]) {
    counts.push(...(await countPart(part, media)));
    await loop.yield();
  }
  for (const tool of tools) {
    counts.push(await ofText(JSON.stringify(tool)));
    await loop.yield();
  }
  const summed = byModality(counts);
  return summed.length > 0 ? summed : [{ modality: "text", tokens: 1 }];
}

async function countPart(part: Part | JsonPart, media: number): Promise<ModalityCount[]> {
  if (part.type === "text") return [await ofText(part.text)];
  if (part.type === "media") return [{ modality: part.kind, tokens: media }];
  if (part.type === "document") return [{ modality: "document", tokens: media }];
  if (part.type !== "tool-result") return [await ofText(JSON.stringify(part))];
  const counts: ModalityCount[] = [];
  for (const inner of part.parts) counts.push(...(await countPart(inner, media)));
  return byModality(counts);
}

const ofText = async (text: string): Promise<ModalityCount> => ({
  modality: "text",
  tokens: await countTokens(text),
});

function byModality(counts: readonly ModalityCount[]): ModalityCount[] {
  const sums = new Map<Modality, number>();
  for (const { modality, tokens } of counts) sums.set(modality, (sums.get(modality) ?? 0) + tokens);
  return [...sums].filter(([, tokens]) => tokens > 0).map(([modality, tokens]) => ({ modality, tokens }));
}

/** Returns the usage of a request with all its answers. Even an empty answer costs a token (spec 2.7). */
export function usageOf(input: readonly ModalityCount[], answers: readonly Spoken[]): Partial<Usage> {
  const sum = (count: (spoken: Spoken) => number): number => answers.reduce((all, spoken) => all + count(spoken), 0);
  const [total, thoughts, images, sounds, read] = [
    Math.max(
      1,
      sum((spoken) => spoken.total),
    ),
    sum((spoken) => spoken.thoughts),
    sum((spoken) => spoken.images),
    sum((spoken) => spoken.sounds),
    sum((spoken) => spoken.read),
  ];
  return {
    inputTokens: tokensIn(input) + read,
    outputTokens: total,
    reasoningTokens: thoughts,
    ...(read > 0 && { toolUseTokens: read }),
    details: {
      input,
      output: byModality([
        { modality: "text", tokens: total - thoughts - images - sounds },
        { modality: "image", tokens: images },
        { modality: "audio", tokens: sounds },
      ]),
      ...(read > 0 && { toolUse: [{ modality: "text", tokens: read }] }),
    },
  };
}

export const tokensIn = (counts: readonly ModalityCount[]): number =>
  counts.reduce((sum, { tokens }) => sum + tokens, 0);
