/** Responses that are made in the background: their documents while they are made, and the stream of such a document. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { AnswerContext, AnswerStream, BackgroundAnswer, FrameSource, KeptDocuments } from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import { encodeError } from "../shared/errors.ts";
import { errorEvent, ResponseBuilder } from "./answer.ts";
import {
  contentOf,
  DOCUMENT_LIMITS,
  inputDocument,
  inputIdOf,
  newItemsOf,
  PAGE_BYTES,
  responseDocument,
} from "./kept.ts";
import { dataOf } from "./stream.native.ts";

/** A process that has not renewed the lease of its response for so long has died, in milliseconds. */
const LEASE_MS = 30_000;

const UNFINISHED: ReadonlySet<unknown> = new Set(["queued", "in_progress"]);

/**
 * The document of a response that is made has children beside its input: its lease, and pieces of its stream. So the response itself, which may be
 * large, is written twice only: when it begins and when it ends. Who cancels it deletes the lease.
 */
const leaseOf = (id: string): string => `${id}/lease`;
const pieceOf = (id: string, first: number): string => `${id}/events-${first}`;

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
  #leaseEndsAt = 0;
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
    const now = this.#clock.now();
    await this.#kept.create([
      responseDocument(this.#context, response, true),
      { id: leaseOf(this.#id), parentId: this.#id, content: leaseFrom(now) },
      inputDocument(this.#context),
    ]);
    this.#leaseEndsAt = now + LEASE_MS;
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
    const data = dataOf({ type, sequence_number: number, ...fields });
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
    const isWritten = await this.#kept.update({ ...responseDocument(this.#context, response, true), revision: 0 });
    const items = newItemsOf(this.#context, response);
    if (!isWritten || items.length === 0 || UNKEPT.has(response["status"])) return;
    await this.#kept.create(items).catch((error: unknown) => this.#kept.failed(error));
  }

  /** Writes the events since the last time. A piece whose write has failed may be in the store all the same, so it stays as it was. */
  async #saveEvents(): Promise<void> {
    for (let isAgain = true; isAgain;) {
      isAgain = this.#piece.length > 0;
      if (!isAgain) [this.#piece, this.#unsaved] = [this.#unsaved, []];
      if (this.#piece.length === 0) return;
      const id = pieceOf(this.#id, this.#savedEvents);
      await this.#kept.create([{ id, parentId: this.#id, content: JSON.stringify(this.#piece) }]);
      this.#savedEvents += this.#piece.length;
      this.#piece = [];
    }
  }

  /** Tells whether the response is still to be made. Renews its lease when that is due. */
  async #isWanted(): Promise<boolean> {
    const [lease] = await this.#kept.read([leaseOf(this.#id)]);
    if (!lease) return false;
    const now = this.#clock.now();
    if (now < this.#leaseEndsAt - LEASE_MS / 2) return true;
    const { id, revision } = lease;
    const isRenewed = await this.#kept.update({ id, revision, content: leaseFrom(now) });
    if (isRenewed) this.#leaseEndsAt = now + LEASE_MS;
    return isRenewed;
  }
}

/** The content of a lease that begins now. */
const leaseFrom = (now: number): string => JSON.stringify({ endsAt: now + LEASE_MS });

/** The ends of a response whose items no conversation gets. */
const UNKEPT: ReadonlySet<unknown> = new Set(["failed", "cancelled"]);

/** Returns a kept response as it is now. A response whose process has died is failed, and is kept as such. */
export async function presentResponse(kept: KeptDocuments, document: KeptDocument, now: number): Promise<JsonObject> {
  const content = contentOf(document);
  const { response, background } = content;
  if (!background || !UNFINISHED.has(response["status"])) return response;
  const { id, revision } = document;
  const [lease] = await kept.read([leaseOf(id)]);
  const told = lease && parseJson(lease.content);
  if (isJsonObject(told) && Number(told["endsAt"]) >= now) return response;
  const error = { code: "server_error", message: "The process that made this response has ended." };
  const failed = { ...response, status: "failed", error };
  const isFailed = await kept.update({ id, revision, content: JSON.stringify({ ...content, response: failed }) });
  if (isFailed) return failed;
  // It has ended in this moment, or was deleted.
  const [changed] = await kept.read([id]);
  return changed ? contentOf(changed).response : failed;
}

/** The most attempts to cancel a response that is being written at the same time. */
const MAX_TRIES = 3;

/** Cancels a response. Its process notices within a second or so. Throws `invalid_request` for a response of another kind. */
export async function cancelResponse(
  kept: KeptDocuments,
  find: () => Promise<KeptDocument>,
  now: number,
): Promise<JsonObject> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const document = await find();
    const { id, revision } = document;
    const content = contentOf(document);
    if (!content.background) throw new GatewayError("invalid_request", "Cannot cancel a synchronous response.");
    const present = await presentResponse(kept, document, now);
    const isUnfinished = UNFINISHED.has(present["status"]);
    const response = isUnfinished ? { ...present, status: "cancelled" } : present;
    const update = { id, revision, content: JSON.stringify({ ...content, response }) };
    if (isUnfinished && !(await kept.update(update))) continue;
    // Also for a response that was cancelled before: the deletion may have failed then.
    if (response["status"] === "cancelled") await kept.delete(leaseOf(id));
    return response;
  }
  throw new GatewayError("busy", "The response is being changed.", { retryAfterMs: 1_000 });
}

/** The pieces of a stream that are read at once. */
const PIECES_A_READ = 100;

/** The events of a response that was made in the background, from a point on, and those that follow while it is made. */
export class KeptStream implements FrameSource {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = ": keep-alive\n\n";
  readonly #kept: KeptDocuments;
  readonly #find: () => Promise<KeptDocument>;
  readonly #now: () => number;
  /** The number of the last event that the client has. */
  readonly #after: number;
  /** The id of the last piece that was read. */
  #piece: string | undefined;
  #events = 0;
  #last = "";

  constructor(kept: KeptDocuments, find: () => Promise<KeptDocument>, after: number, now: () => number) {
    this.#kept = kept;
    this.#find = find;
    this.#after = after;
    this.#now = now;
  }

  async next(): Promise<{ readonly frames: string; readonly isLast: boolean }> {
    // Read the state first: a finished response has all its pieces.
    const document = await this.#find();
    const response = await presentResponse(this.#kept, document, this.#now());
    // The pieces stand behind the lease, which may be deleted, and behind the input.
    const after = this.#piece ?? inputIdOf(document.id);
    const page = { limit: PIECES_A_READ, maxBytes: PAGE_BYTES, order: "asc", after } as const;
    const pieces = await this.#kept.list(document.id, page);
    let frames = "";
    for (const { id, content } of pieces) {
      this.#piece = id;
      const events = parseJson(content, DOCUMENT_LIMITS);
      if (Array.isArray(events)) for (const data of events) frames += this.#frame(String(data));
    }
    const isLast = pieces.length === 0 && !UNFINISHED.has(response["status"]);
    // A dead process writes no end of its response, and the process of a cancelled response may not have written it yet.
    if (isLast && UNKEPT.has(response["status"]) && !this.#last.startsWith("response."))
      frames += this.#failed(response);
    return { frames, isLast };
  }

  error(error: GatewayError): string {
    return this.#written("error", errorEvent(encodeError(error)) as Readonly<Record<string, unknown>>);
  }

  #frame(data: string): string {
    const [, type] = /^\{"type":"([\w.]+)"/.exec(data) ?? [];
    this.#last = LAST.test(type ?? "") ? (type ?? "") : "";
    const isOld = this.#events++ <= this.#after;
    return isOld ? "" : frameOf({ data, ...(type !== undefined && { event: type }) });
  }

  #failed(response: JsonObject): string {
    return this.#written("response.failed", { response });
  }

  #written(type: string, fields: Readonly<Record<string, unknown>>): string {
    return this.#frame(dataOf({ type, sequence_number: this.#events, ...fields }));
  }
}

/** The events after which nothing follows. */
const LAST = /^response\.(?:completed|incomplete|failed)$/;
