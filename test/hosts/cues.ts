/** Moments that a backend and its test tell one another of, by name. */
export class Cues {
  readonly #cues = new Map<string, PromiseWithResolvers<void>>();

  readonly give = (name: string): void => this.#at(name).resolve();
  readonly wait = (name: string): Promise<void> => this.#at(name).promise;

  #at(name: string): PromiseWithResolvers<void> {
    const cue = this.#cues.get(name) ?? Promise.withResolvers<void>();
    this.#cues.set(name, cue);
    return cue;
  }
}
