/**
 * The answer to a caller of Responses, complete and streamed: built of neutral events, or the bytes of an upstream that speaks this format, with
 * the fields that the gateway decides, and with the end of an answer that was cut short.
 */

import { type GatewayError, backendFailed } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, jsonLine, type JsonObject, PARSED_BEFORE, parseJson } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, CompleteAnswer, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { encodeError, type OpenAIErrorBody } from "../shared/errors.ts";
import { spanAt, withMember } from "../shared/json-text.ts";
import { type BegunResponse, encodeUsage, errorEvent, failureOf, ResponseBuilder } from "./answer.ts";
import { keepResponse, keptFields, type ResponsesNative } from "./kept.ts";
import { FORMAT } from "./routes.ts";

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

export class CompleteResponse extends CompleteAnswer {
  readonly #context: AnswerContext;
  readonly #builder: ResponseBuilder;
  /** True once the finish was added to keep the answer. */
  #isAdded = false;

  /** @param now Returns the Unix time in seconds. */
  constructor(context: AnswerContext, now: () => number) {
    const builder = new ResponseBuilder(context, now);
    super(FORMAT, builder, (body) => withFields(body, [], promisedFields(context)));
    this.#context = context;
    this.#builder = builder;
  }

  async keep(finish: AnswerEvent): Promise<void> {
    if (!keptFields(this.#context)) return;
    this.add(finish);
    this.#isAdded = true;
    const native = this.native === undefined ? undefined : parseJson(this.native, PARSED_BEFORE);
    const response = isJsonObject(native) ? native : (this.#builder.body as unknown as JsonObject);
    const isKept = await keep(this.#context, response);
    this.#builder.isKept = isKept;
    if (this.native !== undefined) this.native = withFields(this.native, [], { store: isKept });
  }

  override add(event: AnswerEvent): void {
    if (!this.#isAdded) super.add(event);
  }
}

export class ResponseStream extends StreamedAnswer {
  protected readonly builder: ResponseBuilder;
  readonly #context: AnswerContext;
  /** The frames of an upstream of this format. Such an answer is known by its start. */
  #passed: PassedFrames | undefined;
  #sequence = 0;
  /** The frames of the finish but for the last, once it was added to keep the answer. */
  #ending: string | undefined;

  /** @param now Returns the Unix time in seconds. */
  constructor(context: AnswerContext, now: () => number) {
    super(FORMAT);
    this.#context = context;
    this.builder = new ResponseBuilder(context, now, (type, fields) => {
      this.text += frameOf({ event: type, data: jsonLine({ type, sequence_number: this.#sequence++, ...fields }) });
    });
  }

  async keep(finish: AnswerEvent): Promise<void> {
    if (finish.type !== "finish" || !keptFields(this.#context)) return;
    this.#ending = this.#end(finish, finish.native?.frames ?? []);
    const response = this.#passed ? this.#passed.response : (this.builder.body as unknown as JsonObject);
    this.builder.isKept = await keep(this.#context, response);
  }

  /** Ends the stream in two ways: some clients throw for the event `error`, and others read the failed response. */
  error(error: GatewayError): string {
    const body = encodeError(error);
    // A failed response is not kept.
    if (this.#ending === undefined) this.builder.isKept = false;
    const passed = this.#passed?.fail(body, { store: this.builder.isKept });
    if (passed !== undefined) return passed;
    this.text = "";
    this.builder.fail(body);
    return this.taken();
  }

  protected override write(event: AnswerEvent): string {
    if (event.type === "start") {
      this.isBuilt = event.native !== FORMAT;
      if (!this.isBuilt) this.#passed = new PassedFrames(promisedFields(this.#context));
    }
    if (!this.#passed) return super.write(event);
    if (event.type === "start") return "";
    // The upstream of the frames has broken off, and another goes on.
    const answer = this.#passed.answer();
    this.#passed = undefined;
    this.isBuilt = true;
    this.#sequence = answer.sequence;
    this.builder.goOn(answer);
    return this.taken() + super.write(event);
  }

  protected pass(frames: readonly NativeFrame[]): string {
    return this.#passed?.pass(frames) ?? "";
  }

  protected passRun(text: string, frames: readonly NativeFrame[]): string {
    return this.#passed?.passRun(text, frames) ?? "";
  }

  protected finish(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    const text = this.#ending ?? this.#end(event, frames);
    if (this.#passed) return text + this.#passed.conclude({ store: this.builder.isKept });
    this.builder.conclude();
    return text + this.taken();
  }

  /** Returns the frames of the finish without the last one. */
  #end(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    return this.#passed ? this.#passed.pass(frames) + this.#passed.end(event.usage) : super.write(event);
  }
}

/** The events after which nothing follows. */
const LAST = /^response\.(?:completed|incomplete|failed|done)$/;
/** The events that hold the response itself. */
const LIFECYCLE = /^response\.(?:created|queued|in_progress|completed|incomplete|failed)$/;

/**
 * Returns the fields of a response that the gateway decides, and not the upstream: the upstream was told to store nothing, and knows neither
 * the store of the gateway nor the ids in it.
 */
function promisedFields(context: AnswerContext): JsonObject {
  const kept = keptFields(context);
  // An upstream may name a conversation of its own.
  if (kept) return { conversation: null, ...kept };
  const { chain, previousId } = (context.request.native as Partial<ResponsesNative> | undefined)?.own ?? {};
  const continued = previousId ?? chain?.ids.at(-1);
  return {
    ...(continued !== undefined && { previous_response_id: continued }),
    store: false,
  };
}

/**
 * Returns the JSON of an upstream's response with other fields; all other bytes stay. An upstream that says nothing of `store` has stored
 * nothing, and one that says nothing of `conversation` has none.
 *
 * @param path The path of the response in the JSON.
 */
function withFields(json: string, path: readonly string[], fields: JsonObject): string {
  let changed = json;
  for (const [name, value] of Object.entries(fields)) {
    const isImplied = name === "store" ? value === false : name === "conversation" && value === null;
    if (!isImplied || spanAt(changed, [...path, name]))
      changed = withMember(changed, [...path, name], JSON.stringify(value));
  }
  return changed;
}

/** The most characters of frames that are kept to end a cut answer. */
const MAX_CHARS = 64 * 1024 ** 2;

/** Some servers do not name their events beside the data. */
function typeOf({ event, data }: NativeFrame): string {
  if (event !== undefined) return event;
  const parsed = parseJson(data, PARSED_BEFORE);
  return isJsonObject(parsed) && typeof parsed["type"] === "string" ? parsed["type"] : "";
}

class PassedFrames {
  /** The frames that have passed, for an answer that is cut short. */
  readonly #passed: (readonly NativeFrame[])[] = [];
  readonly #fields: JsonObject;
  #chars = 0;
  /** The last frame and the frames after it; empty until the last frame has come. */
  #ending: NativeFrame[] = [];

  /** @param fields The fields that replace those of the upstream's response. */
  constructor(fields: JsonObject) {
    this.#fields = fields;
  }

  /** The final response; undefined before the end. */
  get response(): JsonObject | undefined {
    const [last] = this.#ending;
    const event = last && parseJson(changed(this.#completed(last), this.#fields).data, PARSED_BEFORE);
    return isJsonObject(event) && isJsonObject(event["response"]) ? event["response"] : undefined;
  }

  /** Returns the last frame with its output, which some upstreams leave out because its items have come before. */
  #completed(last: NativeFrame): NativeFrame {
    const output = spanAt(last.data, ["response", "output"]);
    const isThere = output && !/^(?:null|\[\s*\])$/.test(last.data.slice(output.start, output.end));
    const items = isThere ? [] : this.answer().output;
    return items.length === 0 ? last : changed(last, { output: items });
  }

  /** Returns the frames as they are sent, without the last one. Throws `backend_failed` for frames without end. */
  pass(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const frame of frames) {
      const type = typeOf(frame);
      if (this.#ending.length > 0 || LAST.test(type))
        this.#ending.push(type === "response.done" ? renamed(frame) : frame);
      else {
        const passed = LIFECYCLE.test(type) ? changed(frame, this.#fields) : frame;
        this.#keep([passed], frame.data.length);
        text += frameOf(passed);
      }
    }
    return text;
  }

  /** Returns the frames of a run as they are sent. */
  passRun(text: string, frames: readonly NativeFrame[]): string {
    if (this.#ending.length > 0) return this.pass(frames);
    this.#keep(frames, text.length);
    return text;
  }

  #keep(frames: readonly NativeFrame[], chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_CHARS) throw backendFailed("The model backend's answer is too large.");
    this.#passed.push(frames);
  }

  /** Ends an answer whose upstream has not ended it: with the open items, and with the incomplete response as the last frame. */
  end(usage: Usage): string {
    return this.#ending.length > 0 ? "" : this.answer().end(encodeUsage(usage), this.#ending);
  }

  /**
   * Returns the last frame, and what its upstream has sent behind it.
   *
   * @param fields Replace those of the response.
   */
  conclude(fields: JsonObject = {}): string {
    const [last, ...rest] = this.#ending;
    if (!last) return "";
    return frameOf(changed(this.#completed(last), { ...this.#fields, ...fields })) + rest.map(frameOf).join("");
  }

  /**
   * Returns the frames that end the answer with an error; undefined if no frame has passed.
   *
   * @param fields Replace those of the response that it has.
   */
  fail(body: OpenAIErrorBody, fields: JsonObject): string | undefined {
    return this.#passed.length === 0 ? undefined : this.answer().fail(body, fields);
  }

  answer(): PassedAnswer {
    const answer = new PassedAnswer();
    for (const frames of this.#passed) for (const { data } of frames) answer.add(data);
    return answer;
  }
}

/** Returns the last frame of some servers under the name that clients know. */
const renamed = ({ data }: NativeFrame): NativeFrame => ({
  event: "response.completed",
  data: withMember(data, ["type"], JSON.stringify("response.completed")),
});

/** Returns a frame whose response has other fields. */
const changed = (frame: NativeFrame, fields: JsonObject): NativeFrame => ({
  ...frame,
  data: withFields(frame.data, ["response"], fields),
});

/** The answer in frames that have passed. It is put together only if the answer is cut short, which is rare. */
class PassedAnswer implements BegunResponse {
  readonly items: Map<number, JsonObject> = new Map();
  readonly open: Set<number> = new Set();
  response: JsonObject = {};
  isPartOpen = false;
  sequence = 0;

  add(data: string): void {
    const event = parseJson(data, PARSED_BEFORE);
    if (!isJsonObject(event)) return;
    const { response, item, output_index, content_index, summary_index, part, delta } = event;
    const type = typeof event["type"] === "string" ? event["type"] : "";
    this.sequence = Math.max(this.sequence, Number(event["sequence_number"] ?? 0) + 1);
    if (isJsonObject(response)) this.response = response;
    const index = Number(output_index);
    if (isJsonObject(item)) this.items.set(index, item);
    if (type === "response.output_item.added") this.open.add(index);
    if (type === "response.output_item.done") this.open.delete(index);
    if (content_index !== undefined) this.isPartOpen = !type.endsWith(".done");
    const known = this.items.get(index);
    if (!known) return;
    const list = type.includes("summary") ? "summary" : "content";
    const place = Number(summary_index ?? content_index);
    const parts = Array.isArray(known[list]) ? known[list] : [];
    if (isJsonObject(part) && place <= parts.length) {
      parts[place] = part;
      known[list] = parts;
    }
    if (typeof delta !== "string") return;
    const written = parts[place];
    const target = Number.isInteger(place) && isJsonObject(written) ? written : known;
    const field = FIELD_OF[type];
    if (field !== undefined) target[field] = textOf(target[field]) + delta;
  }

  /** Returns the frames that end the open items. Adds the last frame to `ending`. */
  end(usage: JsonObject, ending: NativeFrame[]): string {
    let text = "";
    for (const output_index of this.open) {
      const item = { ...this.items.get(output_index), status: "incomplete" };
      this.items.set(output_index, item);
      text += frameOf(this.#frame("response.output_item.done", { output_index, item }));
    }
    const cut = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" }, usage };
    ending.push(this.#frame("response.incomplete", { response: { ...this.response, ...cut, output: this.output } }));
    return text;
  }

  fail(body: OpenAIErrorBody, fields: JsonObject): string {
    const own = Object.entries(fields).filter(([name]) => name in this.response);
    const failed = { status: "failed", error: failureOf(body), output: this.output };
    const frames = [
      this.#frame("error", errorEvent(body)),
      this.#frame("response.failed", { response: { ...this.response, ...Object.fromEntries(own), ...failed } }),
    ];
    return frames.map(frameOf).join("");
  }

  get output(): JsonObject[] {
    return [...this.items].toSorted(([a], [b]) => a - b).map(([, item]) => item);
  }

  #frame(event: string, fields: object): NativeFrame {
    return { event, data: jsonLine({ type: event, sequence_number: this.sequence++, ...fields }) };
  }
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** The field that the deltas of each event extend. */
const FIELD_OF: Readonly<Record<string, string>> = {
  "response.output_text.delta": "text",
  "response.refusal.delta": "refusal",
  "response.reasoning_summary_text.delta": "text",
  "response.reasoning_text.delta": "text",
  "response.function_call_arguments.delta": "arguments",
  "response.custom_tool_call_input.delta": "input",
  "response.code_interpreter_call_code.delta": "code",
};
