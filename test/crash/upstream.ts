/** The upstream of the crash trial: it outlives its callers, and counts every call itself: one token a word. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { Random } from "../trial/random.ts";

/** The order of a caller, as JSON in the first argument of its process. */
export interface CallerOrder {
  readonly address: string;
  readonly prefix: string;
  /** The base address of the upstream. */
  readonly upstream: string;
  readonly apiKeys: readonly string[];
  readonly leaseMs: number;
  readonly usageNoteMs: number;
  /** True for a caller that borrows blocks of its keys. */
  readonly isBorrowing: boolean;
  /** The number of calls at once. A lane makes one call after the other. */
  readonly lanes: number;
  readonly seed: number;
}

/**
 * - `counted`: the upstream ends the answer with its own count.
 * - `uncounted`: the upstream tells no count, and the gateway estimates.
 * - `left`: the client leaves in the middle, and the gateway estimates the part that was sent.
 */
export const KINDS = ["counted", "uncounted", "left"] as const;

type Kind = (typeof KINDS)[number];

/** The upstream's record of a call. */
export interface UpstreamCall {
  /** The id of its hold. */
  readonly id: string;
  readonly kind: Kind;
  readonly inputTokens: number;
  /** The tokens sent so far. */
  outputTokens: number;
  /** True once nothing more can come: the answer has ended, or its caller is gone. */
  isOver: boolean;
}

/** Words of four bytes on average, spaces included, because the caller's gateway estimates four bytes a token. */
const PIECE = "an old king has one ";
const WORDS = 5;

interface Request {
  /** The kind and the id of the hold, joined by a colon. */
  readonly model: string;
  readonly messages: readonly { readonly content: string | readonly { readonly text: string }[] }[];
}

export class Upstream implements AsyncDisposable {
  readonly calls: Map<string, UpstreamCall> = new Map();
  /** True while no call gets more than its first piece. */
  isHeld = false;
  readonly #server = createServer((req, res) => void this.#answer(req, res));
  readonly #random: Random;
  readonly #pieceMs: number;
  readonly #maxPieces: number;
  #pieces = 0;
  #waiting: { readonly pieces: number; readonly resolve: () => void } | undefined;

  /** @param pieceMs The interval between two pieces, in milliseconds. */
  constructor(seed: number, { pieceMs, maxPieces }: { readonly pieceMs: number; readonly maxPieces: number }) {
    this.#random = new Random(seed);
    this.#pieceMs = pieceMs;
    this.#maxPieces = maxPieces;
  }

  /** Returns the base address. */
  async listen(): Promise<string> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** The number of pieces sent in all calls. */
  get pieces(): number {
    return this.#pieces;
  }

  /** Resolves after this many more pieces, in all calls together. */
  progress(pieces: number): Promise<void> {
    return new Promise((resolve) => (this.#waiting = { pieces: this.#pieces + pieces, resolve }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    // The caller may be killed at any moment.
    const request = (await json(req).catch(() => undefined)) as Request | undefined;
    if (!request) return;
    const [kind, id] = request.model.split(":") as [Kind, string];
    const call: UpstreamCall = { id, kind, inputTokens: wordsOf(request), outputTokens: 0, isOver: false };
    this.calls.set(id, call);
    res.writeHead(200, { "content-type": "text/event-stream" });
    let left = this.#random.int(this.#maxPieces / 3, this.#maxPieces);
    const timer = setInterval(() => {
      if (this.isHeld && call.outputTokens > 0) return;
      call.outputTokens += WORDS;
      res.write(frameOf(call, { choices: [{ index: 0, delta: { content: PIECE }, finish_reason: null }] }));
      this.#count();
      if (--left > 0) return;
      clearInterval(timer);
      res.write(frameOf(call, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
      if (kind !== "uncounted") res.write(frameOf(call, { choices: [], usage: usageOf(call) }));
      res.end("data: [DONE]\n\n");
    }, this.#pieceMs);
    res.on("close", () => {
      call.isOver = true;
      clearInterval(timer);
    });
  }

  #count(): void {
    this.#pieces++;
    if (!this.#waiting || this.#pieces < this.#waiting.pieces) return;
    this.#waiting.resolve();
    this.#waiting = undefined;
  }
}

const wordsOf = ({ messages }: Request): number =>
  messages
    .flatMap(({ content }) => (typeof content === "string" ? [content] : content.map(({ text }) => text)))
    .reduce((total, text) => total + text.trim().split(/\s+/).length, 0);

const usageOf = ({ inputTokens, outputTokens }: UpstreamCall): object => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
});

const frameOf = ({ id, kind }: UpstreamCall, rest: object): string =>
  `data: ${JSON.stringify({ id, created: 1, model: kind, object: "chat.completion.chunk", ...rest })}\n\n`;
