/** Relays chat calls: sends the request in the upstream's format, and forwards the answer's events as they come. */

import { GatewayError, backendFailed } from "../../errors.ts";
import type { ChatCodec } from "../../formats/format.ts";
import type { ChatVerbs, RelayedCall } from "../../formats/module.ts";
import { withLostResults } from "../../formats/shared/conversions.ts";
import { MAX_JOINED_CHARS } from "../../formats/shared/frame-shape.ts";
import { wholeOf, type LazyCodec } from "../../formats/shared/lazy.ts";
import { type ToolNames, toolNamesFor } from "../../formats/shared/tool-names.ts";
import { parseAnswerObject } from "../../formats/shared/upstream.ts";
import { type ChatEvent, type NativeEvent, type NativeFrame, noteRun, textOfRun } from "../../model/chat-event.ts";
import { CHAT, type ChatRequest, type WireObject } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { writeJson } from "../../model/kept-text.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { renamed } from "../backend.ts";
import { TurnMemory } from "../turn-memory.ts";
import type { TurnContext, withCode } from "./code-loop.ts";
import type { Failures } from "./failures.ts";
import type { NamePolicy, UpstreamOptions } from "./options.ts";
import { isOfType, JSON_TYPE, ofWrongType, readBytes, refusalOf, relayed } from "./relayed.ts";
import { Exchange, UNREAD } from "./transport.ts";
import type { Upstream } from "./upstream.ts";

/** Makes the functions of a relay to an upstream of a chat format. */
export function chatRelay(
  upstream: Upstream,
  options: UpstreamOptions,
  given: ChatCodec | LazyCodec,
  codeLoop: typeof withCode | undefined,
): ChatVerbs {
  const memory = new TurnMemory(upstream.limits, upstream.clock);
  const answer = (codec: ChatCodec, request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent> => {
    const ask = (asked: ChatRequest, context: TurnContext, isFirst = true): AsyncGenerator<ChatEvent> => {
      const rules = isFirst ? options : { ...options, strict: false };
      return relayed(upstream, context, () => relayedChat(upstream, codec, rules, memory, asked, context));
    };
    const { runCode } = call;
    const mayRunCode = request.tools.some(({ type }) => type === "code-execution");
    if (!codeLoop || !runCode || !mayRunCode || codec.runsCode || (request.candidateCount ?? 1) > 1)
      return ask(request, call);
    const { json, limits } = upstream;
    return codeLoop({ ask, runCode, json, format: codec.format, maxTurns: limits.maxCodeTurns }, request, call);
  };
  /** The time up to which the upstream is known to lack the route, in milliseconds since the Unix epoch. */
  let lacksUntil = 0;
  return {
    async *chat(request, call) {
      const codec = await wholeOf(given);
      const { compact } = upstream.compacts ? codec : {};
      if (!compact || request.native?.format !== compact.format || upstream.clock.now() < lacksUntil)
        return yield* answer(codec, request, call);
      let hasNoRoute = false;
      try {
        yield* relayed(upstream, call, () => ({
          ...relayedCompaction(upstream, compact, codec, options, request, call),
          onNoRoute: () => (hasNoRoute = true),
        }));
      } catch (error) {
        if (!hasNoRoute) throw error;
        lacksUntil = upstream.clock.now() + LACKS_MS;
        yield* answer(codec, request, call);
      }
    },
    async countInputTokens(request, call) {
      const codec = await wholeOf(given);
      const asked = permitted(options, { ...request, model: upstream.modelName(request.model), stream: false });
      const known = restored(memory, codec, asked, call);
      const names = ownBody(request, codec) ? undefined : toolNamesFor(known, codec.toolNames);
      const counted = names ? names.inRequest(known) : known;
      return countTokens(upstream, codec, counted, call, upstream.failuresFor(asked.model, request.model));
    },
  };
}

/** The time until an upstream that has no route for compactions is asked again, in milliseconds. */
const LACKS_MS = 10 * 60_000;

function relayedCompaction(
  upstream: Upstream,
  compact: NonNullable<ChatCodec["compact"]>,
  codec: ChatCodec,
  options: UpstreamOptions,
  request: ChatRequest,
  call: CallContext,
): RelayedCall<ChatEvent, ChatEvent> {
  const model = upstream.modelName(request.model);
  const { conversions, body, path, headers } = compact.encode({ ...request, model });
  reportConversions(conversions, call, options.strict ?? false);
  return {
    kind: CHAT,
    model,
    callerModel: request.model,
    path,
    headers,
    body: JSON.stringify(body),
    stream: false,
    codec,
    decoder: compact.decoder(upstream.json),
    handOn(events, _exchange, observation) {
      observation?.onChatEvents(events);
      return events;
    },
  };
}

async function relayedChat(
  upstream: Upstream,
  codec: ChatCodec,
  options: UpstreamOptions,
  memory: TurnMemory,
  request: ChatRequest,
  call: TurnContext,
): Promise<RelayedCall<ChatEvent, ChatEvent>> {
  const model = upstream.modelName(request.model);
  const own = ownBody(request, codec);
  const known = restored(memory, codec, permitted(options, { ...request, model }), call);
  const names = own ? undefined : toolNamesFor(known, codec.toolNames);
  const { conversions, body, path, headers } = codec.encodeRequest(names ? names.inRequest(known) : known);
  reportConversions(names ? [...conversions, names.conversion] : conversions, call, options.strict ?? false);
  // Encoding and serialising a long conversation take milliseconds each. Give the event loop a turn in between, to serve other calls.
  if (isLong(request)) await nextIteration();
  const isHidden = model !== request.model && !options.showUpstreamModel;
  const finished = new Set<number>();
  const remember = memory.recorder(call.key.id, makerIn(codec, model));
  let rest: Iterable<ChatEvent> = [];
  return {
    kind: CHAT,
    model,
    callerModel: request.model,
    path,
    headers,
    body: writeJson(body, own),
    turn: upstream.takesSockets ? { keyId: call.key.id, model, body, stream: request.stream } : undefined,
    stream: request.stream,
    codec,
    decoder: codec.answerDecoder(upstream.json, model),
    joinsTexts: own !== undefined,
    /** True when the last candidate has finished. */
    isFinish(event) {
      for (const known of event.type === "native" ? event.events : [event])
        if (known.type === "finish") finished.add(known.candidate ?? 0);
      return finished.size >= (request.candidateCount ?? 1);
    },
    handOn(decoded, _exchange, observation) {
      const events = names ? withOwnNames(decoded, names, request) : decoded;
      observation?.onChatEvents(events);
      if (remember) for (const event of events) remember(event);
      const pieces = joined(request.stream ? withoutBody(events, request, codec) : events);
      rest = (isHidden ? pieces.map((event) => renamed(event, request.model)) : pieces).values();
      return rest;
    },
    unread: (more) => [...rest, ...more],
  };
}

/**
 * Restores the names of tools in an answer. Where a hook has removed the caller's body, the caller may speak the upstream's format: it then
 * gets the neutral events, because the frames have the replacements.
 */
function withOwnNames(events: readonly ChatEvent[], names: ToolNames, { native }: ChatRequest): readonly ChatEvent[] {
  const shown = native ? events : events.flatMap((event) => (event.type === "native" ? event.events : event));
  return shown.map((event) => names.inAnswer(event));
}

/** Removes the caller's version and beta features from a request, unless the host permits them. */
function permitted({ versions = "pass", betas = "pass" }: UpstreamOptions, request: ChatRequest): ChatRequest {
  if (!request.native || (versions === "pass" && betas === "pass")) return request;
  const { version, ...native } = request.native;
  return {
    ...request,
    native: {
      ...native,
      ...(version !== undefined && isPermitted(versions, version) && { version }),
      betas: native.betas.filter((beta) => isPermitted(betas, beta)),
    },
  };
}

/**
 * Returns the caller's own body if its upstream gets it, with the gateway's changes; undefined for a request that is converted. A caller of
 * the upstream's own format is sent every part, and answers for it.
 */
const ownBody = ({ native }: ChatRequest, { format }: ChatCodec): WireObject | undefined =>
  native?.format === format ? native.body : undefined;

/**
 * Adds signatures and reasoning of earlier answers that the client has not sent back. For a body in the upstream's own format, the codec
 * decides what of it the body lacks.
 */
function restored(memory: TurnMemory, codec: ChatCodec, request: ChatRequest, { key }: TurnContext): ChatRequest {
  if (!ownBody(request, codec))
    return memory.restored(key.id, withLostResults(request, codec.format), makerIn(codec, request.model));
  const remembered = memory.recalled(key.id, request);
  return request.native && remembered.size > 0 ? { ...request, native: { ...request.native, remembered } } : request;
}

/** Returns the maker of a model's reasoning. */
const makerIn = ({ makerOf, format }: ChatCodec, model: string): string => makerOf?.(model) ?? format;

const isPermitted = (policy: NamePolicy, name: string): boolean =>
  policy === "pass" || (policy !== "none" && policy.includes(name));

/** A conversation of more parts or characters takes some milliseconds to encode. */
const MANY_PARTS = 2_000;
const MANY_CHARS = 2 * 1024 ** 2;

function isLong({ messages }: ChatRequest): boolean {
  let count = 0;
  let chars = 0;
  for (const { parts } of messages) {
    count += parts.length;
    for (const part of parts) chars += "text" in part ? part.text.length : 0;
  }
  return count > MANY_PARTS || chars > MANY_CHARS;
}

/**
 * Reports the conversions of a request's fields. Throws `failed_precondition` for a rejected field and, when `strict` is true, for a
 * dropped or an approximated field.
 */
export function reportConversions(
  conversions: readonly Conversion[],
  call: Pick<CallContext, "reportConversions">,
  strict: boolean,
): void {
  if (conversions.length === 0) return;
  // When no message is left after dropping fields, refuse the request and name the dropped fields.
  const isEmpty = conversions.some(({ field }) => field === "messages.none");
  const refused = conversions.filter(
    ({ conversion }) =>
      conversion === "rejected" || (isEmpty && conversion === "dropped") || (strict && conversion !== "emulated"),
  );
  if (refused.length > 0) {
    const reasons = refused.map(({ field, why }) => `${field} (${why})`).join(", ");
    throw new GatewayError("failed_precondition", `This model cannot take all parts of this request: ${reasons}`);
  }
  call.reportConversions(conversions);
}

/**
 * Returns a complete answer as a piece of a stream, which cannot pass a body on. Some upstreams answer a request for a stream with a complete
 * answer. A caller of the same format gets the neutral events, because an encoder leaves out the events of a piece of its own format.
 */
function withoutBody(events: readonly ChatEvent[], request: ChatRequest, codec: ChatCodec): readonly ChatEvent[] {
  const [whole] = events;
  if (whole?.type !== "native" || whole.body === undefined) return events;
  if (ownBody(request, codec)) return whole.events;
  const { body: _body, ...piece } = whole;
  return [{ ...piece, frames: [] }];
}

type FramedEvent = Extract<NativeEvent, { readonly frames: readonly NativeFrame[] }>;

/**
 * Joins the events of frames that came together, because forwarding an event costs the same for any size. A finish begins a new
 * event, because frames from the finish on are sent only after the call is settled.
 */
export function joined(events: readonly ChatEvent[]): readonly ChatEvent[] {
  if (events.length < 2) return events;
  const groups: [FramedEvent, ...FramedEvent[]][] = [];
  let group: [FramedEvent, ...FramedEvent[]] | undefined;
  let chars = 0;
  for (const event of events) {
    if (event.type !== "native" || event.frames === undefined) return events;
    if (group && chars <= MAX_JOINED_CHARS && !event.events.some(({ type }) => type === "finish")) group.push(event);
    else {
      group = [event];
      groups.push(group);
      chars = 0;
    }
    for (const { data } of event.frames) chars += data.length;
  }
  return groups.map(joinedGroup);
}

function joinedGroup(group: readonly [FramedEvent, ...FramedEvent[]]): ChatEvent {
  if (group.length === 1) return group[0];
  const frames: NativeFrame[] = [];
  const events: NativeEvent["events"][number][] = [];
  let text: string | undefined = "";
  for (const event of group) {
    frames.push(...event.frames);
    events.push(...event.events);
    const run = textOfRun(event.frames);
    text = run === undefined || text === undefined ? undefined : text + run;
  }
  if (text !== undefined) noteRun(frames, text);
  const unsupported = (): readonly string[] => group.flatMap((event) => event.unsupported?.() ?? []);
  return { type: "native", format: group[0].format, frames, events, unsupported };
}

/** Asks the upstream for the number of a request's input tokens. Resolves with undefined when the upstream has no route for this. */
async function countTokens(
  upstream: Upstream,
  codec: ChatCodec,
  request: ChatRequest,
  call: CallContext,
  failures: Failures,
): Promise<number | undefined> {
  if (!codec.count) return undefined;
  const { limits, json } = upstream;
  const exchange = new Exchange(upstream.clock, call.signal);
  try {
    const { body, path, headers } = codec.count.encode(request);
    const sent = writeJson(body, ownBody(request, codec));
    const response = await upstream.send({ path, headers, body: sent, stream: false }, exchange);
    if (response.status < 200 || response.status > 299) {
      let hasNoRoute = false;
      const asked = { codec, path, model: request.model, onNoRoute: () => void (hasNoRoute = true) };
      const error = await refusalOf(response, upstream, asked, failures, exchange);
      if (hasNoRoute) return undefined;
      throw error;
    }
    if (!isOfType(response, JSON_TYPE)) throw await ofWrongType(response, upstream, { path }, failures, exchange);
    const text = new TextDecoder().decode(await readBytes(response, limits.maxBodyBytes, exchange));
    const tokens = codec.count.decode(parseAnswerObject(text, json));
    if (typeof tokens === "number") return tokens;
    throw backendFailed("The model backend's answer holds no count of tokens.");
  } catch (error) {
    throw failures.told(error);
  } finally {
    exchange.cut(UNREAD);
  }
}
