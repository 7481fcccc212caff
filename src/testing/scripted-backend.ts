/** A backend for tests that answers from a script and records its requests. */

import { GatewayError } from "../errors.ts";
import type { ChatEvent } from "../model/chat-event.ts";
import { CHAT, CODE_TOOL, type ChatMessage, type ChatRequest, type Tool } from "../model/chat-request.ts";
import { EMBEDDING, type EmbeddingEvent, type EmbeddingInput, type EmbeddingRequest } from "../model/embedding.ts";
import { IMAGE, type ImageEvent, type ImageRequest } from "../model/image.ts";
import { assertOptions, CLOCK, fieldsOf, listOf, shown } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { Clock } from "../ports/clock.ts";
import { type CallContext, MODEL_SHAPES, type ModelBackend, type ModelInfo } from "../ports/model-backend.ts";
import { type AskedRequest, describe, reply, type Scene, Turn, type TurnEvent, unlessCut } from "./turns.ts";

/**
 * The answers of a scripted backend. A list has the answer of each request, in their order. A single turn answers every request. A function
 * chooses the answer, and may take its time. A text stands for `reply(text)`.
 */
export type Script =
  | Turn
  | string
  | readonly (Turn | string)[]
  | ((asked: AskedRequest) => Turn | string | undefined | PromiseLike<Turn | string | undefined>);

/** The options of `scriptedBackend`. */
export interface ScriptedBackendOptions {
  /** The name of the upstream in records and failures. Default: none. */
  readonly name?: string;
  /**
   * The models on offer, as ids or with more details. Images need a name that is built in, such as `gpt-image-1`, or one of the option
   * `images.models` of the gateway. Default: every model name is allowed, but for images only those.
   */
  readonly models?: readonly (string | ModelInfo)[];
  /** The clock of `delay`, such as a `manualClock()`. Default: the machine's clock. */
  readonly clock?: Clock;
}

/** A backend that answers from a script. */
export interface ScriptedBackend extends ModelBackend {
  /** The requests so far, in their order. */
  readonly requests: readonly AskedRequest[];
  /** The number of turns of a list that no request has used yet; 0 for any other script. */
  readonly remaining: number;
  /** Resolves with a request as soon as it has arrived. `number` counts from 1, the default. */
  readonly asked: (number?: number) => Promise<AskedRequest>;
  readonly chat: (request: ChatRequest, call: CallContext) => AsyncIterable<ChatEvent | string>;
  readonly image: (request: ImageRequest, call: CallContext) => AsyncIterable<ImageEvent>;
  readonly embed: (request: EmbeddingRequest, call: CallContext) => AsyncIterable<EmbeddingEvent>;
}

/**
 * Makes a backend that answers chats, images and embeddings from a script. A request for which the script has no answer fails with 400 and a
 * message that says what was asked, because SDKs do not repeat such a request. So does a call of a tool that the request does not offer.
 *
 * @throws TypeError for a script or an option of a wrong shape.
 * @example
 * const backend = scriptedBackend([toolCall("weather", { city: "Bern" }), "It is sunny.", failure("backend_overloaded")]);
 */
export function scriptedBackend(script: Script, options: ScriptedBackendOptions = {}): ScriptedBackend {
  assertScript(script);
  assertOptions<ScriptedBackendOptions>("scriptedBackend", options, {
    name: "string?",
    models: {
      optional: listOf((path, model) => typeof model === "string" || fieldsOf<ModelInfo>(MODEL_SHAPES)(path, model)),
    },
    clock: CLOCK,
  });
  const { name, models, clock = TIMERS } = options;
  const requests: AskedRequest[] = [];
  const waiting = new Map<number, PromiseWithResolvers<AskedRequest>>();
  const nextTurn = turnsOf(script);

  async function* answer(kind: ModelKind, prompt: string, request: AskedRequest["request"], call: CallContext) {
    const asked = { kind, number: requests.length + 1, model: request.model, prompt, request, call } as AskedRequest;
    requests.push(asked);
    waiting.get(asked.number)?.resolve(asked);
    const scene: Scene = { asked, clock, events: 0, usage: undefined, finishReason: undefined };
    const turn = nextTurn(asked);
    const chosen = turn instanceof Turn ? turn : await unlessCut(turn, call.signal);
    yield* ended(Turn.play(chosen, scene), scene);
  }

  return {
    ...(name !== undefined && { name }),
    ...(models && { models: () => models.map((model) => (typeof model === "string" ? { id: model } : model)) }),
    requests,
    get remaining() {
      return isList(script) ? Math.max(0, script.length - requests.length) : 0;
    },
    asked(number = 1) {
      const asked = requests[number - 1];
      if (asked) return Promise.resolve(asked);
      const wait = waiting.get(number) ?? Promise.withResolvers<AskedRequest>();
      waiting.set(number, wait);
      return wait.promise;
    },
    // The casts are safe: a turn refuses requests of other kinds than its own, and the gateway checks the events of a host.
    chat: (request, call) => answer(CHAT, textOf(request.messages.at(-1)), request, call) as AsyncIterable<ChatEvent>,
    image: (request, call) => answer(IMAGE, request.prompt, request, call) as AsyncIterable<ImageEvent>,
    embed: (request, call) =>
      answer(EMBEDDING, textOfInput(request.inputs[0]), request, call) as AsyncIterable<EmbeddingEvent>,
  };
}

/** The machine's timers. They keep the process alive: a test may have nothing else that does. */
const TIMERS: Pick<Clock, "after"> = {
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** Checks the tool calls of an answer, and adds the end that each kind of answer needs. */
async function* ended(events: AsyncIterable<TurnEvent>, scene: Scene): AsyncGenerator<TurnEvent> {
  const types = new Set<string>();
  for await (const event of events) {
    if (typeof event === "object" && "type" in event) {
      if (event.type === "tool-call" || event.type === "tool-call-start") assertCallable(event.name, scene.asked);
      types.add(event.type);
    }
    yield event;
  }
  const { usage } = scene;
  if (scene.asked.kind !== CHAT) {
    if (usage) yield { type: "usage", usage };
  } else if (!types.has("finish")) {
    const isToolCall = types.has("tool-call") || types.has("tool-call-start");
    const reason = scene.finishReason ?? (isToolCall ? "tool-calls" : types.has("refusal-delta") ? "refusal" : "stop");
    yield { type: "finish", reason, ...(usage && { usage }) };
  }
}

/** Throws for a call that no model can make, because the request does not offer the tool, or its tool choice rules the tool out. */
function assertCallable(name: string, asked: AskedRequest): void {
  if (asked.kind !== CHAT) return;
  const { tools, toolChoice } = asked.request;
  const chosen = toolChoice?.type === "tool" ? [toolChoice.name] : toolChoice?.type === "none" ? [] : toolChoice?.names;
  const callable = chosen ?? tools.map((tool) => (tool.type === "code-execution" ? CODE_TOOL : tool.name));
  if (callable.includes(name) || (toolChoice?.type !== "none" && tools.some(bringsTools))) return;
  const list = callable.map((one) => JSON.stringify(one)).join(", ") || "no tool";
  throw new GatewayError(
    "failed_precondition",
    `The script calls the tool ${JSON.stringify(name)}, but ${describe(asked)}. ${chosen ? "Its tool choice allows" : "It offers"} ${list}.`,
  );
}

/** Tells whether a provider's tool brings others, such as a server of tools, whose names the request does not tell. */
const bringsTools = (tool: Tool): boolean =>
  tool.type === "provider" && (tool.name === undefined || tool.name === "mcp" || tool.name === "tool_search");

const isTurn = (turn: unknown): boolean => turn instanceof Turn || typeof turn === "string";

function assertScript(script: unknown): void {
  const expected = 'a turn, such as reply("Hello"), a list of turns, or a function that returns one';
  if (!Array.isArray(script)) {
    if (isTurn(script) || typeof script === "function") return;
    throw new TypeError(`scriptedBackend: the script must be ${expected}, not ${shown(script)}.`);
  }
  const wrong = script.findIndex((turn) => !isTurn(turn));
  if (wrong >= 0)
    throw new TypeError(`scriptedBackend: script[${wrong}] must be a turn or a text, not ${shown(script[wrong])}.`);
}

function turnsOf(script: Script): (asked: AskedRequest) => Turn | Promise<Turn> {
  const found = (turn: unknown, asked: AskedRequest): Turn => {
    if (turn instanceof Turn) return turn;
    if (typeof turn === "string") return reply(turn);
    const what = isList(script)
      ? `The script has ended after ${script.length} turn${script.length === 1 ? "" : "s"}`
      : `The function of the script returns ${shown(turn)}`;
    throw new GatewayError("failed_precondition", `${what}, but ${describe(asked)}.`);
  };
  if (typeof script === "function") return async (asked) => found(await script(asked), asked);
  return (asked) => found(isList(script) ? script[asked.number - 1] : script, asked);
}

const isList = (script: Script): script is readonly (Turn | string)[] => Array.isArray(script);

const textOf = (message: ChatMessage | undefined): string =>
  message?.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n") ?? "";

function textOfInput(input: EmbeddingInput | undefined): string {
  if (typeof input === "string") return input;
  if (input === undefined || !("parts" in input)) return "";
  return input.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n");
}
