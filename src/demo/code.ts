/** The code that the demo writes and has run, where a request lets it and its message asks for it. */

import type { CallContext, ChatRequest, CodeResult, ContentEvent } from "../index.ts";
import type { Ending, Speaker } from "./speaker.ts";
import { countTokens } from "./words.ts";

const ASKED = /\b(?:calculate|compute|execute|python|code|run)\b/i;

/** The code that answers a message: its own, its sum, or a count of its words; undefined where it asks for none. */
export function planCode({ tools }: ChatRequest, text: string): string | undefined {
  if (!tools.some((tool) => tool.type === "code-execution")) return undefined;
  const given = between(text, /```(?:python|py)?[ \t]*\n/, "```") ?? printed(text);
  if (given !== undefined) return given;
  const sum = sumIn(text);
  if (sum !== undefined) return `print(${sum})\n`;
  return ASKED.test(text) ? `print(len(${JSON.stringify(text)}.split()))\n` : undefined;
}

/** What stands between the first match of a pattern and the next end after it. */
function between(text: string, begin: RegExp, end: string): string | undefined {
  const match = begin.exec(text);
  if (!match) return undefined;
  const start = match.index + match[0].length;
  const stop = text.indexOf(end, start);
  return stop < 0 ? undefined : text.slice(start, stop);
}

/** How long a call of `print` may be, in characters. */
const MOST_CODE = 100_000;

/** The first call of `print`, up to the bracket that closes it. */
function printed(text: string): string | undefined {
  const start = text.search(/\bprint\(/);
  let depth = 0;
  const end = Math.min(text.length, start + MOST_CODE);
  for (let at = start; at >= 0 && at < end; at++) {
    if (text[at] === "(") depth++;
    if (text[at] === ")" && --depth === 0) return text.slice(start, at + 1);
  }
  return undefined;
}

/** How far into a text a sum is looked for. */
const MAX_LENGTH = 2_000;
const SUM = /(?<![\w.])-?[\d(][\d\s.()+*/%-]*[\d)]/g;

/** The first sum in a text, such as `(2 + 3) * 4`, without a bracket that belongs to the sentence around it. */
function sumIn(text: string): string | undefined {
  for (const [found] of text.slice(0, MAX_LENGTH).matchAll(SUM)) {
    const sum = isBalanced(found) ? found : found.replaceAll(/^\(+|\)+$/g, "");
    if (/\d[\s)]*[-+*/%]/.test(sum) && isBalanced(sum) && !/\b0\d/.test(sum)) return sum;
  }
  return undefined;
}

const isBalanced = (sum: string): boolean => sum.replaceAll(/[^(]/g, "").length === sum.replaceAll(/[^)]/g, "").length;

/** Says that code is run, writes it, has it run, and says what came of it. */
export async function* answerByCode(
  code: string,
  speaker: Speaker,
  call: CallContext,
): AsyncGenerator<ContentEvent, Ending> {
  const opening = yield* speaker.say("Let me run that.");
  if (opening.reason !== "stop") return opening;
  const written = yield* speaker.write(code);
  if (written.reason !== "stop") return written;
  const result = (await call.runCode?.({ language: "python", code })) ?? NO_RUNNER;
  yield { type: "code-result", ...result };
  speaker.read += (await countTokens(code)) + (await countTokens(result.output));
  return yield* speaker.say(`${CAME_TO[result.outcome]}: ${result.output.trim() || "nothing"}.`);
}

const NO_RUNNER: CodeResult = { outcome: "failed", output: "Nothing here can run code." };

const CAME_TO = {
  ok: "The code printed",
  failed: "The code failed",
  "deadline-exceeded": "The code ran out of time",
} satisfies Record<CodeResult["outcome"], string>;
