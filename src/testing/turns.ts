/** The words of a script: each turn is one answer of a scripted backend, and may stand inside another. */

import { GATEWAY_ERROR_CODES, GatewayError, type GatewayErrorCode } from "../errors.ts";
import { FINISH_REASONS } from "../kinds/chat/check-event.ts";
import { fromBase64 } from "../media/base64.ts";
import { mediaTypeOf } from "../media/picture.ts";
import type { ChatEvent, FinishReason } from "../model/chat-event.ts";
import { CHAT, type ChatRequest } from "../model/chat-request.ts";
import { EMBEDDING, type EmbeddingEvent, type EmbeddingRequest, type EmbeddingUsage } from "../model/embedding.ts";
import { IMAGE, type ImageEvent, type ImageRequest, type ImageUsage } from "../model/image.ts";
import type { JsonObject } from "../model/json.ts";
import { TOKEN_COUNTS } from "../model/usage.ts";
import {
  AMOUNT,
  assertOptions,
  assertText,
  type Check,
  checkOf,
  fieldsOf,
  nearest,
  type Shapes,
  shown,
  shownWord,
} from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { Clock } from "../ports/clock.ts";
import type { CallContext } from "../ports/model-backend.ts";

/** A request that a scripted backend has received. */
export type AskedRequest =
  | AskedOf<typeof CHAT, ChatRequest>
  | AskedOf<typeof IMAGE, ImageRequest>
  | AskedOf<typeof EMBEDDING, EmbeddingRequest>;

interface AskedOf<Kind extends ModelKind, Request> {
  readonly kind: Kind;
  /** The number of the request, from 1. */
  readonly number: number;
  readonly model: string;
  /** The text of the last message; the prompt of an image; the first text of an embedding. Empty without a text. */
  readonly prompt: string;
  readonly request: Request;
  /** The details of the call. `call.signal.aborted` tells whether the gateway has stopped the answer. */
  readonly call: CallContext;
}

/** An event of an answer of any kind; a text is a piece of a chat answer. */
export type TurnEvent = ChatEvent | ImageEvent | EmbeddingEvent | string;

/** A piece of any turn beside events: a promise that is awaited before the next piece, or another turn. */
type AnyPiece = PromiseLike<unknown> | Turn;

/** A piece of `reply`: a text, an event, a promise that is awaited before the next piece, or another turn. */
export type ReplyPiece = string | ChatEvent | AnyPiece;

/** A piece of `image`: the bytes of a finished image, an event, a promise that is awaited before the next piece, or another turn. */
export type ImagePiece = Uint8Array | ImageEvent | AnyPiece;

/** A piece of `embedding`: a vector, an event, a promise that is awaited before the next piece, or another turn. */
export type EmbeddingPiece = EmbeddingEvent | AnyPiece;

/** A piece of a turn, or a function that returns the pieces for a request. */
type Piece = TurnEvent | AnyPiece | ((scene: Scene) => Iterable<Piece>);

/** The counts that a turn reports, cumulative as in `Usage`. The gateway estimates counts that are not reported. */
export type ReplyUsage = { readonly [Count in (typeof TOKEN_COUNTS)[number]]?: number };

/** The options of `reply` and `refusal`. */
export interface ReplyOptions {
  /**
   * The tokens that the model reports. Counts that are too high for the prompt, or for the output limit of the request, are not believed: the
   * gateway estimates them, and one of the `failures` names the most that is believed. To empty a budget, make its amount small. Default: none,
   * so that the gateway estimates them.
   */
  readonly usage?: ReplyUsage;
  /** Default: `tool-calls` or `refusal` for an answer with such an event, else `stop`. */
  readonly finishReason?: FinishReason;
  /** The model's reasoning before the answer. Default: none. */
  readonly reasoning?: string;
  /** The number of events after which the upstream reports its `usage` and breaks off, from 0. Default: it does not. */
  readonly breakAfter?: number;
}

/** The options of `toolCall`. */
export interface ToolCallOptions extends ReplyOptions {
  /** Default: `call_1_1`, from the number of the request and the number of the event. */
  readonly id?: string;
}

/** The options of `image`. */
export interface ImageTurnOptions {
  /** The tokens that the model reports. Default: none. */
  readonly usage?: Partial<ImageUsage>;
  /** The number of events after which the upstream reports its `usage` and breaks off, from 0. Default: it does not. */
  readonly breakAfter?: number;
}

/** The options of `embedding`. */
export interface EmbeddingTurnOptions {
  /** The tokens that the model reports. Default: none, so that the gateway estimates them. */
  readonly usage?: EmbeddingUsage;
  /** The number of events after which the upstream reports its `usage` and breaks off, from 0. Default: it does not. */
  readonly breakAfter?: number;
}

/** The state of one answer: its request, and the end that its turns have named. */
export interface Scene {
  readonly asked: AskedRequest;
  readonly clock: Pick<Clock, "after">;
  /** The number of events so far. */
  events: number;
  usage: object | undefined;
  finishReason: FinishReason | undefined;
}

interface TurnSetup {
  /** The kind of requests that the turn answers; undefined for all. */
  readonly kind?: ModelKind | undefined;
  readonly usage?: object | undefined;
  readonly finishReason?: FinishReason | undefined;
  readonly breakAfter?: number | undefined;
}

/** An answer of a scripted backend. `reply`, `toolCall`, `failure` and the other functions of `polygate/testing` make turns. */
export class Turn {
  readonly #play: (scene: Scene) => AsyncGenerator<TurnEvent>;

  constructor(play: (scene: Scene) => AsyncGenerator<TurnEvent>) {
    this.#play = play;
  }

  /** Yields the events of the answer. Throws what the turn throws, and the reason of the call's signal once it has fired. */
  static play(turn: Turn, scene: Scene): AsyncGenerator<TurnEvent> {
    return turn.#play(scene);
  }
}

function turnOf(pieces: Iterable<Piece>, setup: TurnSetup = {}): Turn {
  const { kind, usage, finishReason, breakAfter = Number.POSITIVE_INFINITY } = setup;
  return new Turn(async function* (scene) {
    if (kind && kind !== scene.asked.kind)
      throw new GatewayError("failed_precondition", `The script answers ${kind} here, but ${describe(scene.asked)}.`);
    let left = breakAfter;
    if (left > 0)
      for await (const event of played(pieces, scene)) {
        yield event;
        if (--left === 0) break;
      }
    if (left === 0) {
      if (usage) yield { type: "usage", usage };
      throw broken();
    }
    // A turn around other turns has the last word.
    scene.usage = usage ?? scene.usage;
    scene.finishReason = finishReason ?? scene.finishReason;
  });
}

async function* played(pieces: Iterable<Piece>, scene: Scene): AsyncGenerator<TurnEvent> {
  const { signal } = scene.asked.call;
  for (const piece of pieces) {
    signal.throwIfAborted();
    if (piece instanceof Turn) yield* Turn.play(piece, scene);
    else if (typeof piece === "function") yield* played(piece(scene), scene);
    else if (isPromise(piece)) await unlessCut(piece, signal);
    else {
      scene.events++;
      yield piece;
    }
  }
}

const isPromise = (piece: object | string): piece is PromiseLike<unknown> =>
  typeof (piece as { then?: unknown }).then === "function";

/** Waits for a promise that may never settle. Rejects with the signal's reason when the call is cut. */
export function unlessCut<Value>(promise: PromiseLike<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const cut = (): void => reject(signal.reason);
    if (signal.aborted) return cut();
    signal.addEventListener("abort", cut, { once: true });
    const over = (): void => signal.removeEventListener("abort", cut);
    promise.then(
      (value) => (over(), resolve(value)),
      (reason: unknown) => (over(), reject(reason)),
    );
  });
}

/** An error as a cut connection causes it: callers are told that the backend cannot be reached. */
const broken = (): Error => Object.assign(new Error("The script breaks the answer off here."), { code: "ECONNRESET" });

/** Describes a request in an error. */
export const describe = ({ kind, number, model, prompt }: AskedRequest): string =>
  `request ${number} came: ${kind} by the model ${model}, ${JSON.stringify(prompt.slice(0, 200))}`;

const COUNTS = Object.fromEntries(TOKEN_COUNTS.map((count) => [count, "fromZero?"])) as Shapes<ReplyUsage>;

const REPLY_SHAPES: Shapes<ReplyOptions> = {
  usage: { optional: fieldsOf(COUNTS) },
  finishReason: { optional: [...FINISH_REASONS] },
  reasoning: "string?",
  breakAfter: "fromZero?",
};

/**
 * Answers a chat. Each text is an event of its own, so a list of texts is a stream in pieces.
 *
 * @param content A text, or pieces in their order: a list, or any iterable, which is read once for each request.
 * @example reply(["It is ", gate, "sunny."], { usage: { inputTokens: 12, outputTokens: 4 } });
 */
export function reply(content: string | Iterable<ReplyPiece>, options: ReplyOptions = {}): Turn {
  assertPieces("reply", "a text or pieces", content);
  assertOptions<ReplyOptions>("reply", options, REPLY_SHAPES);
  return chatTurn(typeof content === "string" ? [content] : content, options);
}

const assertObject: Check = checkOf("object");

/** Throws a TypeError for a content without pieces. Only `reply` takes a text: elsewhere, each of its characters would be a piece. */
function assertPieces(name: string, what: string, content: unknown): void {
  const isIterable = typeof (Object(content) as Partial<Iterable<unknown>>)[Symbol.iterator] === "function";
  if (!isIterable || (typeof content === "string" && name !== "reply"))
    throw new TypeError(`${name}: expects ${what}, not ${shown(content)}.`);
}

function chatTurn(content: Iterable<Piece>, { reasoning, ...setup }: ReplyOptions): Turn {
  const thought: ChatEvent[] = reasoning === undefined ? [] : [{ type: "reasoning-delta", text: reasoning }];
  return turnOf([...thought, () => content], { kind: CHAT, ...setup });
}

/**
 * Answers a chat with a call of one of the caller's tools. Several calls of one answer, or a text before a call, stand in a `reply`.
 *
 * @example reply(["Let me look.", toolCall("weather", { city: "Bern" }), toolCall("weather", { city: "Basel" })]);
 */
export function toolCall(name: string, input: JsonObject = {}, options: ToolCallOptions = {}): Turn {
  assertText("toolCall: name", name);
  assertObject("toolCall: input", input);
  assertOptions<ToolCallOptions>("toolCall", options, { ...REPLY_SHAPES, id: "string?" });
  const { id, ...rest } = options;
  const call = ({ asked, events }: Scene): ChatEvent[] => [
    { type: "tool-call", id: id ?? `call_${asked.number}_${events + 1}`, name, input },
  ];
  return chatTurn([call], rest);
}

/** Answers a chat with a refusal. A format that does not separate refusals from text writes the refusal as text. */
export function refusal(text = "I cannot help with that.", options: ReplyOptions = {}): Turn {
  assertText("refusal: text", text);
  assertOptions<ReplyOptions>("refusal", options, REPLY_SHAPES);
  return chatTurn([{ type: "refusal-delta", text }], options);
}

/**
 * Throws an error, for requests of every kind. In a `reply`, the answer breaks off at this place.
 *
 * @param error The code of a GatewayError, or the error itself, such as a GatewayError with a `retryAfterMs`. Any other error is one that
 * the caller is not told.
 * @param message The message that the caller is told, for a code.
 * @throws TypeError for a code that does not exist, and for anything else that is no error.
 */
export function failure(error: GatewayErrorCode | Error, message = "The script fails here."): Turn {
  const known: readonly string[] = GATEWAY_ERROR_CODES;
  if (typeof error === "string" && !known.includes(error)) {
    const meant = nearest(error, known);
    const hint = meant === undefined ? "" : `; did you mean "${meant}"?`;
    throw new TypeError(`failure: there is no error code ${shownWord(error)}${hint || "."}`);
  }
  // Not `instanceof`: the errors of a runner's own realm are errors, too.
  if (typeof error !== "string" && (typeof error !== "object" || error === null))
    throw new TypeError(`failure: expects an error code or an error, not ${shown(error)}.`);
  return turnOf([
    () => {
      throw typeof error === "string" ? new GatewayError(error, message) : error;
    },
  ]);
}

/**
 * Waits for a time on the clock of the backend, and then goes on.
 *
 * @example reply([delay(5_000), "Sorry for the wait."]);
 */
export function delay(ms: number): Turn {
  assertTime("delay: the time", ms);
  return turnOf([
    ({ asked, clock }) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const cancel = clock.after(ms, resolve);
      return [unlessCut(promise, asked.call.signal).finally(cancel)];
    },
  ]);
}

const assertTime: Check = checkOf({ ...AMOUNT, words: "milliseconds from 0 up" });

const never: Promise<never> = new Promise(() => {});

/** Says nothing more until the gateway cuts the call, for example at its deadline or when its client disconnects. */
export const silence = (): Turn => turnOf([never]);

/** Repeats a text until the gateway cuts the call. */
export function endless(text = "word "): Turn {
  assertText("endless: text", text);
  return turnOf(
    {
      *[Symbol.iterator]() {
        for (;;) yield text;
      },
    },
    { kind: CHAT },
  );
}

/** A PNG of one white pixel. */
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==";

/**
 * Answers a request for images.
 *
 * @param content The bytes of a PNG, JPEG or WebP for every image that is asked for, or pieces in their order. Default: one white pixel.
 * @throws TypeError for bytes of another file format.
 */
export function image(
  content: Uint8Array | Iterable<ImagePiece> = fromBase64(PIXEL),
  options: ImageTurnOptions = {},
): Turn {
  assertPieces("image", "bytes or pieces", content);
  assertOptions<ImageTurnOptions>("image", options, {
    usage: {
      optional: fieldsOf<Partial<ImageUsage>>({
        inputTextTokens: "fromZero?",
        inputImageTokens: "fromZero?",
        outputTokens: "fromZero?",
      }),
    },
    breakAfter: "fromZero?",
  });
  const setup = { kind: IMAGE, ...options } as const;
  if (!(content instanceof Uint8Array)) return turnOf(Array.from(content, drawn), setup);
  const event = drawn(content);
  return turnOf([({ asked }) => Array.from({ length: (asked.request as ImageRequest).count }, () => event)], setup);
}

function drawn(piece: ImagePiece): Exclude<ImagePiece, Uint8Array> {
  if (!(piece instanceof Uint8Array)) return piece;
  const mediaType = mediaTypeOf(piece);
  if (!mediaType) throw new TypeError("image: the bytes must be those of a PNG, JPEG or WebP.");
  return { type: "image", bytes: piece, mediaType };
}

/** The length of a vector whose caller names no length. */
const DIMENSIONS = 8;

/**
 * Answers a request for embeddings.
 *
 * @param content The vector of each input, in order, or pieces. Default: a vector of length 1 from the characters of each input: equal inputs
 * have equal vectors. It has 8 numbers, or as many as the caller asks for.
 */
export function embedding(content?: Iterable<EmbeddingPiece>, options: EmbeddingTurnOptions = {}): Turn {
  if (content !== undefined) assertPieces("embedding", "vectors or pieces", content);
  assertOptions<EmbeddingTurnOptions>("embedding", options, {
    usage: { optional: fieldsOf<EmbeddingUsage>({ inputTokens: "fromZero" }) },
    breakAfter: "fromZero?",
  });
  return turnOf([content === undefined ? vectors : () => content], { kind: EMBEDDING, ...options });
}

function vectors({ asked }: Scene): number[][] {
  const { inputs, dimensions = DIMENSIONS, inputDimensions } = asked.request as EmbeddingRequest;
  return inputs.map((input, at) => vectorOf(JSON.stringify(input), inputDimensions?.[at] ?? dimensions));
}

function vectorOf(text: string, dimensions: number): number[] {
  const sums = Array.from({ length: dimensions }, () => 1);
  for (let at = 0; at < text.length; at++) sums[at % dimensions] = (sums[at % dimensions] ?? 0) + text.charCodeAt(at);
  const length = Math.hypot(...sums);
  return sums.map((sum) => sum / length);
}
