/** Goes on with an answer on the next upstream, when the upstream of its beginning has broken off. */

import { changedError, GatewayError, toGatewayError } from "../../errors.ts";
import { type ChatEvent, movedBy, withMaker } from "../../model/chat-event.ts";
import type { ChatMessage, ChatRequest, TextTurn } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { utf8Length } from "../../model/json.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { mayMoveOn } from "./attempts.ts";
import { anchorOf, Join, type Neutral, Shown } from "./shown.ts";
import type { RoutedBackend, RoutedCall } from "./upstream.ts";

type ChatEvents = AsyncIterable<ChatEvent | string>;

/** Sends a request to one upstream. Returns undefined when the upstream's backend no longer has a method for it. */
export type Send = (request: ChatRequest, call: CallContext) => ChatEvents | undefined;

/** An upstream's part of an answer, as the route asks for it. */
export interface Leg {
  /** The part of the answer that its caller has. */
  readonly shown: Shown;
  /** The upstreams that may be asked. Undefined for the first part: all that take the request. */
  readonly upstreams: readonly RoutedBackend[] | undefined;
  /** Asks for a later part. */
  readonly ask?: (upstream: RoutedBackend, routed: RoutedCall, send: Send) => ChatEvents;
  /** The upstream that has begun this part. The route sets it. */
  begun: { readonly upstream: RoutedBackend; readonly routed: RoutedCall } | undefined;
}

/** The route, as an answer that may go on sees it. */
export interface Legs {
  /** Returns the upstreams that can take the request. */
  upstreams(): readonly RoutedBackend[];
  /** Asks for one part of the answer. */
  ask(leg: Leg): ChatEvents;
}

/** Answers a request, and goes on with the next upstream after a break. No upstream is asked again after it has broken off. */
export async function* continuing(
  legs: Legs,
  request: ChatRequest,
  call: CallContext,
): AsyncGenerator<ChatEvent | string> {
  const shown = new Shown(request);
  const broken = new Set<RoutedBackend>();
  let leg: Leg = { shown, upstreams: undefined, begun: undefined };
  /** The break that the running part goes on from. */
  let last: { readonly error: GatewayError } | undefined;
  for (;;) {
    let error: GatewayError;
    try {
      for await (const event of legs.ask(leg)) for (const one of shown.pass(event)) yield one;
      return;
    } catch (thrown) {
      error = toGatewayError(thrown, "model-backend");
    }
    const { begun } = leg;
    if (!begun) throw last ? notContinued(last.error, "no other upstream has begun to answer", error) : error;
    const { upstream, routed } = begun;
    broken.add(upstream);
    const unseen = shown.dropHeld();
    if (unseen) yield unseen;
    let next: Leg | Neutral[] | string;
    try {
      next = await afterBreak(legs, request, call, shown, broken, error);
    } catch (thrown) {
      next = `the gateway does not permit it: ${toGatewayError(thrown).message}`;
    }
    if (typeof next === "string") {
      const told = call.signal.aborted || shown.isFinished ? error : notContinued(error, next);
      routed.brokeOff(told, undefined);
      throw told;
    }
    routed.brokeOff(error, Array.isArray(next) ? undefined : "broke-off");
    if (Array.isArray(next)) return yield* next;
    last = { error };
    shown.next();
    leg = next;
  }
}

/** Returns the next part of the answer, the events that end the answer, or the reason why the answer is not continued. */
async function afterBreak(
  legs: Legs,
  request: ChatRequest,
  call: CallContext,
  shown: Shown,
  broken: ReadonlySet<RoutedBackend>,
  error: GatewayError,
): Promise<Leg | Neutral[] | string> {
  if (call.signal.aborted || !mayMoveOn(error)) return "its error is not the upstream's";
  const rest = shown.rest();
  if (rest.type === "none") return rest.why;
  if (rest.type === "calls") return [...rest.ends, ...endBy("tool-calls", shown)];
  const upstreams = legs.upstreams().filter((one) => !broken.has(one));
  if (upstreams.length === 0) return "no other upstream can take it";
  const { text } = rest;
  const asked = new RestRequest(request, text, shown);
  // The events of the upstream that has broken off are counted.
  call.reportUnread?.(() => []);
  const paid = call.continueWith ? await call.continueWith(asked.longest) : asked.longest;
  if (!paid) return endBy("length", shown);
  asked.limitTo(paid);
  return { shown, upstreams, ask: (upstream, routed, send) => asked.ask(upstream, routed, send), begun: undefined };
}

/** Tells the writer of frames that have passed by to write the rest by itself. */
const TAKE_OVER: Neutral = { type: "text-delta", text: "" };

/** Returns the end of an answer whose upstream has not counted all of it. */
function endBy(reason: "tool-calls" | "length", { isPassed }: Shown): Neutral[] {
  // Take the last count back, so that the gateway estimates: the count may be that of the first word.
  const finish: Neutral = { type: "finish", reason, usage: { outputTokens: undefined } as object };
  return isPassed ? [TAKE_OVER, finish] : [finish];
}

/** Returns the error of the break, with the reason why the answer ends there. Only the host sees the reason. */
function notContinued(error: GatewayError, why: string, then?: GatewayError): GatewayError {
  const cause = new Error(`The answer was not continued: ${why}.`, { cause: then ?? error.cause ?? error });
  return changedError(error, error.message, { cause, port: error.port ?? "model-backend" });
}

/** The tokens that a model may use for the words that it repeats. */
const REPEATED_TOKENS = 32;

const instructionFor = (text: string): string =>
  "Your last message was cut off. Go on with it without a break. Begin by repeating its last words exactly, and write nothing about " +
  `the interruption. Its last words:\n${anchorOf(text)}`;

/** The request for the rest of an answer. */
class RestRequest {
  readonly #request: ChatRequest;
  readonly #text: string;
  readonly #shown: Shown;
  readonly #instruction: string;
  readonly #block: Shown["lastText"];
  #limits: Pick<ChatRequest, "maxOutputTokens" | "maxAnswerTokens">;

  constructor(request: ChatRequest, text: string, shown: Shown) {
    this.#request = request;
    this.#limits = request;
    this.#text = text;
    this.#shown = shown;
    this.#block = shown.lastText;
    this.#instruction = instructionFor(text);
  }

  /** Returns the longest of the possible requests. Quota is held for this one. */
  get longest(): ChatRequest {
    const { maxOutputTokens } = this.#request;
    return { ...this.#continued(this.#instruction), maxOutputTokens };
  }

  limitTo({ maxOutputTokens }: ChatRequest): void {
    const { maxAnswerTokens } = this.#request;
    this.#limits = {
      maxOutputTokens,
      ...(maxAnswerTokens !== undefined && { maxAnswerTokens: Math.min(maxAnswerTokens, maxOutputTokens) }),
    };
  }

  /** Asks one upstream: with the text as the beginning of the answer where the upstream takes that, and else with an instruction. */
  async *ask(upstream: RoutedBackend, routed: RoutedCall, send: Send): ChatEvents & AsyncGenerator<ChatEvent | string> {
    const { native } = this.#request;
    const isSet = upstream.prefill !== undefined;
    let refusal: unknown;
    if (upstream.prefill ?? native?.continuation?.prefills ?? true) {
      let hasBegun = false;
      let isUnfit = false;
      const call = contextOf(routed, (conversions) => {
        isUnfit = !isSet && this.#text !== "" && conversions.some(({ field }) => field === "messages.prefill");
        if (isUnfit) throw new GatewayError("failed_precondition", "The model does not continue a turn.");
      });
      try {
        for await (const event of this.#joined(send(this.#continued(), call), false)) {
          hasBegun = true;
          yield event;
        }
        return;
      } catch (error) {
        if (hasBegun || this.#text === "" || !(isUnfit || isRefusal(error))) throw error;
        if (!isUnfit) refusal = error;
      }
    }
    for await (const event of this.#joined(send(this.#continued(this.#instruction), contextOf(routed, ignore)), true)) {
      // The upstream has refused only the beginning of an answer. Do not try it again.
      if (refusal !== undefined) upstream.prefill = false;
      yield event;
    }
  }

  /** Returns the request with the text behind the conversation. A text of nothing is asked for anew. */
  #continued(instruction?: string): ChatRequest {
    const { native, ...request } = this.#request;
    const limits =
      instruction === undefined
        ? this.#limits
        : { ...this.#limits, maxOutputTokens: this.#limits.maxOutputTokens + REPEATED_TOKENS };
    const said = this.#text.trimEnd();
    if (said.trim() === "") return { ...this.#request, ...this.#limits };
    const messages = withTurns(request.messages, said, instruction);
    const { continuation } = native ?? {};
    return {
      ...request,
      ...limits,
      messages,
      ...(native && continuation && { native: { ...native, body: continuation.body(turnsOf(said, instruction)) } }),
    };
  }

  /** Yields the rest of the answer as a continuation of what was shown: no second start, no repeated text, no reasoning behind it. */
  async *#joined(answer: ChatEvents | undefined, repeats: boolean): AsyncGenerator<ChatEvent> {
    if (!answer) throw new TypeError("The backend has no method for this request.");
    const join = new Join(this.#text, repeats);
    let first: { readonly block: string | undefined } | undefined;
    const { native } = this.#request;
    const isBehind = this.#text !== "" || this.#shown.hasReasoning;
    const block = this.#block;
    const before = utf8Length(this.#text);
    const adapted = (event: Neutral): Neutral[] => {
      switch (event.type) {
        case "reasoning-delta":
        case "reasoning-signature":
        case "redacted-reasoning":
          return isBehind ? [] : [event];
        case "text-delta": {
          const text = join.add(event.text);
          if (text === "" && event.signature === undefined) return [];
          first ??= { block: event.block };
          const { block: own, ...delta } = event;
          const named = block && own === first.block ? block.block : own === undefined ? undefined : `${own}+`;
          return [{ ...delta, text, ...(named !== undefined && { block: named }) }];
        }
        case "annotation":
          return [{ ...event, annotation: movedBy(event.annotation, before - join.removed) }];
        case "start":
        case "usage":
          return [event];
        default: {
          const text = join.end();
          return text === "" ? [event] : [{ type: "text-delta", text }, event];
        }
      }
    };
    let isTaken = !this.#shown.isPassed;
    for await (const event of answer) {
      // Counts alone do not begin an answer.
      if (!isTaken && Object(event).type !== "usage") {
        isTaken = true;
        yield TAKE_OVER;
      }
      if (typeof event === "string") yield* adapted({ type: "text-delta", text: event });
      else if (event.type !== "native") yield* adapted(event);
      else {
        const { format, unsupported } = event;
        const events = event.events.flatMap((inner) => adapted(withMaker(inner, format)));
        // The caller's format writes the rest itself: the ids and indices of these frames are those of another answer.
        if (format === native?.format) yield* events;
        else if (events.length > 0 || unsupported)
          yield { type: "native", format, frames: [], events, ...(unsupported && { unsupported }) };
      }
    }
    const text = join.end();
    if (text !== "") yield { type: "text-delta", text };
  }
}

const ignore = (): void => {};

/** Returns the context of a later part. Nothing that its request loses is the caller's loss. */
const contextOf = (
  routed: RoutedCall,
  reportConversions: (conversions: readonly Conversion[]) => void,
): CallContext => ({
  requestId: routed.requestId,
  context: routed.context,
  headers: routed.headers,
  clientAddress: routed.clientAddress,
  key: routed.key,
  signal: routed.signal,
  reportUnread: routed.reportUnread,
  observeUpstream: routed.observeUpstream,
  continueWith: routed.continueWith,
  reportConversions,
  ...(routed.runCode && { runCode: routed.runCode }),
});

/** Tells whether an upstream has refused a request as wrong. */
function isRefusal(error: unknown): boolean {
  const { code } = toGatewayError(error, "model-backend");
  return code === "invalid_request" || code === "failed_precondition";
}

/** Returns the turns of a body. */
const turnsOf = (said: string, instruction: string | undefined): TextTurn[] => [
  { role: "assistant", content: said },
  ...(instruction === undefined ? [] : [{ role: "user", content: instruction } as const]),
];

/** Adds the text to the conversation. Turns in sequence never have the same role. */
function withTurns(messages: readonly ChatMessage[], said: string, instruction: string | undefined): ChatMessage[] {
  const part = { type: "text", text: said } as const;
  const last = messages.at(-1);
  const turns: ChatMessage[] =
    last?.role === "assistant"
      ? [...messages.slice(0, -1), { ...last, parts: [...last.parts, part] }]
      : [...messages, { role: "assistant", parts: [part] }];
  if (instruction !== undefined) turns.push({ role: "user", parts: [{ type: "text", text: instruction }] });
  return turns;
}
