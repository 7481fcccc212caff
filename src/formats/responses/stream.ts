/** The answer to a caller, complete or streamed: made of neutral events, or the bytes of an upstream that speaks the same format. */

import type { GatewayError } from "../../errors.ts";
import { RawJson } from "../../http/answer.ts";
import type { AnswerEvent } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { AnswerCollector, AnswerContext, AnswerStream } from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import { encodeError } from "../shared/errors.ts";
import { ResponseBuilder } from "./answer.ts";
import { keepResponse, keptFields } from "./kept.ts";
import { FORMAT } from "./schema.ts";
import { dataOf, PassedFrames, promisedFields, withFields } from "./stream.native.ts";

type Finish = Extract<AnswerEvent, { type: "finish" }>;

/**
 * Keeps a response for its caller. Resolves with false if it is not to be kept, or if that fails: the answer is paid for, and says that it is
 * not kept.
 */
async function keep(context: AnswerContext, response: JsonObject | undefined): Promise<boolean> {
  try {
    return response !== undefined && (await keepResponse(context, response));
  } catch (error) {
    context.kept?.failed(error);
    return false;
  }
}

export class ResponseCollector implements AnswerCollector<AnswerEvent> {
  readonly #context: AnswerContext;
  readonly #builder: ResponseBuilder;
  #native: string | undefined;
  /** True once the finish was added to keep the answer. */
  #isAdded = false;

  /** @param now Returns the Unix time in seconds. */
  constructor(context: AnswerContext, now: () => number) {
    this.#context = context;
    this.#builder = new ResponseBuilder(context, now);
  }

  async keep(finish: AnswerEvent): Promise<void> {
    if (!keptFields(this.#context)) return;
    this.add(finish);
    this.#isAdded = true;
    const native = this.#native === undefined ? undefined : parseJson(this.#native);
    const response = isJsonObject(native) ? native : (this.#builder.body as unknown as JsonObject);
    const isKept = await keep(this.#context, response);
    this.#builder.isKept = isKept;
    if (this.#native !== undefined) this.#native = withFields(this.#native, [], { store: isKept });
  }

  add(event: AnswerEvent): void {
    if (this.#isAdded) return;
    // Skip the decoded events of a complete body: `finish` brings the body itself, which is passed on unchanged.
    if (event.type === "native" && event.isWhole && event.format === FORMAT) return;
    if (event.type === "finish" && event.native?.format === FORMAT && event.native.body !== undefined)
      this.#native = withFields(event.native.body, [], promisedFields(this.#context));
    if (this.#native === undefined) this.#builder.add(event);
  }

  body(): object {
    return this.#native === undefined ? this.#builder.body : new RawJson(this.#native);
  }
}

export class ResponseStream implements AnswerStream<AnswerEvent> {
  readonly contentType = "text/event-stream; charset=utf-8";
  /** A comment, which clients skip. */
  readonly keepAlive = ": keep-alive\n\n";
  readonly #context: AnswerContext;
  readonly #builder: ResponseBuilder;
  /** Set once a frame of the upstream has passed. */
  #passed: PassedFrames | undefined;
  #sequence = 0;
  #text = "";
  /** The frames of the finish but for the last, once it was added to keep the answer. */
  #ending: string | undefined;

  /** @param now Returns the Unix time in seconds. */
  constructor(context: AnswerContext, now: () => number) {
    this.#context = context;
    this.#builder = new ResponseBuilder(context, now, (type, fields) => this.#emit(type, fields));
  }

  async keep(finish: AnswerEvent): Promise<void> {
    if (finish.type !== "finish" || !keptFields(this.#context)) return;
    this.#ending = this.#finish(finish);
    const response = this.#passed ? this.#passed.response : (this.#builder.body as unknown as JsonObject);
    this.#builder.isKept = await keep(this.#context, response);
  }

  encode(event: AnswerEvent): string {
    if (event.type === "finish") {
      const frames = this.#ending ?? this.#finish(event);
      if (this.#passed) return frames + this.#passed.conclude({ store: this.#builder.isKept });
      this.#text = "";
      this.#builder.conclude();
      return frames + this.#text;
    }
    if (event.type === "start" && event.native === FORMAT) {
      this.#passed = new PassedFrames(promisedFields(this.#context));
      return "";
    }
    if (this.#passed) return event.type === "native" ? this.#passed.pass(event.frames ?? []) : "";
    this.#text = "";
    this.#builder.add(event);
    return this.#text;
  }

  /** Ends the stream in two ways: some clients throw for the event `error`, and others read the failed response. */
  error(error: GatewayError): string {
    const body = encodeError(error);
    // A failed response is not kept.
    if (this.#ending === undefined) this.#builder.isKept = false;
    const passed = this.#passed?.fail(body, { store: this.#builder.isKept });
    if (passed !== undefined) return passed;
    this.#text = "";
    this.#builder.fail(body);
    return this.#text;
  }

  /** Returns the frames of the finish without the last one. */
  #finish(finish: Finish): string {
    if (this.#passed) return this.#passed.pass(finish.native?.frames ?? []) + this.#passed.end(finish.usage);
    this.#text = "";
    this.#builder.add(finish);
    return this.#text;
  }

  #emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    this.#text += frameOf({ event: type, data: dataOf({ type, sequence_number: this.#sequence++, ...fields }) });
  }
}
