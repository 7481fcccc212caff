/** An answer of the demo: thoughts, then tool calls, code or content, then annotations and the finish reason. */

import { createHash } from "node:crypto";
import type {
  Annotation,
  CallContext,
  ChatRequest,
  ContentEvent,
  FinishEvent,
  Logprob,
  ResponseFormat,
  SafetyRating,
} from "../index.ts";
import { answerByCode, planCode } from "./code.ts";
import type { Commands } from "./commands.ts";
import { painter } from "./painter.ts";
import { prefillOf, replyTo } from "./reply.ts";
import { satisfyAside } from "./satisfy-aside.ts";
import { playTones, type SoundFormat } from "./sound.ts";
import { type Ending, Speaker } from "./speaker.ts";
import { planCalls } from "./tool-calls.ts";
import type { Spoken } from "./usage.ts";
import { countWords, Loop, piecesOf } from "./words.ts";

/** The input that all candidates of an answer share. */
export interface Question {
  readonly request: ChatRequest;
  readonly commands: Commands;
  /** The texts of the last turn before the text with the commands. */
  readonly before: readonly string[];
  readonly call: CallContext;
  /** The format of audio output. */
  readonly soundFormat: SoundFormat;
}

/** Yields the answer of one candidate, counted from 0. Candidates differ. Returns the tokens of the answer. */
export async function* answer(
  question: Question,
  candidate: number,
): AsyncGenerator<ContentEvent | FinishEvent, Spoken> {
  const { request, commands, call } = question;
  const speaker = new Speaker(request, commands, call.signal);
  const signature = yield* think(question, speaker);
  const ending = yield* content(question, candidate, speaker, signature);
  // An answer too short to break in its middle breaks at its end.
  if (commands.break) throw commands.break;
  for await (const annotation of notesOn(request, speaker)) yield { type: "annotation", annotation };
  yield { type: "finish", ...ending };
  return speaker;
}

/** Yields thoughts if the request enables reasoning. Returns their signature. */
async function* think(
  { request: { reasoning }, commands }: Question,
  speaker: Speaker,
): AsyncGenerator<ContentEvent, string | undefined> {
  if (!reasoning || reasoning.type === "disabled") return undefined;
  const budget = reasoning.type === "enabled" ? reasoning.budgetTokens : Number.POSITIVE_INFINITY;
  const visible = reasoning.visible ?? true;
  const thoughts = `The user wrote ${await countWords(commands.text)} words. I will tell them back what arrived.`;
  yield* speaker.think(thoughts, budget, visible);
  const signature = createHash("sha256").update(thoughts).digest("base64");
  if (visible) yield { type: "reasoning-signature", signature };
  return signature;
}

async function* content(
  question: Question,
  candidate: number,
  speaker: Speaker,
  signature: string | undefined,
): AsyncGenerator<ContentEvent, Ending> {
  const { request, commands, call } = question;
  if (commands.repeat === undefined) {
    const calls = await planCalls(request, commands.text, candidate);
    if (calls.length > 0) return yield* speaker.call(calls, signature);
    const code = planCode(request, commands.text);
    if (code !== undefined) return yield* answerByCode(code, speaker, call);
  }
  return yield* tell(await answerText(question, candidate), question, speaker);
}

/** The most characters of a text to draw: more would not be legible. */
const MAX_DRAWN_CHARS = 32_000;

/** Yields a text in each modality of the request: written, drawn or played. */
async function* tell(
  text: string,
  { request: { modalities }, soundFormat }: Question,
  speaker: Speaker,
): AsyncGenerator<ContentEvent, Ending> {
  const tellAs = {
    text: () => speaker.say(text),
    image: async function* () {
      const { draw } = await painter();
      return yield* speaker.show(
        "images",
        "image/png",
        await draw({ prompt: text.slice(0, MAX_DRAWN_CHARS), index: 0, size: "256x256" }),
      );
    },
    audio: () => {
      const { mediaType, bytes } = playTones(text, soundFormat);
      return speaker.show("sounds", mediaType, bytes);
    },
  };
  for (const modality of modalities?.length ? modalities : (["text"] as const)) {
    const ending = yield* tellAs[modality]();
    if (ending.reason !== "stop") return ending;
  }
  return { reason: "stop" };
}

async function answerText(
  { request, commands: { repeat, text }, before }: Question,
  candidate: number,
): Promise<string> {
  if (repeat !== undefined) return Array.from({ length: repeat }, () => `word${candidate || ""}`).join(" ");
  const reply = replyTo(request, [...before, text].join("\n").trim());
  const { responseFormat } = request;
  const whole = responseFormat ? await formatted(responseFormat, text, reply, candidate) : reply;
  const prefill = prefillOf(request);
  // The answer continues after the prefill, and does not repeat the prefill.
  const rest = whole.startsWith(prefill) ? whole.slice(prefill.length) : whole;
  return candidate > 0 && !responseFormat ? `Answer ${candidate + 1}: ${rest}` : rest;
}

/** Yields the annotations that the request asks for. */
async function* notesOn(
  { safety, logprobs }: ChatRequest,
  { said, total, thoughts }: Speaker,
): AsyncGenerator<Annotation> {
  if (logprobs && said.length > 0) yield { type: "logprobs", ...(await logprobsOf(said, logprobs.top)) };
  if (safety && safety.length > 0) {
    const ratings = safety.map(({ category }): SafetyRating => ({ category, probability: "negligible" }));
    yield { type: "safety", ratings };
  }
  yield { type: "token-count", tokens: total - thoughts };
}

/** Alternatives to each token, in order of falling probability. */
const ALTERNATIVES = "the a of to and in is it you that he was for on are with as at be this".split(" ");

async function logprobsOf(said: readonly string[], most: number) {
  const loop = new Loop();
  const chosen: Logprob[] = [];
  const top: Logprob[][] = [];
  let sum = 0;
  for (const token of said) {
    const first = logprob(token, -(1 + (digest(token) % 500)) / 1000);
    sum += first.logProbability;
    chosen.push(first);
    top.push(alternatives(first, most));
    await loop.yield();
  }
  return { chosen, top, average: sum / chosen.length };
}

const alternatives = (first: Logprob, top: number): Logprob[] =>
  [first, ...ALTERNATIVES.map((token, index) => logprob(token, first.logProbability - index - 1))].slice(0, top);

const logprob = (token: string, logProbability: number): Logprob => ({
  token,
  tokenId: digest(token) % 100_000,
  logProbability,
});

const digest = (token: string): number => createHash("sha256").update(token).digest().readUInt32BE();

/** Words after the message that make candidates differ, if the schema leaves room for them. */
const ORDINALS = ["", " Second", " Third", " Fourth", " Fifth", " Sixth", " Seventh", " Eighth"];

/** Returns the answer to a message in the response format of the request. `reply` is the answer without a format. */
async function formatted(format: ResponseFormat, text: string, reply: string, candidate: number): Promise<string> {
  if (format.type === "enum") return chooseValue(format.values, text, candidate);
  if (!format.schema) return JSON.stringify({ answer: reply });
  return JSON.stringify(
    await satisfyAside(format.schema, `${text}${ORDINALS[candidate] ?? ""}`, "the response schema"),
  );
}

/** Returns the first value that the message names, or else the first value. Each further candidate gets the next value. */
async function chooseValue(values: readonly string[], text: string, candidate: number): Promise<string> {
  const { byWords, lengths } = await indexed(values);
  let first = values.length;
  // The last words of the message so far, up to the words that identify a value.
  let window: string[] = [];
  for await (const word of wordsIn(text)) {
    window = [...window.slice(1 - MAX_KEY_WORDS), word];
    for (const length of lengths)
      if (length <= window.length) first = Math.min(first, byWords.get(window.slice(-length).join(" ")) ?? first);
  }
  return values[((first < values.length ? first : 0) + candidate) % values.length] ?? "";
}

/** The number of first words that identify a value: enough to distinguish values, and few enough to compare at each word. */
const MAX_KEY_WORDS = 8;

/** Returns the index of each value by its first words, and all numbers of words to compare. */
async function indexed(
  values: readonly string[],
): Promise<{ byWords: ReadonlyMap<string, number>; lengths: ReadonlySet<number> }> {
  const byWords = new Map<string, number>();
  const lengths = new Set<number>();
  const loop = new Loop();
  for (const [index, value] of values.entries()) {
    const words: string[] = [];
    for await (const word of wordsIn(value)) if (words.push(word) === MAX_KEY_WORDS) break;
    const key = words.join(" ");
    if (words.length > 0 && !byWords.has(key)) byWords.set(key, index);
    if (words.length > 0) lengths.add(words.length);
    await loop.yield();
  }
  return { byWords, lengths };
}

/** Yields the words of a text in lower case. */
async function* wordsIn(text: string): AsyncGenerator<string> {
  const loop = new Loop();
  for (const piece of piecesOf(text)) {
    yield* piece.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    await loop.yield();
  }
}
