/** The part of an answer that its caller has, when its upstream breaks off, and the join of this part and the rest. */

import type { ChatEvent, ContentEvent, NativeEvent } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, parseJson, utf8Length } from "../../model/json.ts";

/** An event in neutral words. */
export type Neutral = Exclude<ChatEvent, NativeEvent>;

type CallEvent = Extract<ContentEvent, { type: `tool-call${string}` }>;

/** The formats whose makers sign visible reasoning, and refuse it later without the signature. */
const SIGNING: ReadonlySet<string> = new Set(["messages", "responses"]);

/** The format whose answers have only whole tool calls. */
const WHOLE_CALLS = "generate-content";

/** The parts that only their maker can go on from, with the words for them. */
const OTHERS: Readonly<Partial<Record<Neutral["type"], string>>> = {
  "refusal-delta": "a refusal was shown",
  provider: "a part was shown that only its provider knows",
  media: "a picture or a sound was shown",
  code: "code was shown",
  "code-result": "the result of code was shown",
};

/** The estimated characters of a token, for tool calls that no client has seen. */
const CHARS_A_TOKEN = 4;

/** The way in which an answer can go on after a break. */
export type Rest =
  /** Nothing is missing but the end: its tool calls are whole. */
  | { readonly type: "calls"; readonly ends: readonly Neutral[] }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "none"; readonly why: string };

/** Notes what the caller gets. Holds tool calls back until they are whole, where the caller cannot see half of one. */
export class Shown {
  /** True once the answer has ended. */
  isFinished = false;
  /** True for a running upstream that must end its answer with a finish. */
  #reportsUsage = false;
  /** True once reasoning was shown. */
  hasReasoning = false;
  /** The block of the text at the end; undefined where the answer does not end in text. */
  lastText: { readonly block: string | undefined } | undefined;
  /** True where frames of the caller's own format have passed by. */
  isPassed = false;
  readonly #request: ChatRequest;
  readonly #holdsCalls: boolean;
  readonly #seesReasoning: boolean;
  readonly #pieces: string[] = [];
  readonly #openCalls: Map<string, string[]> = new Map();
  #held: CallEvent[] = [];
  #hasCalls = false;
  /** True while the latest event is reasoning whose end has not come. */
  #isReasoning = false;
  #isSigned = false;
  #other: string | undefined;
  /** The running upstream's latest count of its output. */
  #counted = 0;
  /** The characters of the text that earlier upstreams have written. */
  #charsBefore = 0;

  constructor(request: ChatRequest) {
    this.#request = request;
    this.#holdsCalls = !request.stream || request.native?.format === WHOLE_CALLS;
    const { reasoning } = request;
    this.#seesReasoning = reasoning === undefined || reasoning.type === "disabled" || reasoning.visible !== false;
  }

  /** Returns the events that the caller gets now. */
  pass(event: ChatEvent | string): readonly (ChatEvent | string)[] {
    if (typeof event === "string") return this.#noted({ type: "text-delta", text: event }).length > 0 ? [event] : [];
    if (event.type !== "native") return this.#noted(event);
    this.#isSigned ||= SIGNING.has(event.format);
    const events = event.events.flatMap((inner) => this.#noted(inner));
    if (event.format === this.#request.native?.format) {
      this.isPassed ||= (event.frames?.length ?? 0) > 0;
      return [event];
    }
    return [{ ...event, events }];
  }

  /** Returns the text so far. */
  get text(): string {
    return this.#pieces.join("");
  }

  /** Forgets the tool calls that the caller has not seen. Returns an output count that includes them: the upstream charges them. */
  dropHeld(): Neutral | undefined {
    if (this.#held.length === 0) return undefined;
    let chars = this.text.length - this.#charsBefore;
    for (const event of this.#held) {
      if ("json" in event) chars += event.json.length;
      if (event.type === "tool-call-start") this.#openCalls.delete(event.id);
    }
    this.#held = [];
    return { type: "usage", usage: { outputTokens: Math.max(this.#counted, Math.ceil(chars / CHARS_A_TOKEN)) } };
  }

  /** True for an answer that would end without the finish that its upstream owes. The gateway takes such an end for a break, too. */
  get isCut(): boolean {
    return this.#reportsUsage && !this.isFinished;
  }

  /** Begins the part of the next upstream, which counts anew. */
  next(): void {
    this.#reportsUsage = false;
    this.#counted = 0;
    this.#charsBefore = this.text.length;
  }

  /** Tells how the answer can go on. */
  rest(): Rest {
    if (this.isFinished) return none("it had ended");
    if (this.#other !== undefined) return none(this.#other);
    if ([...this.#openCalls.values()].some((json) => !isWhole(json.join(""))))
      return none("a tool call was half shown");
    if (this.#hasCalls || this.#openCalls.size > 0) {
      // The writer of frames that have passed by knows no call, and ends all of them by itself.
      const ends = [...this.#openCalls.keys()].map((id): Neutral => ({ type: "tool-call-end", id }));
      return { type: "calls", ends: this.isPassed ? [] : ends };
    }
    if (this.#isReasoning && this.#isSigned) return none("reasoning was shown without the signature at its end");
    const { text } = this;
    if (text !== "" && this.#request.responseFormat) return none("its text must have a given form");
    return { type: "text", text };
  }

  #noted(event: Neutral): Neutral[] {
    if ("candidate" in event && event.candidate) this.#other = "the request asked for several answers";
    switch (event.type) {
      case "start":
      case "usage":
        this.#reportsUsage = true;
        this.#counted = event.usage?.outputTokens ?? this.#counted;
        return [event];
      case "finish":
        this.isFinished = true;
        return [...this.#released(), event];
      case "annotation":
      case "prompt-feedback":
        return [event];
      case "tool-call-start":
      case "tool-call-delta":
      case "tool-call-end":
        return this.#call(event);
      case "reasoning-delta":
        this.hasReasoning ||= this.#seesReasoning;
        this.#isReasoning = this.#seesReasoning;
        break;
      case "reasoning-signature":
      case "redacted-reasoning":
        this.hasReasoning = this.#isSigned = true;
        this.#isReasoning = false;
        break;
      case "text-delta":
        if (event.text === "") return [event];
        this.#pieces.push(event.text);
        this.#isReasoning = false;
        this.lastText = { block: event.block };
        return [event];
      case "tool-call":
        this.#hasCalls = true;
        this.#isReasoning = false;
        break;
      default:
        this.#other ??= OTHERS[event.type];
    }
    this.lastText = undefined;
    return [event];
  }

  #call(event: Exclude<CallEvent, { type: "tool-call" }>): Neutral[] {
    this.lastText = undefined;
    this.#isReasoning = false;
    if (event.type === "tool-call-start") this.#openCalls.set(event.id, []);
    else if (event.type === "tool-call-delta") this.#openCalls.get(event.id)?.push(event.json);
    else this.#openCalls.delete(event.id);
    this.#held.push(event);
    return this.#holdsCalls && this.#openCalls.size > 0 ? [] : this.#released();
  }

  #released(): CallEvent[] {
    const held = this.#held;
    this.#hasCalls ||= held.some(({ type }) => type === "tool-call-end");
    this.#held = [];
    return held;
  }
}

const none = (why: string): Rest => ({ type: "none", why });

/** Tells whether the arguments of a call are a whole JSON object, behind which nothing can follow. */
function isWhole(json: string): boolean {
  try {
    return isJsonObject(parseJson(json));
  } catch {
    return false;
  }
}

/** The most characters that an upstream is asked to repeat. */
const MOST_ANCHOR_CHARS = 48;

/** Returns the last words of a text. */
export function anchorOf(text: string): string {
  const end = text.trimEnd();
  if (end.length <= MOST_ANCHOR_CHARS) return end.trimStart();
  const tail = end.slice(-MOST_ANCHOR_CHARS);
  const word = tail.search(/\s\S/);
  // Without a space, begin at a whole character.
  return word < 0 ? tail.replace(/^[\uDC00-\uDFFF]/, "") : tail.slice(word + 1);
}

/** Joins the text of the next upstream to a text that was shown: what the upstream repeats is left out. */
export class Join {
  /** The bytes that were left out, less those that were added. */
  removed = 0;
  readonly #begun: string;
  readonly #anchor: string;
  /** The white space at the end of the shown text. An upstream may have got the text without it, and write it again. */
  #space: string;
  #held = "";
  /** The number of characters of the shown text that the upstream has repeated from its beginning; undefined where it has not. */
  #repeated: number | undefined = 0;
  #isDecided: boolean;

  /** @param repeats True for an upstream that was asked to repeat the last words. It may also begin again, and write the whole text. */
  constructor(text: string, repeats: boolean) {
    const end = text.trimEnd();
    this.#space = text.slice(end.length);
    this.#begun = end.trimStart();
    this.#anchor = anchorOf(text);
    this.#isDecided = !repeats || this.#begun === "";
  }

  /** Returns the text that the caller gets now. */
  add(piece: string): string {
    if (this.#isDecided) return this.#behindSpace(piece);
    const said = this.#held === "" ? piece.trimStart() : piece;
    this.removed += utf8Length(piece) - utf8Length(said);
    if (said === "") return "";
    this.#held += said;
    if (this.#repeated !== undefined) {
      const left = this.#begun.length - this.#repeated;
      if (said.length < left && this.#begun.startsWith(said, this.#repeated)) {
        this.#repeated += said.length;
        return "";
      }
      if (said.length >= left && said.startsWith(this.#begun.slice(this.#repeated))) return this.#without(this.#begun);
      this.#repeated = undefined;
    }
    if (this.#held.length < this.#anchor.length && this.#anchor.startsWith(this.#held)) return "";
    return this.#without(this.#anchor);
  }

  /** Ends the text. Returns what was held back and repeats nothing. */
  end(): string {
    if (this.#isDecided || this.#held === "") return "";
    const isPart = this.#begun.startsWith(this.#held) || this.#anchor.startsWith(this.#held);
    this.#isDecided = true;
    return isPart ? "" : this.#held;
  }

  #without(repeated: string): string {
    const held = this.#held;
    this.#isDecided = true;
    this.#held = "";
    if (held.startsWith(repeated)) {
      this.removed += utf8Length(repeated);
      return this.#behindSpace(held.slice(repeated.length));
    }
    // An upstream that goes on by itself begins with a word.
    const isWord = this.#space === "" && WORD_END.test(this.#begun.slice(-2)) && WORD_START.test(held);
    this.#space = "";
    if (!isWord) return held;
    this.removed--;
    return ` ${held}`;
  }

  #behindSpace(piece: string): string {
    let at = 0;
    while (at < this.#space.length && at < piece.length && piece[at] === this.#space[at]) at++;
    this.#space = at < piece.length ? "" : this.#space.slice(at);
    this.removed += utf8Length(piece.slice(0, at));
    return piece.slice(at);
  }
}

const WORD_END = /[\p{L}\p{N}]$/u;
const WORD_START = /^[\p{L}\p{N}]/u;
