/** Answers by code: the demo writes code and has it run, if the request allows code and the message asks for it. */

import type { CallContext, ChatRequest, CodeResult, ContentEvent } from "../index.ts";
import type { Ending, Speaker } from "./speaker.ts";
import { countTokens } from "./words.ts";

const CODE_WORDS = /\b(?:calculate|compute|execute|python|code|run)\b/i;

/**
 * Returns the code that answers a message: the code in the message, a sum in it, or a count of its words. Returns undefined if
 * the message asks for no code.
 */
export function planCode({ tools }: ChatRequest, text: string): string | undefined {
  if (!tools.some((tool) => tool.type === "code-execution")) return undefined;
  const given = textBetween(text, /```(?:python|py)?[ \t]*\n/, "```") ?? firstPrintCall(text);
  if (given !== undefined) return given;
  const sum = firstSum(text);
  if (sum !== undefined) return `print(${sum})\n`;
  return CODE_WORDS.test(text) ? `print(len(${JSON.stringify(text)}.split()))\n` : undefined;
}

/** Returns the text between the first match of a pattern and the next `end`. */
function textBetween(text: string, begin: RegExp, end: string): string | undefined {
  const match = begin.exec(text);
  if (!match) return undefined;
  const start = match.index + match[0].length;
  const stop = text.indexOf(end, start);
  return stop < 0 ? undefined : text.slice(start, stop);
}

const MAX_PRINT_CHARS = 100_000;

/** Returns the first call of `print`, up to its closing bracket. */
function firstPrintCall(text: string): string | undefined {
  const start = text.search(/\bprint\(/);
  let depth = 0;
  const end = Math.min(text.length, start + MAX_PRINT_CHARS);
  for (let at = start; at >= 0 && at < end; at++) {
    if (text[at] === "(") depth++;
    if (text[at] === ")" && --depth === 0) return text.slice(start, at + 1);
  }
  return undefined;
}

/** The first characters of a text that may contain a sum. */
const MAX_SEARCHED_CHARS = 2_000;
const SUM = /(?<![\w.])-?[\d(][\d\s.()+*/%-]*[\d)]/g;

/** Returns the first sum in a text, such as `(2 + 3) * 4`, without the brackets of the sentence around the sum. */
function firstSum(text: string): string | undefined {
  for (const [found] of text.slice(0, MAX_SEARCHED_CHARS).matchAll(SUM)) {
    const sum = isBalanced(found) ? found : found.replaceAll(/^\(+|\)+$/g, "");
    if (/\d[\s)]*[-+*/%]/.test(sum) && isBalanced(sum) && !/\b0\d/.test(sum)) return sum;
  }
  return undefined;
}

const isBalanced = (sum: string): boolean => sum.replaceAll(/[^(]/g, "").length === sum.replaceAll(/[^)]/g, "").length;

/** Announces the code, writes it, runs it, and reports the outcome. */
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
  const output = result.output.trim() || "nothing";
  return yield* speaker.say(`${OUTCOME_TEXT[result.outcome]}: ${output}${/[.!?]$/.test(output) ? "" : "."}`);
}

const NO_RUNNER: CodeResult = {
  outcome: "failed",
  output: "Python is not installed. Run npm install pyodide, and restart.",
};

const OUTCOME_TEXT = {
  ok: "The code printed",
  failed: "The code failed",
  "deadline-exceeded": "The code ran out of time",
} satisfies Record<CodeResult["outcome"], string>;
