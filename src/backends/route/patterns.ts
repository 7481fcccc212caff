/** Finds what stands for a model: under its exact name, or else under the longest beginning of it. */

export class Patterns<Value> {
  readonly #exact = new Map<string, Value>();
  /** The longest first. */
  readonly #prefixes: readonly (readonly [prefix: string, value: Value])[];

  /** Throws a TypeError for a pattern with a star anywhere but at its end. */
  constructor(values: ReadonlyMap<string, Value>) {
    const prefixes: (readonly [string, Value])[] = [];
    for (const [pattern, value] of values) {
      const name = pattern.endsWith("*") ? pattern.slice(0, -1) : pattern;
      if (name.includes("*") || pattern === "")
        throw new TypeError(
          `route: ${JSON.stringify(pattern)} is neither a model's name nor a beginning with a star after it.`,
        );
      if (name === pattern) this.#exact.set(name, value);
      else prefixes.push([name, value]);
    }
    this.#prefixes = prefixes.toSorted(([one], [other]) => other.length - one.length);
  }

  get(model: string): Value | undefined {
    return this.#exact.get(model) ?? this.#prefixes.find(([prefix]) => model.startsWith(prefix))?.[1];
  }
}
