/** Code that is loaded with its first use: a process starts without the formats that it does not use yet. */

import type { ChatCodec, Endpoint, Format, LazyEndpoint, LazyRoute } from "../format.ts";

/** Code behind a dynamic import. */
export class Lazy<Code> {
  readonly #load: () => Promise<Code>;
  #code: Code | undefined = undefined;
  #loading: Promise<Code> | undefined = undefined;

  constructor(load: () => Promise<Code>) {
    this.#load = load;
  }

  /** Returns the code; a promise of it until it is loaded. A load that failed is tried again. */
  get(): Code | Promise<Code> {
    if (this.#code !== undefined) return this.#code;
    this.#loading ??= this.#load().then(
      (code) => (this.#code = code),
      (error: unknown) => {
        this.#loading = undefined;
        throw error;
      },
    );
    return this.#loading;
  }

  /** Uses the code: at once when it is loaded. */
  use<Result>(work: (code: Code) => Result): Result | Promise<Awaited<Result>> {
    const code = this.get();
    return code instanceof Promise ? (code.then(work) as Promise<Awaited<Result>>) : work(code);
  }
}

/**
 * Makes a format of its routes and of code that is loaded with their first request.
 *
 * @param make Makes the endpoints of all routes, in the same order. Called once.
 */
export function lazyFormat<Code>(
  format: Omit<Format, "endpoints" | "load">,
  routes: readonly LazyRoute[],
  code: Lazy<Code>,
  make: (code: Code) => readonly Endpoint[],
): Format {
  let made: readonly Endpoint[] | undefined;
  return {
    ...format,
    endpoints: routes.map((route, index): LazyEndpoint => ({
      ...route,
      whole: () => made?.[index] ?? code.use((loaded) => (made ??= make(loaded))[index] as Endpoint),
    })),
    load: () => code.get(),
  };
}

/** A codec of an upstream's format whose code is loaded with the first request to the upstream. */
export interface LazyCodec<Codec = ChatCodec> {
  /** Returns the codec; a promise of it until its code is loaded. */
  readonly whole: () => Codec | Promise<Codec>;
}

/** Returns a codec or an endpoint; a promise of it until its code is loaded. */
export const wholeOf = <Whole extends object>(
  given: Whole | { whole(): Whole | Promise<Whole> },
): Whole | Promise<Whole> => ("whole" in given ? given.whole() : given);

/** Makes a codec, once, of code that may have to be loaded. A codec holds nothing of a call. */
export function lazyCodec<Code, Codec extends object>(code: Lazy<Code>, make: (code: Code) => Codec): LazyCodec<Codec> {
  let made: Codec | undefined;
  return { whole: () => made ?? code.use((loaded) => (made ??= make(loaded))) };
}
