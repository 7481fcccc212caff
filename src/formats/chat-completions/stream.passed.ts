/** Completes the answers of upstreams of this format: without some fields, the official client and the AI SDK throw. All other bytes stay. */

import { jsonAt, withElements, withMember } from "../shared/json-text.ts";

const NOTHING = /^(?:null|"")?$/;
const isNothing = (json: string): boolean => NOTHING.test(json);
const ROLE = /"role"\s*:\s*"assistant"/;
const FINISH = /"finish_reason"\s*:\s*"[^"]/;

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
    const changed = withChoices(data, "delta", (index, choice) => {
      const known = this.#choices.get(index);
      const calls = known ?? { count: 0, indices: new Map() };
      this.#choices.set(index, calls);
      const named = known || this.#hasRoles ? choice : withRole(choice, "delta");
      return withElements(named, ["delta", "tool_calls"], (call) => this.#call(call, calls));
    });
    this.#hasRoles ||= this.#choices.size >= this.#count;
    return changed;
  }

  #call(json: string, calls: PassedCalls): string {
    const [id, said] = [jsonAt(json, ["id"]), jsonAt(json, ["index"])];
    const known = calls.indices.get(id) ?? (isNothing(id) || !isNamed(json) ? calls.indices.get(said) : undefined);
    // A piece with neither an id nor an index continues the newest call, unless it has a name.
    const isNext = known === undefined && (isNamed(json) || calls.count === 0);
    if (isNext) calls.count++;
    const newest = calls.count - 1;
    const index = known ?? (isNothing(said) || calls.indices.has(said) ? newest : Number(said));
    if (!isNothing(id)) calls.indices.set(id, index);
    if (!isNothing(said)) calls.indices.set(said, index);
    this.#isRenumbered ||= !isNothing(said) && Number(said) !== index;
    return withMember(withType(json), ["index"], String(index));
  }
}

/** Returns a complete answer with the fields that its choices and calls lack. */
export const wholeCompletion = (body: string): string =>
  withChoices(body, "message", (_index, choice) =>
    withElements(withRole(choice, "message"), ["message", "tool_calls"], withType),
  );

/** @param change Changes a choice that has the field. */
function withChoices(json: string, field: string, change: (index: number, choice: string) => string): string {
  if (!jsonAt(json, ["choices"]).startsWith("[")) return withMember(json, ["choices"], "[]");
  let position = 0;
  return withElements(json, ["choices"], (choice) => {
    const said = jsonAt(choice, ["index"]);
    const index = isNothing(said) ? position : Number(said);
    position++;
    const indexed = withMember(choice, ["index"], String(index), isNothing);
    return jsonAt(indexed, [field]).startsWith("{") ? change(index, indexed) : indexed;
  });
}

const withRole = (choice: string, field: string): string =>
  withMember(choice, [field, "role"], '"assistant"', isNothing);

const isNamed = (call: string): boolean => !isNothing(jsonAt(call, ["function", "name"]));

const withType = (call: string): string => (isNamed(call) ? withMember(call, ["type"], '"function"', isNothing) : call);
