/** polygate/redactor: a hook that replaces names, numbers and keys before a provider reads them, and restores them in the answer. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { withDuring } from "../hooks/index.ts";
import type { Part } from "../model/chat-request.ts";
import { assertOptions } from "../options.ts";
import type { Hook, HookCall, HookEvent, HookRequest } from "../ports/hook.ts";
import { RestoredAnswer } from "./answer.ts";
import {
  finderOf,
  type Matches,
  matchesIn,
  type RedactorFind,
  type RedactorPatterns,
  type RedactorValue,
  type Replacements,
  replacementsOf,
} from "./find.ts";
import { mapRequest, nativeTexts, withoutNative } from "./request.ts";
import { codePoints, Offsets } from "./restore.ts";

export type { RedactorFind, RedactorMatch, RedactorPatterns, RedactorValue } from "./find.ts";

/** The options of `redactor`. */
export interface RedactorOptions {
  /**
   * The values to replace: an expression or a list of words for each kind, or a function that finds them in a text. The function may ask a
   * service; it is called once for each different text of a request, and again for a text without its escapes of JSON.
   */
  readonly find: RedactorPatterns | RedactorFind;
  /**
   * Returns the replacement of a value, of 1 to 256 characters: another for each value and each number, unless nothing is restored. The same
   * value of a request has one replacement. Default: `[EMAIL_1]`, from the kind and the number.
   */
  readonly replace?: (found: RedactorValue) => string;
  /**
   * True to restore values in the answer, or a function that returns the text for the caller, such as a masked number. Default: true, with the
   * value itself.
   */
  readonly restore?: boolean | ((value: string, found: RedactorValue & { readonly replacement: string }) => string);
  /**
   * True to restore values in the reasoning, too. Reasoning in which something was restored loses its signature, and its maker may refuse the
   * next turn without it: set it only for models that sign no reasoning. Default: false.
   */
  readonly reasoning?: boolean;
  /** The longest time for a request, in milliseconds, from 1 up. Default: 5,000. */
  readonly timeoutMs?: number;
}

/**
 * Returns a hook that replaces values in all texts of a request, and restores them in the texts and tool calls of its answer. A request is
 * refused with 503 when its values cannot be found in time.
 *
 * Throws a TypeError for an option that is wrong.
 *
 * @example
 * const hooks = [redactor({ find: { email: /[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+/, name: ["Ada Lovelace"] } })];
 */
export function redactor(options: RedactorOptions): Hook {
  const name = "redactor";
  assertOptions<RedactorOptions>(name, options, {
    find: "any",
    replace: "function?",
    restore: "any?",
    reasoning: "boolean?",
    timeoutMs: "timerMs?",
  });
  const { find, replace = placeholderOf, restore = true, reasoning = false, timeoutMs } = options;
  if (typeof restore !== "boolean" && typeof restore !== "function")
    throw new TypeError(`${name}: restore must be true, false or a function.`);
  if (typeof find !== "function" && (typeof find !== "object" || find === null || Object.keys(find).length === 0))
    throw new TypeError(
      `${name}: find must be a function, or an object with an expression or a list of words for each kind.`,
    );
  const finder = typeof find === "function" ? find : finderOf(`${name}: find`, find);
  const restored = restore === true ? (value: string) => value : restore === false ? undefined : restore;
  const answers = new WeakMap<HookCall, RestoredAnswer>();
  return withDuring({
    ...(timeoutMs !== undefined && { timeoutMs }),
    // A failure must not show the provider any unreplaced text.
    down: "closed",
    needsDuring: (call) => answers.has(call),
    async before(request, call) {
      const { texts, spoken } = textsOf(request);
      const matches = await matchesIn([...texts], finder);
      if (matches.size === 0) {
        // A body is sent as it came where nothing is to be replaced in its own fields either.
        const others = await matchesIn([...nativeTexts(request, texts)], finder);
        return others.size === 0 ? undefined : withoutNative(request);
      }
      const replacements = replacementsOf(matches, spoken, { replace, restore: restored });
      const isJson = "messages" in request && request.responseFormat?.type === "json";
      if (restored)
        answers.set(
          call,
          new RestoredAnswer(replacements.trie, isJson, reasoning, documentsIn(request, matches, replacements)),
        );
      return mapRequest(request, (text) => replacements.texts.get(text) ?? text);
    },
    during: (event: HookEvent, call) => answers.get(call)?.next(event),
  });
}

const placeholderOf = ({ kind, number }: RedactorValue): string => `[${kind.toUpperCase()}_${number}]`;

/** Returns the different texts of a request, in the order in which they appear; also those that are no reasoning alone. */
function textsOf(request: HookRequest): { readonly texts: Set<string>; readonly spoken: Set<string> } {
  const [texts, spoken] = [new Set<string>(), new Set<string>()];
  mapRequest(request, (text, isReasoning) => {
    texts.add(text);
    // The reasoning that a caller sends back has the replacements in it that its model has read.
    if (!isReasoning) spoken.add(text);
    return text;
  });
  return { texts, spoken };
}

/** Returns the places in the texts of a request's documents, in their order: those that citations name by number. */
function documentsIn(request: HookRequest, matches: Matches, { replacementOf }: Replacements): (Offsets | undefined)[] {
  if (!("messages" in request)) return [];
  const parts = request.messages.flatMap((message) =>
    message.parts.flatMap(
      (part): readonly Part[] => (part.type === "tool-result" ? part.parts : [part]) as readonly Part[],
    ),
  );
  return parts.flatMap((part) => {
    if (part.type !== "document") return [];
    const { source } = part;
    if (source.type !== "text") return [undefined];
    const places = new Offsets(codePoints);
    let at = 0;
    for (const { start, end, value } of matches.get(source.text) ?? []) {
      places.same(source.text.slice(at, start));
      places.replaced(replacementOf(value), source.text.slice(start, end));
      at = end;
    }
    return [places];
  });
}
