/** One of several texts, for formats and interfaces that know JSON alone: asked for as an object, and taken out of it again. */

import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";

const FIELD = "value";

/** An object, because providers take no other schema of an answer. */
export const enumSchema = (values: readonly string[]): JsonObject => ({
  type: "object",
  properties: { [FIELD]: { type: "string", enum: [...values] } },
  required: [FIELD],
  additionalProperties: false,
});

/** Takes the value out of the text of an answer. */
export class EnumeratedText {
  readonly #values: readonly string[];
  #said = "";
  #isPlain = false;

  constructor(values: readonly string[]) {
    this.#values = values;
  }

  /** What is known of the value with a piece of the text. */
  feed(text: string): string {
    if (this.#isPlain) return text;
    this.#said += text;
    this.#isPlain = this.#said !== "" && this.#values.some((value) => value.startsWith(this.#said));
    return this.#isPlain ? this.#said : "";
  }

  /** The rest. A text that says no value stays as it is. */
  end(): string {
    if (this.#isPlain) return "";
    const said = this.#said.trim();
    const json = parsed(said);
    const told = [said, json, isJsonObject(json) ? json[FIELD] : undefined];
    return this.#values.find((value) => told.includes(value)) ?? this.#said;
  }
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
