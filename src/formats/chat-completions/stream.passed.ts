/** Completes the answers of upstreams of this format: without some fields, the official client and the AI SDK throw. All other bytes stay. */

import { jsonAt, ObjectText, withElements } from "../shared/json-text.ts";

const NOTHING = /^(?:null|"")?$/;
const isNothing = (json: string): boolean => NOTHING.test(json);
const ROLE = /"role"\s*:\s*"assistant"/;
const FINISH = /"finish_reason"\s*:\s*"[^"]/;
/** Matches most chunks in one search: those of one choice that goes on with a text, and whose text has no brackets. */
const TEXT_CHUNK =
  /"choices"\s*:\s*\[\s*\{\s*"index"\s*:\s*\d+\s*,\s*"delta"\s*:\s*\{[^{}[\]]*\}\s*,\s*(?:"logprobs"\s*:\s*null\s*,\s*)?"finish_reason"\s*:\s*null\s*\}\s*\]/;

/** The tool calls of a choice. */
interface PassedCalls {
  count: number;
  /** The indices that the caller gets, by the upstream's id, or by the upstream's index of the latest call that has it. */
  readonly indices: Map<string, number>;
}

/** Completes the chunks of one stream. */
export class PassedChunks {
  /** True once a choice has a finish reason. */
  isFinished = false;
  /** The number of choices that the caller gets. */
  readonly #count: number;
  #hasRoles = false;
  /** True once a call has another index than the upstream gave it. */
  #isRenumbered = false;
  readonly #choices: Map<number, PassedCalls> = new Map();

  constructor(count: number) {
    this.#count = count;
  }

  /** Tells whether a chunk passes as it is. Searches the text, because a chunk is not parsed again. */
  isWhole(data: string): boolean {
    if (this.#hasRoles && TEXT_CHUNK.test(data)) return true;
    this.isFinished ||= FINISH.test(data);
    this.#hasRoles ||= ROLE.test(data);
    if (!/"delta"\s*:\s*\{/.test(data)) return /"choices"\s*:\s*\[\s*\]/.test(data);
    if (!this.#hasRoles) return false;
    if (!data.includes('"tool_calls"')) return /"index"\s*:\s*\d/.test(data);
    // The first piece of a call has its name, and may need more fields.
    if (this.#isRenumbered || data.includes('"name"')) return false;
    return /"index"\s*:\s*\d[^]*"index"\s*:\s*\d/.test(data);
  }

  /**
   * Returns a chunk with its choices, the index and the role of each choice, and the index and the type of each tool call. Two calls of one
   * index get two: clients would join them.
   */
  whole(data: string): string {
    if (this.isWhole(data)) return data;
    const changed = withChoices(data, "delta", (index, delta) => {
      const known = this.#choices.get(index);
      const calls = known ?? { count: 0, indices: new Map() };
      this.#choices.set(index, calls);
      if (!known && !this.#hasRoles) fill(delta, "role", '"assistant"');
      delta.set(
        "tool_calls",
        withElements(delta.get("tool_calls"), (call) => this.#call(call, calls)),
      );
    });
    this.#hasRoles ||= this.#choices.size >= this.#count;
    return changed;
  }

  #call(json: string, calls: PassedCalls): string {
    const call = new ObjectText(json);
    const [id, said] = [call.get("id"), call.get("index")];
    const known = calls.indices.get(id) ?? (isNothing(id) || !isNamed(call) ? calls.indices.get(said) : undefined);
    // A piece with neither an id nor an index continues the newest call, unless it has a name.
    const isNext = known === undefined && (isNamed(call) || calls.count === 0);
    if (isNext) calls.count++;
    const newest = calls.count - 1;
    const index = known ?? (isNothing(said) || calls.indices.has(said) ? newest : Number(said));
    if (!isNothing(id)) calls.indices.set(id, index);
    if (!isNothing(said)) calls.indices.set(said, index);
    this.#isRenumbered ||= !isNothing(said) && Number(said) !== index;
    fillType(call);
    call.set("index", String(index));
    return call.text;
  }
}

/** Returns a complete answer with the fields that its choices and calls lack. */
export const wholeCompletion = (body: string): string =>
  withChoices(body, "message", (_index, message) => {
    fill(message, "role", '"assistant"');
    message.set("tool_calls", withElements(message.get("tool_calls"), wholeCall));
  });

function wholeCall(json: string): string {
  const call = new ObjectText(json);
  fillType(call);
  return call.text;
}

/** @param change Changes the field of a choice that has it. */
function withChoices(json: string, field: string, change: (index: number, value: ObjectText) => void): string {
  const answer = new ObjectText(json);
  const choices = answer.get("choices");
  let position = 0;
  const wholeChoice = (text: string): string => {
    const choice = new ObjectText(text);
    fill(choice, "index", String(position++));
    if (choice.get(field).startsWith("{")) {
      const value = new ObjectText(choice.get(field));
      change(Number(choice.get("index")), value);
      choice.set(field, value.text);
    }
    return choice.text;
  };
  answer.set("choices", choices.startsWith("[") ? withElements(choices, wholeChoice) : "[]");
  return answer.text;
}

/** Sets a member that an object lacks, or that says nothing. */
function fill(object: ObjectText, name: string, json: string): void {
  if (isNothing(object.get(name))) object.set(name, json);
}

const isNamed = (call: ObjectText): boolean => !isNothing(jsonAt(call.get("function"), ["name"]));

function fillType(call: ObjectText): void {
  if (isNamed(call)) fill(call, "type", '"function"');
}
