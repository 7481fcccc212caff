/** Lets a few works run at once, and few large answers wait for their readers, so that one user takes neither all memory nor the store. */

import { isHighSurrogate } from "../../model/json.ts";
import { type Clock, EventLoopYielder, nextIteration, within } from "../../ports/clock.ts";
import { tooMany } from "./refusal.ts";

export interface LaneOptions {
  /** The works in the words of a refusal, such as `reports`. */
  readonly what: string;
  /** The most works that run at once, and the most that wait for them. */
  readonly atOnce: number;
  readonly waiting: number;
  /** The time after which a work that does not end makes room for others, in milliseconds. */
  readonly heldMs: number;
  readonly clock: Clock;
}

export class Lane {
  readonly #options: LaneOptions;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Runs a work once there is room. Throws when too many wait. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const { what, atOnce, waiting, heldMs, clock } = this.#options;
    if (this.#running >= atOnce) {
      if (this.#waiting.length >= waiting) throw tooMany(what);
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    } else this.#running++;
    const ended = work();
    void within(
      ended.catch(() => {}),
      heldMs,
      clock,
    ).then(() => this.#makeRoom());
    return ended;
  }

  /**
   * Gives the room of a work to the next one, after other work of the process. The answers of a database in the process are there at once: many
   * requests would be answered one behind the other, and nothing between them.
   */
  async #makeRoom(): Promise<void> {
    await nextIteration();
    const next = this.#waiting.shift();
    if (next) next();
    else this.#running--;
  }
}

/** The characters of a piece of an answer. */
const PIECE_CHARS = 64 * 1024;
/** A shorter answer is sent as a whole, and not counted. A client may ask for a hundred at once on its connection. */
const SHORT_CHARS = 16 * 1024;
/** The most characters of large answers whose clients still read them, beside those of one further answer. */
const MOST_UNREAD_CHARS = 64 * 1024 * 1024;
/** A large answer that its client has not read after this time is broken off, in milliseconds. */
const UNREAD_MS = 300_000;

const encoder = new TextEncoder();

/** Sends large answers piece by piece, as their clients read them. Bounds the memory that clients which read nothing take. */
export class Unread {
  readonly #clock: Clock;
  #chars = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the body of an answer. Throws for a large one while too many clients have not read theirs.
   *
   * @param request Stays in memory until its answer is read: without it, its signal may never fire.
   */
  body(text: string, request: Request): string | ReadableStream<Uint8Array> {
    const { length } = text;
    if (length <= SHORT_CHARS) return text;
    if (this.#chars >= MOST_UNREAD_CHARS) throw tooMany("large answers");
    this.#chars += length;
    let [at, rest] = [0, text];
    let end: () => void;
    const slices = new EventLoopYielder();
    return new ReadableStream({
      start: (controller) => {
        const breakOff = (): void => {
          end();
          controller.error(new Error("The client has gone, or has not read the answer in time."));
        };
        const cancel = this.#clock.after(UNREAD_MS, breakOff);
        request.signal.addEventListener("abort", breakOff);
        end = () => {
          if (rest !== "") this.#chars -= length;
          rest = "";
          cancel();
          request.signal.removeEventListener("abort", breakOff);
        };
      },
      async pull(controller) {
        if (slices.isDue(PIECE_CHARS)) await slices.pause();
        // The answer may be broken off meanwhile.
        if (rest === "") return;
        const piece = rest.slice(at, at + PIECE_CHARS);
        // A character of two halves is not cut.
        const size = piece.length - (isHighSurrogate(piece.charCodeAt(PIECE_CHARS - 1)) ? 1 : 0);
        controller.enqueue(encoder.encode(piece.slice(0, size)));
        at += size;
        if (at < length) return;
        end();
        controller.close();
      },
      cancel: () => end(),
    });
  }
}
