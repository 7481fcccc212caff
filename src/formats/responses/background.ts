/** Responses that are made in the background: their documents while they are made, and the stream of such a document. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent } from "../../model/chat-event.ts";
import { jsonLine, type JsonObject, parseJson } from "../../model/json.ts";
import { type Clock, nextIteration } from "../../ports/clock.ts";
import type {
  AnswerContext,
  AnswerStream,
  BackgroundAnswer,
  FrameSource,
  KeptDocuments,
  NewKept,
  StoredDocument,
} from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import { encodeError } from "../shared/errors.ts";
import { errorEvent, ResponseBuilder } from "./answer.ts";
import {
  contentFrom,
  contentOf,
  DOCUMENT_LIMITS,
  headOf,
  inputDocuments,
  keepWith,
  type KeptHead,
  noResponse,
  responseDocuments,
} from "./kept.ts";

/**
 * A process that has not renewed the lease of its response for so long counts as dead, in milliseconds. The lease expires by the store's
 * clock, and nothing else is decided by time: a result that comes all the same is kept.
 */
const LEASE_MS = 30_000;

const UNFINISHED: ReadonlySet<unknown> = new Set(["queued", "in_progress"]);

/**
 * Beside the document of a response that is made stands its lease, and the document has children: its input, and pieces of its stream. So
 * the response itself, which may be large, is written twice only: when it begins and when it ends. Who cancels or deletes it deletes the lease.
 */
export const leaseOf = (id: string): string => `${id}/lease`;
const pieceOf = (id: string, first: number | "begin"): string => `${id}/events-${first}`;

const newLease = (id: string): NewKept => ({ id: leaseOf(id), content: "{}", retainMs: LEASE_MS });

/** Tells whether the process that makes a response has renewed its lease. */
const isMade = async (kept: KeptDocuments, id: string): Promise<boolean> =>
  (await kept.peek([leaseOf(id)])).some((lease) => lease.id === leaseOf(id) && lease.parentId === undefined);

/** The events of one piece have this many characters together, and a larger event is a piece of its own. */
const PIECE_CHARS = 32 * 1024;

/** Returns the documents of the pieces for events: a list of their data, or the data of one large event. */
function piecesOf(parentId: string, first: number, events: readonly string[]): NewKept[] {
  const pieces: NewKept[] = [];
  for (let at = 0; at < events.length;) {
    let [end, chars] = [at, 0];
    do chars += events[end++]?.length ?? 0;
    while (end < events.length && chars + (events[end]?.length ?? 0) <= PIECE_CHARS);
    const content = chars > PIECE_CHARS ? (events[at] ?? "") : JSON.stringify(events.slice(at, end));
    pieces.push({ id: pieceOf(parentId, first + at), parentId, content });
    at = end;
  }
  return pieces;
}

export class BackgroundResponse implements BackgroundAnswer<AnswerEvent>, AnswerStream<AnswerEvent> {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = ": keep-alive\n\n";
  readonly #context: AnswerContext;
  readonly #kept: KeptDocuments;
  readonly #clock: Clock;
  readonly #builder: ResponseBuilder;
  #id = "";
  /** The data of the events that are not written to the store yet. */
  #unsaved: string[] = [];
  /** The events before them whose write has failed, or has not ended. */
  #piece: string[] = [];
  #savedEvents = 0;
  /** The events that are written to the client, and not yet taken. */
  #frames = "";
  #nextRenewal = 0;
  /** The final response, once it is known. */
  #final: JsonObject | undefined;
  /** True once the final response is written, or may not be. */
  #isOver = false;
  /** The last write to the store. One follows the other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(context: AnswerContext, kept: KeptDocuments, clock: Clock) {
    this.#context = context;
    this.#kept = kept;
    this.#clock = clock;
    const now = (): number => Math.floor(clock.now() / 1_000);
    this.#builder = new ResponseBuilder(context, now, (type, fields) => this.#emit(type, fields));
  }

  async begin(): Promise<object> {
    const begun = this.#builder.snapshot("in_progress");
    const response = begun as unknown as JsonObject;
    this.#id = begun.id;
    await this.#kept.create([
      ...responseDocuments(this.#context, response, true),
      newLease(this.#id),
      ...inputDocuments(this.#context),
      // The stream begins behind this piece.
      { id: pieceOf(this.#id, "begin"), parentId: this.#id, content: "[]" },
    ]);
    this.#nextRenewal = this.#clock.now() + LEASE_MS / 3;
    return { ...response, status: "queued" };
  }

  save(): Promise<boolean> {
    return this.#after(async () => {
      if (this.#isOver) return true;
      try {
        await this.#saveEvents();
        return await this.#isWanted();
      } catch (error) {
        this.#kept.failed(error);
        return true;
      }
    });
  }

  async keep(finish: AnswerEvent): Promise<void> {
    this.#builder.add(finish);
    this.#builder.conclude();
    this.#final = this.#builder.body as unknown as JsonObject;
    await this.#finish();
  }

  encode(event: AnswerEvent): string {
    // The id was told before the upstream had answered.
    if (event.type === "start") this.#builder.add({ ...event, id: undefined });
    else if (event.type !== "finish") this.#builder.add(event);
    return this.#take();
  }

  error(error: GatewayError): string {
    this.#final ??= this.#builder.fail(encodeError(error)) as unknown as JsonObject;
    return this.#take();
  }

  async end(error: GatewayError): Promise<void> {
    if (!this.#final) this.error(error);
    await this.#finish();
  }

  #take(): string {
    const frames = this.#frames;
    this.#frames = "";
    return frames;
  }

  #emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    const number = this.#savedEvents + this.#piece.length + this.#unsaved.length;
    const data = jsonLine({ type, sequence_number: number, ...fields });
    this.#unsaved.push(data);
    this.#frames += frameOf({ event: type, data });
  }

  /** Does work when the work before it is done. */
  #after<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#writing.then(work);
    this.#writing = done;
    return done;
  }

  /** Writes the final response, once. A store that fails is asked once more at the end of the call. */
  #finish(): Promise<void> {
    return this.#after(async () => {
      if (this.#isOver || !this.#final) return;
      try {
        await this.#saveEvents();
        await this.#write(this.#final);
        this.#isOver = true;
      } catch (error) {
        this.#kept.failed(error);
      }
    });
  }

  async #write(response: JsonObject): Promise<void> {
    const [document, ...output] = responseDocuments(this.#context, response, true);
    if (output.length > 0) await this.#kept.create(output);
    const isWritten = await this.#kept.update({ ...document, revision: 0 });
    if (!isWritten || UNKEPT.has(response["status"])) return;
    await keepWith(this.#context, response, []).catch((error: unknown) => this.#kept.failed(error));
  }

  /** Writes the events since the last time. A piece whose write has failed may be in the store all the same, so it stays as it was. */
  async #saveEvents(): Promise<void> {
    for (let isAgain = true; isAgain;) {
      isAgain = this.#piece.length > 0;
      if (!isAgain) [this.#piece, this.#unsaved] = [this.#unsaved, []];
      if (this.#piece.length === 0) return;
      await this.#kept.create(piecesOf(this.#id, this.#savedEvents, this.#piece));
      this.#savedEvents += this.#piece.length;
      this.#piece = [];
    }
  }

  /** Tells whether the response is still to be made. Renews its lease when that is due, and makes an expired lease again. */
  async #isWanted(): Promise<boolean> {
    const id = this.#id;
    const [lease] = await this.#kept.peek([leaseOf(id)]);
    const now = this.#clock.now();
    if (lease && now < this.#nextRenewal) return true;
    const [document] = await this.#kept.peek([id]);
    if (document?.id !== id || !UNFINISHED.has(headOf(document)?.head.status)) return false;
    if (lease) await this.#kept.update({ ...newLease(id), revision: lease.revision });
    else await this.#kept.create([newLease(id)]);
    this.#nextRenewal = now + LEASE_MS / 3;
    return true;
  }
}

/** The ends of a response whose items no conversation gets. */
const UNKEPT: ReadonlySet<unknown> = new Set(["failed", "cancelled"]);

/** A response as it is stored. */
export interface StoredResponse {
  readonly document: StoredDocument;
  readonly head: KeptHead;
}

/**
 * Returns a kept response as it is now, with the error of a response whose process has died. Such a response is not written: its process may
 * be late, and its result then counts.
 */
export async function presentResponse(
  kept: KeptDocuments,
  find: () => Promise<StoredResponse>,
): Promise<StoredResponse & { readonly failed?: { readonly status: string; readonly error: JsonObject } }> {
  const found = await find();
  if (!isUnfinished(found) || (await isMade(kept, found.document.id))) return found;
  // It may have ended in this moment.
  const present = await find();
  if (!isUnfinished(present)) return present;
  const error = { code: "server_error", message: "The process that made this response has ended." };
  return { ...present, failed: { status: "failed", error } };
}

const isUnfinished = ({ head }: StoredResponse): boolean => head.background === true && UNFINISHED.has(head.status);

export async function wholeResponse(
  kept: KeptDocuments,
  document: StoredDocument,
  more: JsonObject = {},
): Promise<JsonObject> {
  const [whole] = await kept.whole([document]);
  if (!whole) throw noResponse(document.id);
  return { ...contentOf(whole).response, ...more };
}

/** The most attempts to cancel a response that is being written at the same time. */
const MAX_TRIES = 3;

/** Cancels a response. Its process notices within a second or so. Throws `invalid_request` for a response of another kind. */
export async function cancelResponse(
  kept: KeptDocuments,
  find: () => Promise<StoredResponse>,
): Promise<StoredResponse & { readonly failed?: JsonObject }> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const present = await presentResponse(kept, find);
    const { document, head } = present;
    const { id, revision } = document;
    if (!head.background) throw new GatewayError("invalid_request", "Cannot cancel a synchronous response.");
    // Do so for a response that was cancelled before, too: the deletion may have failed then.
    if (head.status === "cancelled") await kept.delete(leaseOf(id));
    if (present.failed || !isUnfinished(present)) return present;
    const response = await wholeResponse(kept, document, { status: "cancelled" });
    await kept.update({ id, revision, content: contentFrom({ ...head, response }) });
  }
  throw new GatewayError("busy", "The response is being changed.", { retryAfterMs: 1_000 });
}

/** The pieces of a stream that are read at once: a client may leave them unread. */
const PIECES = { limit: 100, maxChars: 128 * 1024, order: "asc" } as const;

/** The events of a response that was made in the background, from a point on, and those that follow while it is made. */
export class KeptStream implements FrameSource {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = ": keep-alive\n\n";
  readonly #kept: KeptDocuments;
  readonly #find: () => Promise<StoredResponse>;
  /** The number of the last event that the client has. */
  readonly #after: number;
  readonly #frames: AsyncGenerator<string, void>;
  #events = 0;
  #last = "";
  /** True while the reader has the beginning of a large event, and not its end. */
  #isHalf = false;

  constructor(kept: KeptDocuments, find: () => Promise<StoredResponse>, after: number) {
    this.#kept = kept;
    this.#find = find;
    this.#after = after;
    this.#frames = this.#read();
  }

  async next(): Promise<{ readonly frames: string; readonly isLast: boolean }> {
    const { value, done } = await this.#frames.next();
    return { frames: value ?? "", isLast: done === true };
  }

  /** Reads the frames piece by piece. An empty text means that no more have come yet. */
  async *#read(): AsyncGenerator<string, void> {
    for (let after: string | undefined; ;) {
      // Read the state first: a finished response has all its pieces.
      const { document, head, failed } = await presentResponse(this.#kept, this.#find);
      const { id } = document;
      const children = await this.#kept.list(id, { ...PIECES, after: after ?? pieceOf(id, "begin") });
      // A store may answer with the same page again.
      const isNew = children.length > 0 && children.at(-1)?.id !== after;
      after = children.at(-1)?.id ?? after;
      for (const child of children) if (child.id.startsWith(`${id}/events-`)) yield* this.#framesIn(child);
      if (isNew) {
        await nextIteration();
        continue;
      }
      if (!failed && UNFINISHED.has(head.status)) {
        yield "";
        continue;
      }
      // A dead process writes no end of its response, and the process of a cancelled response may not have written it yet.
      if ((failed || UNKEPT.has(head.status)) && !this.#last.startsWith("response."))
        yield this.#written("response.failed", { response: await wholeResponse(this.#kept, document, failed) });
      return;
    }
  }

  /** Returns the frames of a piece: of a list of events, or of one large event. */
  async *#framesIn(piece: StoredDocument): AsyncGenerator<string, void> {
    if (!piece.content.startsWith("[")) {
      if (this.#isOld(piece.content)) return;
      this.#isHalf = true;
      yield frameStart(piece.content);
      for await (const part of this.#kept.pieces(piece)) {
        if (part === undefined) throw noResponse(piece.parentId ?? "");
        yield part;
      }
      this.#isHalf = false;
      return yield "\n\n";
    }
    const [whole] = await this.#kept.whole([piece]);
    const events = whole && parseJson(whole.content, DOCUMENT_LIMITS);
    if (Array.isArray(events)) yield events.map((data) => this.#frame(String(data))).join("");
  }

  error(error: GatewayError): string {
    const event = errorEvent(encodeError(error)) as Readonly<Record<string, unknown>>;
    return (this.#isHalf ? "\n\n" : "") + this.#written("error", event);
  }

  #frame(data: string): string {
    return this.#isOld(data) ? "" : `${frameStart(data)}${data}\n\n`;
  }

  /** Counts an event. Returns true for an event that the client has. */
  #isOld(data: string): boolean {
    const type = typeOf(data);
    this.#last = LAST.test(type) ? type : "";
    return this.#events++ <= this.#after;
  }

  /** Returns the frame of an event that is not stored. It is new to the client, also to one that has asked for later events. */
  #written(type: string, fields: Readonly<Record<string, unknown>>): string {
    const sequence_number = Math.max(this.#events, this.#after + 1);
    return frameOf({ event: type, data: jsonLine({ type, sequence_number, ...fields }) });
  }
}

/** Returns the type in the data of an event, or in its beginning. */
const typeOf = (data: string): string => /^\{"type":"([\w.]+)"/.exec(data)?.[1] ?? "";

/** Returns the frame of an event up to its data, which is one line. */
const frameStart = (data: string): string => (typeOf(data) === "" ? "data: " : `event: ${typeOf(data)}\ndata: `);

/** The events after which nothing follows. */
const LAST = /^response\.(?:completed|incomplete|failed)$/;
