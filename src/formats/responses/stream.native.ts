/** The frames of an upstream that speaks this format, passed on unchanged, and the end of an answer that the gateway has cut short. */

import type { NativeFrame } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { AnswerContext } from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import type { OpenAIErrorBody } from "../shared/errors.ts";
import { valueAt, withMember } from "../shared/json-text.ts";
import { upstreamFailed } from "../shared/upstream.ts";
import { encodeUsage, errorEvent } from "./answer.ts";
import { keptFields, type ResponsesNative } from "./kept.ts";

/** The events after which nothing follows. */
const LAST = /^response\.(?:completed|incomplete|failed|done)$/;
/** The events that hold the response itself. */
const LIFECYCLE = /^response\.(?:created|queued|in_progress|completed|incomplete|failed)$/;

/**
 * Returns the fields of a response that the gateway decides, and not the upstream: the upstream was told to store nothing, and knows neither
 * the store of the gateway nor the ids in it.
 */
export function promisedFields(context: AnswerContext): JsonObject {
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
export function withFields(json: string, path: readonly string[], fields: JsonObject): string {
  let changed = json;
  for (const [name, value] of Object.entries(fields)) {
    const isImplied = name === "store" ? value === false : name === "conversation" && value === null;
    if (!isImplied || valueAt(changed, [...path, name]))
      changed = withMember(changed, [...path, name], JSON.stringify(value));
  }
  return changed;
}

/** The most characters of frames that are kept to end a cut answer. */
const MAX_CHARS = 64 * 1024 ** 2;

/** Writes the data of an event. Escapes U+2028 and U+2029, which `JSON.stringify` leaves alone: some clients end a line there. */
export const dataOf = (event: object): string =>
  JSON.stringify(event).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

/** Some servers do not name their events beside the data. */
function typeOf({ event, data }: NativeFrame): string {
  if (event !== undefined) return event;
  const parsed = parseJson(data);
  return isJsonObject(parsed) && typeof parsed["type"] === "string" ? parsed["type"] : "";
}

export class PassedFrames {
  readonly #passed: string[] = [];
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
    const event = last && parseJson(changed(this.#completed(last), this.#fields).data);
    return isJsonObject(event) && isJsonObject(event["response"]) ? event["response"] : undefined;
  }

  /** Returns the last frame with its output, which some upstreams leave out because its items have come before. */
  #completed(last: NativeFrame): NativeFrame {
    const output = valueAt(last.data, ["response", "output"]);
    const isThere = output && !/^(?:null|\[\s*\])$/.test(last.data.slice(output.start, output.end));
    const items = isThere ? [] : this.#answer().output;
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
        this.#chars += frame.data.length;
        if (this.#chars > MAX_CHARS) throw upstreamFailed("The model backend's answer is too large.");
        const passed = LIFECYCLE.test(type) ? changed(frame, this.#fields) : frame;
        this.#passed.push(passed.data);
        text += frameOf(passed);
      }
    }
    return text;
  }

  /** Ends an answer whose upstream has not ended it: with the open items, and with the incomplete response as the last frame. */
  end(usage: Usage): string {
    return this.#ending.length > 0 ? "" : this.#answer().end(encodeUsage(usage), this.#ending);
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
    return this.#passed.length === 0 ? undefined : this.#answer().fail(body, fields);
  }

  #answer(): PassedAnswer {
    const answer = new PassedAnswer();
    for (const data of this.#passed) answer.add(data);
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
class PassedAnswer {
  readonly #items: Map<number, JsonObject> = new Map();
  readonly #open: Set<number> = new Set();
  #response: JsonObject = {};
  #sequence = 0;

  add(data: string): void {
    const event = parseJson(data);
    if (!isJsonObject(event)) return;
    const { response, item, output_index, content_index, summary_index, part, delta } = event;
    const type = typeof event["type"] === "string" ? event["type"] : "";
    this.#sequence = Math.max(this.#sequence, Number(event["sequence_number"] ?? 0) + 1);
    if (isJsonObject(response)) this.#response = response;
    const index = Number(output_index);
    if (isJsonObject(item)) this.#items.set(index, item);
    if (type === "response.output_item.added") this.#open.add(index);
    if (type === "response.output_item.done") this.#open.delete(index);
    const known = this.#items.get(index);
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
    for (const output_index of this.#open) {
      const item = { ...this.#items.get(output_index), status: "incomplete" };
      this.#items.set(output_index, item);
      text += frameOf(this.#frame("response.output_item.done", { output_index, item }));
    }
    const cut = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" }, usage };
    ending.push(this.#frame("response.incomplete", { response: { ...this.#response, ...cut, output: this.output } }));
    return text;
  }

  fail(body: OpenAIErrorBody, fields: JsonObject): string {
    const { code, message } = body.error;
    const own = Object.entries(fields).filter(([name]) => name in this.#response);
    const failed = { status: "failed", error: { code, message }, output: this.output };
    const frames = [
      this.#frame("error", errorEvent(body)),
      this.#frame("response.failed", { response: { ...this.#response, ...Object.fromEntries(own), ...failed } }),
    ];
    return frames.map(frameOf).join("");
  }

  get output(): JsonObject[] {
    return [...this.#items].toSorted(([a], [b]) => a - b).map(([, item]) => item);
  }

  #frame(event: string, fields: object): NativeFrame {
    return { event, data: dataOf({ type: event, sequence_number: this.#sequence++, ...fields }) };
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
