/** Puts ids that a format takes in the place of a conversation's that it does not: a call and its result get the same one. */

export class ToolIds {
  readonly #isTaken: (id: string) => boolean;
  readonly #replaced: Map<string, string> = new Map();

  /** @param isTaken Whether the format takes an id as it is. */
  constructor(isTaken: (id: string) => boolean) {
    this.#isTaken = isTaken;
  }

  /** The id itself, or the one in its place: the same for the same beginning of a conversation, so that prompts can be cached. */
  of(id: string): string {
    if (this.#isTaken(id)) return id;
    const known = this.#replaced.get(id);
    if (known !== undefined) return known;
    const replaced = `call_${id.slice(-20).replaceAll(/\W/g, "_")}_${this.#replaced.size + 1}`;
    this.#replaced.set(id, replaced);
    return replaced;
  }
}
