/** The backend of the soak: it plays the script of each call, and tells of every signal that fires, also after its end. */

import type { CallContext, ChatEvent, ChatRequest, ImageEvent, ModelBackend } from "../../src/index.ts";
import { nextTurn, nowMs, scriptIn } from "./calls.ts";

/** Who is told what becomes of a call. */
export interface Watch {
  /** The call is at its pause. */
  readonly waiting: (id: number) => void;
  /** The call's signal has fired, at a time by `nowMs`. */
  readonly fired: (id: number, atMs: number) => void;
}

const PIECES = ["One", " two", " three."];

/** No picture at all: nobody looks at what a backend has drawn. */
const PICTURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47);

/** The calls of all gateways. */
export class Plays {
  /** How many have begun and not ended. */
  running = 0;
  readonly #watch: Watch;
  readonly #waiting = new Map<number, () => void>();

  constructor(watch: Watch) {
    this.#watch = watch;
  }

  /** A backend whose calls are among these. */
  backend(hangUp: NonNullable<ModelBackend["hangUp"]>): ModelBackend {
    return { hangUp, chat: (request, call) => this.#play(request, call), image: () => this.#draw() };
  }

  /** Ends the pause of a call. */
  goOn(id: number): void {
    this.#waiting.get(id)?.();
  }

  async *#play(request: ChatRequest, { signal }: CallContext): AsyncGenerator<ChatEvent | string> {
    const { id, waitsAfter, slow, endlessBytes, inputTokens, outputTokens } = scriptIn(request);
    // Never taken off: a signal that fires after the end of its call is what the soak is after.
    signal.addEventListener("abort", () => this.#watch.fired(id, nowMs()));
    this.running++;
    try {
      for (const [index, piece] of PIECES.entries()) {
        if (index === waitsAfter) await this.#pause(id, signal);
        if (slow) await nextTurn();
        if (signal.aborted) return;
        yield piece;
      }
      if (endlessBytes !== undefined) for (const piece = "x".repeat(endlessBytes); !signal.aborted;) yield piece;
      yield { type: "finish", reason: "stop", usage: { inputTokens, outputTokens } };
    } finally {
      this.running--;
    }
  }

  /** Draws the same picture for everybody: what was sent is not looked at. */
  async *#draw(): AsyncGenerator<ImageEvent> {
    this.running++;
    try {
      yield { type: "image", bytes: PICTURE, mediaType: "image/png" };
      yield { type: "usage", usage: { inputTextTokens: 1, inputImageTokens: 1, outputTokens: 1 } };
    } finally {
      this.running--;
    }
  }

  async #pause(id: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.set(id, resolve);
    signal.addEventListener("abort", () => resolve(), { once: true });
    this.#watch.waiting(id);
    await promise;
    this.#waiting.delete(id);
  }
}
