/** A complete answer of a chat format: the body of an upstream of that format, or else what is collected of its stream. */

import { RawJson } from "../../http/answer.ts";
import type { AnswerEvent } from "../../model/event.ts";
import type { AnswerCollector } from "../dialect.ts";

/** Collects the pieces of one answer: frames, or chunks. */
interface PieceCollector<Piece> {
  add(piece: Piece): void;
  readonly body: object;
}

export class WholeAnswer<Piece> implements AnswerCollector<AnswerEvent> {
  readonly #dialect: string;
  readonly #encode: (event: AnswerEvent) => Iterable<Piece>;
  readonly #pieces: PieceCollector<Piece>;
  #native: string | undefined;

  /** @param encode Encodes an event as the format's stream would. */
  constructor(dialect: string, encode: (event: AnswerEvent) => Iterable<Piece>, pieces: PieceCollector<Piece>) {
    this.#dialect = dialect;
    this.#encode = encode;
    this.#pieces = pieces;
  }

  add(event: AnswerEvent): void {
    // Its body comes with the finish, and is passed on as it is: nobody asks what it means.
    if (event.type === "native" && event.isWhole && event.dialect === this.#dialect) return;
    if (event.type === "finish" && event.native?.dialect === this.#dialect) this.#native = event.native.body;
    if (this.#native !== undefined) return;
    for (const piece of this.#encode(event)) this.#pieces.add(piece);
  }

  body(): object {
    return this.#native === undefined ? this.#pieces.body : new RawJson(this.#native);
  }
}
