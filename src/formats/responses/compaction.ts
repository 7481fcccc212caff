/**
 * Compaction: `POST /v1/responses/compact` replaces a conversation by its user messages and a summary, which the conversation's own model
 * writes. A request whose last item is a `compaction_trigger` gets the summary alone. A request with `context_management` has a long
 * conversation compacted before it is answered. The summary is sealed: its caller sends it back, and can neither read nor change it.
 */

import { keyNameOf } from "../../encryption.ts";
import { type FieldPath, type GatewayError, invalidField, backendFailed } from "../../errors.ts";
import { RawJson } from "../../http/answer.ts";
import type { ChatKind } from "../../kinds/chat/index.ts";
import type { AnswerEvent } from "../../model/chat-event.ts";
import type {
  ChatMessage,
  ChatRequest,
  ConversationCompaction,
  FunctionTool,
  Part,
  ProviderPart,
} from "../../model/chat-request.ts";
import { isJsonObject, JsonLimitError, type JsonObject, parseJson } from "../../model/json.ts";
import { NO_USAGE, type Usage } from "../../model/usage.ts";
import type { AnswerCollector, AnswerContext, AnswerStream, EndpointOf, Incoming } from "../format.ts";
import { encodeUsage } from "./answer.ts";
import { COMPACT_FORMAT, type Compactions, SIGN } from "./compaction.keys.ts";
import { baseOf, itemsOf, keptItem, type ResponsesNative } from "./kept.ts";
import { InputEncoder } from "./request.input.ts";
import { FORMAT } from "./routes.ts";
import type { ResponsesRequest } from "./schema.ts";
import type { Decode } from "./socket.ts";

/** The sentence before a summary, in the message that takes the place of the earlier turns. */
const BEFORE_SUMMARY = "The earlier turns of this conversation were replaced by this summary of them:";

/** A compaction that takes the place of all items before it. */
interface Compacted {
  readonly summary: string;
  /** The instructions and tools of the conversation. */
  readonly before: readonly JsonObject[];
  /** The newest turn. */
  readonly after: readonly JsonObject[];
}

/** Begins the sealed text of a compaction that stands for all items before it. A summary alone begins with no white space. */
const WHOLE = "\n";

const summaryItem = (summary: string): JsonObject => ({
  type: "message",
  role: "user",
  content: [{ type: "input_text", text: summaryText(summary) }],
});

const summaryText = (summary: string): string => `${BEFORE_SUMMARY}\n\n${summary}`;

/** Returns the sealed summary in an item; undefined for any other item, such as a compaction of an upstream. */
const sealedIn = ({ type, encrypted_content: sealed }: JsonObject): string | undefined =>
  type === "compaction" && typeof sealed === "string" && sealed.startsWith(SIGN) ? sealed : undefined;

/**
 * Returns items with messages in place of sealed summaries; the same list when there are none. The newest compaction that stands for all items
 * before it takes their place. Throws `invalid_request` for a summary that cannot be opened.
 *
 * @param incoming Its budget counts the values of the items that were sealed.
 * @param firstOwn The number of items that stand before those of the caller's body.
 */
export async function opened(
  items: readonly JsonObject[],
  compactions: Compactions | undefined,
  { keyId, json }: Pick<Incoming, "keyId"> & Partial<Pick<Incoming, "json">>,
  firstOwn: number,
): Promise<readonly JsonObject[]> {
  if (!items.some((item) => sealedIn(item) !== undefined)) return items;
  // The newest items first: what stands before a whole compaction is not even opened.
  const replaced: JsonObject[] = [];
  for (let index = items.length - 1; index >= 0; index--) {
    const item = items[index] as JsonObject;
    const sealed = sealedIn(item);
    if (sealed === undefined) {
      replaced.push(item);
      continue;
    }
    const path = index < firstOwn ? ["previous_response_id"] : ["input", index - firstOwn, "encrypted_content"];
    const text = await summaryIn(sealed, compactions, keyId ?? "", path);
    if (!text.startsWith(WHOLE)) replaced.push(summaryItem(text));
    else {
      const { summary, before, after } = compactedIn(text, json, path);
      for (const one of after.toReversed()) replaced.push(one);
      replaced.push(summaryItem(summary));
      for (const one of before.toReversed()) replaced.push(one);
      break;
    }
  }
  return replaced.toReversed();
}

function compactedIn(text: string, json: Incoming["json"] | undefined, path: FieldPath): Compacted {
  try {
    json?.booking?.take(text.length);
    // The cast is safe: the gateway has sealed it.
    return parseJson(text, json) as Compacted;
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw invalidField(path, `the request ${error.message}, with what is sealed`);
  }
}

async function summaryIn(
  sealed: string,
  compactions: Compactions | undefined,
  keyId: string,
  path: FieldPath,
): Promise<string> {
  try {
    if (compactions && keyNameOf(sealed.slice(SIGN.length)) !== undefined) return await compactions.open(sealed, keyId);
  } catch {
    // The caller is told below.
  }
  const why = "it was changed, belongs to another API key, or comes from another service";
  throw invalidField(path, `the compaction cannot be opened: ${why}`);
}

/** Returns the request with the prompt for a summary at its end. Its tools stay for the calls of the conversation, and may not be called. */
function asking(
  { responseFormat: _format, toolChoice: _choice, ...request }: ChatRequest,
  prompt: string,
): ChatRequest {
  const tools = [...request.tools, ...undefinedTools(request)];
  const messages = withLast(request.messages, prompt);
  return { ...request, messages, tools, ...(tools.length > 0 && { toolChoice: { type: "none" } }) };
}

/** Returns a decoder that also takes requests whose last item asks for a compaction. */
export function decodesTriggers(decode: Decode, { prompt }: Compactions): Decode {
  return async (body, incoming) => {
    const input = isJsonObject(body) && Array.isArray(body["input"]) ? (body["input"] as readonly unknown[]) : [];
    const last = input.at(-1);
    if (!isJsonObject(body) || !isJsonObject(last) || last["type"] !== TRIGGER) return decode(body, incoming);
    if (body["background"] === true) throw invalidField(["background"], "a compaction is not made in the background");
    const request = await decode({ ...body, input: input.slice(0, -1) }, incoming);
    // No upstream gets the body as it came. The summary is the whole answer, so the conversation is not compacted before it.
    const { compaction: _automatic, ...own } = request.native as ResponsesNative;
    const native: TriggerNative = {
      ...own,
      format: TRIGGER,
      keyId: incoming.keyId ?? "",
    };
    return asking({ ...request, native }, prompt);
  };
}

interface TriggerNative extends ResponsesNative {
  readonly keyId: string;
}

/** The type of an item that asks for a compaction, and the format of a request with one, as backends and relays see it in `native`. */
const TRIGGER = "compaction_trigger";

/** Tells whether a request ends with an item that asks for a compaction. */
export const isTriggered = ({ request }: AnswerContext): boolean => request.native?.format === TRIGGER;

/** Collects what the model writes, and seals it. */
class Summary {
  sealed: string | undefined;
  readonly #pieces: string[] = [];
  readonly #compactions: Compactions;

  constructor(compactions: Compactions) {
    this.#compactions = compactions;
  }

  add(event: AnswerEvent): void {
    if (event.type === "native") for (const inner of event.events) this.#text(inner);
    else this.#text(event);
  }

  async seal(keyId: string): Promise<void> {
    const summary = this.#pieces.join("").trim();
    if (summary !== "") this.sealed = await this.#compactions.seal(summary, keyId);
  }

  #text(event: { readonly type: string; readonly text?: string }): void {
    if (event.type === "text-delta" && event.text !== undefined) this.#pieces.push(event.text);
  }
}

const noSummary = (): GatewayError => backendFailed("The model wrote no summary.");

/** Answers a request for a compaction like any other, with the sealed summary as the one item. */
class TriggeredAnswer<Inner extends AnswerCollector<AnswerEvent> | AnswerStream<AnswerEvent>> {
  protected readonly inner: Inner;
  readonly #context: AnswerContext;
  readonly #summary: Summary;

  constructor(inner: Inner, context: AnswerContext, compactions: Compactions) {
    this.inner = inner;
    this.#context = context;
    this.#summary = new Summary(compactions);
  }

  async keep(finish: AnswerEvent): Promise<void> {
    await this.#summary.seal((this.#context.request.native as TriggerNative).keyId);
    const { sealed } = this.#summary;
    if (sealed === undefined) return;
    const value = { id: `cmp_${baseOf(this.#context.requestId)}_0`, type: "compaction", encrypted_content: sealed };
    this.pass({ type: "provider", format: FORMAT, value });
    await this.inner.keep?.(withoutNative(finish));
  }

  protected take(event: AnswerEvent): void {
    if (event.type !== "start" && event.type !== "finish") return this.#summary.add(event);
    if (event.type === "finish" && this.#summary.sealed === undefined) throw noSummary();
    this.pass(withoutNative(event));
  }

  protected pass(_event: AnswerEvent): void {}
}

/** Returns the event without the frames or the body of its upstream. */
function withoutNative(event: AnswerEvent): AnswerEvent {
  if (event.type !== "start" && event.type !== "finish") return event;
  const { native: _native, ...rest } = event;
  return rest;
}

export class TriggeredCollector
  extends TriggeredAnswer<AnswerCollector<AnswerEvent>>
  implements AnswerCollector<AnswerEvent>
{
  add(event: AnswerEvent): void {
    this.take(event);
  }

  body(): unknown {
    return this.inner.body();
  }

  protected override pass(event: AnswerEvent): void {
    this.inner.add(event);
  }
}

export class TriggeredStream extends TriggeredAnswer<AnswerStream<AnswerEvent>> implements AnswerStream<AnswerEvent> {
  #frames = "";

  get contentType(): string {
    return this.inner.contentType;
  }

  get keepAlive(): string {
    return this.inner.keepAlive;
  }

  encode(event: AnswerEvent): string {
    this.take(event);
    const frames = this.#frames;
    this.#frames = "";
    return frames;
  }

  error(error: GatewayError): string {
    return this.inner.error(error);
  }

  protected override pass(event: AnswerEvent): void {
    this.#frames += this.inner.encode(event);
  }
}

/** The native request of a compaction, with what its answer needs. */
interface CompactNative extends Omit<ResponsesNative, "own"> {
  readonly compact: { readonly userItems: readonly JsonObject[]; readonly keyId: string };
}

/**
 * Makes the endpoint that compacts a conversation with one metered call.
 *
 * @param create The endpoint whose requests are compacted.
 * @param decode Decodes such a request.
 * @param now Returns the Unix time in seconds.
 */
export function compactEndpoint(
  create: EndpointOf<ChatKind>,
  decode: Decode,
  compactions: Compactions,
  now: () => number,
): EndpointOf<ChatKind> {
  return {
    ...create,
    path: "/v1/responses/compact",
    decode: (body, incoming) => decodeCompact(body, incoming, decode, compactions.prompt),
    complete: (answer) => new CompactCollector(answer, compactions, now),
    background: () => undefined,
  };
}

async function decodeCompact(body: unknown, incoming: Incoming, decode: Decode, prompt: string): Promise<ChatRequest> {
  const asked = isJsonObject(body) ? { ...body, stream: false, store: false, background: false } : body;
  const request = await decode(asked, incoming);
  const resolved = (request.native as ResponsesNative).body;
  // The cast is safe: the decoder has checked the input.
  const items = itemsOf(resolved["input"] as Parameters<typeof itemsOf>[0]);
  const userItems = items.filter(({ type, role }) => (type ?? "message") === "message" && role === "user");
  const compact: CompactNative = {
    format: COMPACT_FORMAT,
    body: resolved,
    betas: [],
    compact: { userItems, keyId: incoming.keyId ?? "" },
  };
  return { ...asking(request, prompt), stream: false, native: compact };
}

/** The format of the request for the summary of an automatic compaction. */
const SUMMARY_FORMAT = "responses/summary";

/** Returns the input tokens above which a request wants its conversation compacted; null for a request that does not want it. */
export function thresholdIn({
  context_management: entries,
}: Partial<Pick<ResponsesRequest, "context_management">>): number | undefined | null {
  const entry = entries?.find(({ type }) => type === "compaction");
  return entry ? (entry.compact_threshold ?? undefined) : null;
}

/** The compaction of one request with `context_management`. An object of a class, so that hooks do not copy it. */
export class AutomaticCompaction implements ConversationCompaction {
  readonly threshold: number | undefined;
  readonly #compactions: Compactions;
  readonly #call: Pick<Incoming, "id" | "keyId" | "limits">;
  readonly #items: readonly JsonObject[];

  /** @param items The whole input. */
  constructor(
    threshold: number | undefined,
    compactions: Compactions,
    call: Pick<Incoming, "id" | "keyId" | "limits">,
    items: readonly JsonObject[],
  ) {
    this.threshold = threshold;
    this.#compactions = compactions;
    this.#call = call;
    this.#items = items;
  }

  summaryOf(request: ChatRequest): ChatRequest | undefined {
    const { earlier } = divided(request.messages);
    if (earlier.length === 0) return undefined;
    const { logprobs: _logprobs, ...rest } = request;
    return {
      ...asking({ ...rest, messages: joined(earlier) }, this.#compactions.prompt),
      maxOutputTokens: this.#call.limits.defaultMaxOutputTokens,
      limitedByDefault: true,
      stopSequences: [],
      native: { format: SUMMARY_FORMAT, body: this.without(request).native?.body ?? {}, betas: [] },
    };
  }

  replaced(request: ChatRequest, summary: string): ChatRequest {
    const { native } = request;
    const { system, newest } = divided(request.messages);
    const said: ChatMessage = { role: "user", parts: [{ type: "text", text: summaryText(summary) }] };
    const messages = joined([...system, said, ...newest]);
    if (native?.format !== FORMAT) return { ...request, messages };
    const { kept, newest: items } = dividedItems(this.#items);
    const input = [...kept, summaryItem(summary), ...items];
    return { ...request, messages, native: { ...native, body: { ...native.body, input } } };
  }

  async itemOf(request: ChatRequest, summary: string): Promise<ProviderPart> {
    const { kept, newest } = dividedItems(this.#items);
    const compacted: Compacted = {
      summary,
      before: kept,
      // A hook may have taken secrets out of what the caller has sent.
      after: request.native?.format === FORMAT ? newest : encoded(request),
    };
    const encrypted_content = await this.#compactions.seal(WHOLE + JSON.stringify(compacted), this.#call.keyId ?? "");
    const id = `cmp_${baseOf(this.#call.id)}_0`;
    return { type: "provider", format: FORMAT, value: { id, type: "compaction", encrypted_content } };
  }

  without(request: ChatRequest): ChatRequest {
    const { native } = request;
    if (!native) return request;
    const { context_management: _management, ...body } = native.body;
    return { ...request, native: { ...native, body } };
  }
}

/** Returns the items of the newest turn as a hook has left it. */
const encoded = (request: ChatRequest): readonly JsonObject[] =>
  new InputEncoder({ ...request, system: [], messages: divided(request.messages).newest }, new Set(), "drop").encode();

/** Divides a conversation. Instructions between the turns stay as they are. */
function divided(messages: readonly ChatMessage[]): {
  readonly earlier: readonly ChatMessage[];
  readonly newest: readonly ChatMessage[];
  readonly system: readonly ChatMessage[];
} {
  const roles = messages.map(({ role }) => role);
  const start = newestOf(roles, (at) => {
    const parts = messages[at]?.parts ?? [];
    return {
      calls: parts.flatMap((part) => (part.type === "tool-call" ? part.id : [])),
      results: parts.flatMap((part) => (part.type === "tool-result" ? part.callId : [])),
    };
  });
  const before = messages.slice(0, start);
  return {
    earlier: before.filter(({ role }) => role !== "system"),
    newest: messages.slice(start),
    system: before.filter(({ role }) => role === "system"),
  };
}

/** Divides the items of the same conversation. `kept` has its instructions and tools, and the compactions of others, which nobody here reads. */
function dividedItems(items: readonly JsonObject[]): {
  readonly kept: readonly JsonObject[];
  readonly newest: readonly JsonObject[];
} {
  const roles = items.map(roleOf);
  const start = newestOf(roles, (at) => {
    const id = items[at]?.["call_id"];
    const ids = typeof id === "string" ? [id] : [];
    return roles[at] === "user" ? { calls: [], results: ids } : { calls: ids, results: [] };
  });
  return {
    kept: items.slice(0, start).filter((item, at) => roles[at] === "system" || item["type"] === "compaction"),
    newest: items.slice(start),
  };
}

function roleOf({ type = "message", role }: JsonObject): ChatMessage["role"] {
  if (type === "message") return role === "user" ? "user" : role === "assistant" ? "assistant" : "system";
  if (type === "function_call_output" || type === "custom_tool_call_output") return "user";
  return type === "additional_tools" ? "system" : "assistant";
}

/** The ids of the calls and the results at one place of a conversation. */
interface IdsAt {
  readonly calls: readonly string[];
  readonly results: readonly string[];
}

/** Returns the beginning of the newest turn: the last words of the user, and the calls that they answer. No result stands without its call. */
function newestOf(roles: readonly ChatMessage["role"][], callsAt: (at: number) => IdsAt): number {
  let start = roles.length;
  let answers = false;
  const unmet = new Set<string>();
  const take = (at: number): void => {
    const { calls, results } = callsAt(at);
    for (const id of results) unmet.add(id);
    for (const id of calls) unmet.delete(id);
    answers ||= results.length > 0;
  };
  while (roles[start - 1] === "system") start--;
  while (roles[start - 1] === "user") take(--start);
  while (start > 0 && unmet.size > 0) take(--start);
  if (answers) while (roles[start - 1] === "assistant") start--;
  return start;
}

/** Joins turns of the same role, between which others were left out. */
function joined(messages: readonly ChatMessage[]): ChatMessage[] {
  const turns: ChatMessage[] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (last?.role === message.role) turns[turns.length - 1] = { ...last, parts: [...last.parts, ...message.parts] };
    else turns.push(message);
  }
  return turns;
}

/** Adds the prompt behind the conversation. A call without a result gets one, because no upstream takes the prompt before that. */
function withLast(messages: readonly ChatMessage[], prompt: string): ChatMessage[] {
  const open = new Map<string, string>();
  for (const { parts } of messages)
    for (const part of parts) {
      if (part.type === "tool-call") open.set(part.id, part.name);
      else if (part.type === "tool-result") open.delete(part.callId);
    }
  const results = [...open].map(([callId, name]): Part => ({
    type: "tool-result",
    callId,
    name,
    parts: [{ type: "text", text: "The tool has not answered yet." }],
  }));
  const parts: Part[] = [...results, { type: "text", text: prompt }];
  const last = messages.at(-1);
  // Two turns in sequence never have the same role.
  return last?.role === "user"
    ? [...messages.slice(0, -1), { ...last, parts: [...last.parts, ...parts] }]
    : [...messages, { role: "user", parts }];
}

/** Returns definitions for the tools that the conversation calls and the request does not define: upstreams refuse calls of unknown tools. */
function undefinedTools({ messages, tools }: Pick<ChatRequest, "messages" | "tools">): FunctionTool[] {
  const names = new Set(
    messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool-call" ? part.name : []))),
  );
  for (const tool of tools) if ("name" in tool && tool.name !== undefined) names.delete(tool.name);
  return [...names].map((name) => ({ type: "function", name, inputSchema: { type: "object", properties: {} } }));
}

/** Collects the summary, and seals it before the answer is written. */
class CompactCollector implements AnswerCollector<AnswerEvent> {
  readonly #context: AnswerContext;
  readonly #summary: Summary;
  readonly #now: () => number;
  #usage: Usage = NO_USAGE;
  /** The answer of an upstream that has compacted the conversation itself. */
  #passed: string | undefined;

  constructor(context: AnswerContext, compactions: Compactions, now: () => number) {
    this.#context = context;
    this.#summary = new Summary(compactions);
    this.#now = now;
  }

  async keep(finish: AnswerEvent): Promise<void> {
    if (finish.type === "finish" && finish.native?.format === COMPACT_FORMAT) this.#passed = finish.native.body;
    await this.#summary.seal(this.#native.compact.keyId);
  }

  add(event: AnswerEvent): void {
    if (event.type === "finish") this.#usage = event.usage;
    else this.#summary.add(event);
  }

  body(): object {
    if (this.#passed !== undefined) return new RawJson(this.#passed);
    const { sealed } = this.#summary;
    if (sealed === undefined) throw noSummary();
    const base = baseOf(this.#context.requestId);
    const { userItems } = this.#native.compact;
    return {
      id: `cmp_${base}`,
      object: "response.compaction",
      created_at: this.#now(),
      output: [
        ...userItems.map((item, index) => keptItem(item, base, index)),
        { id: `cmp_${base}_0`, type: "compaction", encrypted_content: sealed },
      ],
      usage: encodeUsage(this.#usage),
    };
  }

  get #native(): CompactNative {
    return this.#context.request.native as CompactNative;
  }
}
