/**
 * Compaction: `POST /v1/responses/compact` replaces a conversation by its user messages and a summary, which the conversation's own model
 * writes. An item `compaction_trigger` at the end of an ordinary request asks for the summary alone. The summary is sealed: its caller sends
 * it back, and can neither read nor change it.
 */

import { type EncryptionKey, ENCRYPTION_KEYS, keyNameOf, Keyring } from "../../encryption.ts";
import { GatewayError } from "../../errors.ts";
import type { ChatKind } from "../../kinds/chat/index.ts";
import type { AnswerEvent } from "../../model/chat-event.ts";
import type { ChatMessage, ChatRequest, FunctionTool, Part, WireObject } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { NO_USAGE, type Usage } from "../../model/usage.ts";
import { type Check, fieldsOf } from "../../options.ts";
import type { AnswerCollector, AnswerContext, AnswerStream, EndpointOf, Incoming } from "../format.ts";
import { upstreamFailed } from "../shared/upstream.ts";
import { encodeUsage } from "./answer.ts";
import { baseOf, itemsOf, keptItem, type ResponsesNative } from "./kept.ts";
import { FORMAT } from "./schema.ts";
import type { Decode } from "./socket.ts";

/** Lets callers compact their conversations. */
export interface CompactionOptions {
  /** The secrets of the summaries. The first seals, and all open: a new first key leaves earlier summaries readable. */
  readonly keys: readonly EncryptionKey[];
  /** Asks the model for the summary, as the last message of the conversation. Default: `COMPACTION_PROMPT`. */
  readonly prompt?: string;
}

export const COMPACTION_SHAPE: Check = fieldsOf<CompactionOptions>({ keys: ENCRYPTION_KEYS, prompt: "string?" });

/** The words by which a model is asked for a summary, unless the host has others. */
export const COMPACTION_PROMPT = `Write a summary of this conversation that lets another assistant continue the work without having seen it. Call no tool.
Include, as far as they occur: the goal and the wishes of the user; what was decided, and why; what was done, with the names of files, functions, commands and addresses; results and errors that still matter; the state of the work, and the next steps.
Keep exact names, numbers and quotations. Leave out everything that is no longer needed. Write only the summary.`;

/** The sentence before a summary, in the message that takes the place of the earlier turns. */
const BEFORE_SUMMARY = "The earlier turns of this conversation were replaced by this summary of them:";

/** Begins each sealed summary. */
const SIGN = "pgc.";

/** The format of a request to compact, as backends and relays see it in `native`. */
const COMPACT_FORMAT = "responses/compact";

/** Seals summaries for one API key, and opens them again. */
export class Compactions {
  readonly prompt: string;
  readonly #keys: Keyring;

  /** @throws RangeError for keys that are missing, have wrong names or lengths, or have the same name. */
  constructor({ keys, prompt = COMPACTION_PROMPT }: CompactionOptions) {
    this.#keys = new Keyring("responses.compaction", keys);
    this.prompt = prompt;
  }

  async seal(summary: string, keyId: string): Promise<string> {
    return SIGN + (await this.#keys.encrypt(summary, ["compaction", keyId]));
  }

  /** Returns the summary. Rejects for a text that was not sealed for this key, or has changed since. */
  open(sealed: string, keyId: string): Promise<string> {
    return this.#keys.decrypt(sealed.slice(SIGN.length), ["compaction", keyId]);
  }
}

/** Returns the sealed summary in an item; undefined for any other item, such as a compaction of an upstream. */
const sealedIn = ({ type, encrypted_content: sealed }: JsonObject): string | undefined =>
  type === "compaction" && typeof sealed === "string" && sealed.startsWith(SIGN) ? sealed : undefined;

/**
 * Returns items with messages in place of sealed summaries; the same list when there are none. Throws `invalid_request` for a summary that
 * cannot be opened.
 *
 * @param firstOwn The number of items that stand before those of the caller's body.
 */
export async function opened(
  items: readonly JsonObject[],
  compactions: Compactions | undefined,
  { keyId }: Pick<Incoming, "keyId">,
  firstOwn: number,
): Promise<readonly JsonObject[]> {
  if (!items.some((item) => sealedIn(item) !== undefined)) return items;
  const replaced: JsonObject[] = [];
  for (const [index, item] of items.entries()) {
    const sealed = sealedIn(item);
    if (sealed === undefined) replaced.push(item);
    else {
      const summary = await summaryIn(sealed, compactions, keyId ?? "", index - firstOwn);
      const text = `${BEFORE_SUMMARY}\n\n${summary}`;
      replaced.push({ type: "message", role: "user", content: [{ type: "input_text", text }] });
    }
  }
  return replaced;
}

async function summaryIn(
  sealed: string,
  compactions: Compactions | undefined,
  keyId: string,
  index: number,
): Promise<string> {
  try {
    if (compactions && keyNameOf(sealed.slice(SIGN.length)) !== undefined) return await compactions.open(sealed, keyId);
  } catch {
    // The caller is told below.
  }
  const path = index < 0 ? ["previous_response_id"] : ["input", index, "encrypted_content"];
  const why = "it was changed, belongs to another API key, or comes from another service";
  throw new GatewayError("invalid_request", `${path.join(".")}: the compaction cannot be opened: ${why}`, { path });
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

/** Decodes requests, of which some end with an item that asks for a compaction. */
export function decodesTriggers(decode: Decode, { prompt }: Compactions): Decode {
  return async (body, incoming) => {
    const input = isJsonObject(body) && Array.isArray(body["input"]) ? (body["input"] as readonly unknown[]) : [];
    const last = input.at(-1);
    if (!isJsonObject(body) || !isJsonObject(last) || last["type"] !== TRIGGER) return decode(body, incoming);
    if (body["background"] === true)
      throw new GatewayError("invalid_request", "background: a compaction is not made in the background", {
        path: ["background"],
      });
    const request = await decode({ ...body, input: input.slice(0, -1) }, incoming);
    // No upstream gets the body as it came.
    const native: TriggerNative = {
      ...(request.native as ResponsesNative),
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

const noSummary = (): GatewayError => upstreamFailed("The model wrote no summary.");

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
    body: body as WireObject,
    betas: [],
    compact: { userItems, keyId: incoming.keyId ?? "" },
  };
  return { ...asking(request, prompt), stream: false, native: compact };
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

  constructor(context: AnswerContext, compactions: Compactions, now: () => number) {
    this.#context = context;
    this.#summary = new Summary(compactions);
    this.#now = now;
  }

  keep(): Promise<void> {
    return this.#summary.seal(this.#native.compact.keyId);
  }

  add(event: AnswerEvent): void {
    if (event.type === "finish") this.#usage = event.usage;
    else this.#summary.add(event);
  }

  body(): object {
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
