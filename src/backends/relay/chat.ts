/** Relays chat to an upstream: the request in its format, the answer's events as they come. */

import type { ChatCodec } from "../../dialects/codec.ts";
import { nextIteration } from "../../media/yield-to-event-loop.ts";
import type { ChatRequest, NativeRequest } from "../../model/chat.ts";
import type { ChatEvent } from "../../model/event.ts";
import type { CallContext, ModelBackend, ModelInfo } from "../../ports/model-backend.ts";
import { type Answer, CompleteAnswer, StreamedAnswer } from "./answer.ts";
import { countedBy } from "./count.ts";
import { EVENT_STREAM, isOfType, JSON_TYPE } from "./content-type.ts";
import { Exchange, LEFT } from "./exchange.ts";
import { observed } from "./observe.ts";
import { reportFates } from "./fates.ts";
import { joined } from "./join.ts";
import type { NamePolicy, RelayBackend, RelayFormat, RelayOptions } from "./options.ts";
import { renamed } from "../rename.ts";
import type { UpstreamResponse } from "./transport.ts";
import { Upstream } from "./upstream.ts";

type Policies = Required<Pick<RelayOptions, "betas" | "versions" | "strict" | "showUpstreamModel">>;

export class ChatRelay implements RelayBackend {
  readonly models?: () => readonly ModelInfo[];
  readonly hangUp?: NonNullable<ModelBackend["hangUp"]>;
  readonly #upstream: Upstream;
  readonly #codec: ChatCodec;
  readonly #format: RelayFormat;
  readonly #policies: Policies;

  constructor(options: RelayOptions, codec: ChatCodec) {
    const { betas = "pass", versions = "pass", strict = false, showUpstreamModel = false, hangUp } = options;
    this.#upstream = new Upstream(options);
    this.#codec = codec;
    this.#format = options.format;
    this.#policies = { betas, versions, strict, showUpstreamModel };
    const { list } = this.#upstream.names;
    if (list) this.models = () => list;
    if (hangUp) this.hangUp = hangUp;
  }

  countInputTokens(request: ChatRequest, call: CallContext): Promise<number | undefined> {
    const asked = this.#asked(request, this.#upstream.names.upstreamName(request.model));
    return countedBy(this.#upstream, this.#codec, { ...asked, stream: false }, call);
  }

  async *chat(request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent> {
    const { names, clock, failures } = this.#upstream;
    const { strict, showUpstreamModel } = this.#policies;
    const model = names.upstreamName(request.model);
    const { fates, body, ...encoded } = this.#codec.encodeRequest(this.#asked(request, model));
    reportFates(fates, call, strict);
    // To encode a long conversation and to write it are two walks: others are served between them.
    if (isLong(request)) await nextIteration();
    const isHidden = model !== request.model && !showUpstreamModel;
    const exchange = new Exchange(clock, call.signal);
    const watch = observed(this.#upstream, { format: this.#format, model, stream: request.stream }, call);
    try {
      const sent = { ...encoded, body: JSON.stringify(body), stream: request.stream };
      const response = await (watch?.send(sent, exchange) ?? this.#upstream.send(sent, exchange));
      if (response.status < 200 || response.status > 299)
        throw await failures.ofResponse(response, this.#codec, exchange);
      const answer = this.#answer(response, request, exchange);
      if (!answer) throw await failures.ofWrongType(response, exchange);
      for (let events = await answer.next(); events; events = await answer.next())
        for (const event of joined(events)) {
          watch?.saw(event);
          yield isHidden ? renamed(event, request.model) : event;
        }
      exchange.end();
    } catch (error) {
      const told = failures.told(error);
      watch?.failed(told);
      throw told;
    } finally {
      // Lets go of a connection whose answer is not read to its end: the caller left, or it was none.
      exchange.cut(LEFT);
      watch?.end(call.signal);
    }
  }

  close(): Promise<void> {
    return this.#upstream.close();
  }

  #asked(request: ChatRequest, model: string): ChatRequest {
    const { native } = request;
    return { ...request, model, ...(native && { native: this.#permitted(native) }) };
  }

  /** What of the caller's versions and betas the host lets through. */
  #permitted(request: NativeRequest): NativeRequest {
    if (this.#policies.versions === "pass" && this.#policies.betas === "pass") return request;
    const { version, betas, ...native } = request;
    const permitted = version !== undefined && isPermitted(this.#policies.versions, version);
    return {
      ...native,
      ...(permitted && { version }),
      betas: betas.filter((beta) => isPermitted(this.#policies.betas, beta)),
    };
  }

  /** Undefined for a body that is not of the type that was asked for. */
  #answer(
    response: UpstreamResponse,
    { stream, candidateCount = 1 }: ChatRequest,
    exchange: Exchange,
  ): Answer<ChatEvent> | undefined {
    const { json, limits, timeouts } = this.#upstream;
    if (!isOfType(response, stream ? EVENT_STREAM : JSON_TYPE)) return undefined;
    const isFinish = lastFinish(candidateCount);
    const source = { response, decoder: this.#codec.answerDecoder(json), isFinish, exchange, timeouts, limits };
    return stream ? new StreamedAnswer(source) : new CompleteAnswer(source);
  }
}

/** Tells the event with which the last of so many candidates has finished. */
function lastFinish(candidateCount: number): (event: ChatEvent) => boolean {
  const finished = new Set<number>();
  return (event) => {
    for (const meant of event.type === "native" ? event.means : [event])
      if (meant.type === "finish") finished.add(meant.candidate ?? 0);
    return finished.size >= candidateCount;
  };
}

/** From how many parts or characters on a conversation takes some milliseconds to be walked over. */
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

const isPermitted = (policy: NamePolicy, name: string): boolean =>
  policy === "pass" || (policy !== "none" && policy.includes(name));
