/** Responses that are made in the background: their documents while they are made, and the stream of such a document. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent } from "../../kinds/chat/event.ts";
import { isJsonObject, type JsonObject, parseJson } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KeptDocument } from "../../ports/response-store.ts";
import type { AnswerContext, AnswerStream, BackgroundAnswer, FrameSource, KeptDocuments } from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import { encodeError } from "../shared/errors.ts";
import { ResponseBuilder } from "./answer.ts";
import { addToConversation, contentOf, keptItem, type KeptResponse, outputOf, type ResponsesNative } from "./kept.ts";

/** A response that is made in the background. */
export interface KeptProgress {
  /** The time until which its process is known to live, in milliseconds since the Unix epoch. */
  readonly leaseEndsAt: number;
  /** The data of the events so far. */
  readonly events: readonly string[];
}

/** A process that has not renewed the lease of its response for so long has died, in milliseconds. */
const LEASE_MS = 30_000;

const UNFINISHED: ReadonlySet<unknown> = new Set(["queued", "in_progress"]);

export class BackgroundResponse implements BackgroundAnswer<AnswerEvent>, AnswerStream<AnswerEvent> {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = ": keep-alive\n\n";
  readonly #kept: KeptDocuments;
  readonly #native: ResponsesNative;
  readonly #base: string;
  readonly #clock: Clock;
  readonly #builder: ResponseBuilder;
  readonly #events: string[] = [];
  /** The events that are written to the client, and not yet taken. */
  #frames = "";
  #revision = 0;
  #savedEvents = 0;
  #leaseEndsAt = 0;
  /** The last write to the store. One follows the other. */
  #writing: Promise<boolean> = Promise.resolve(true);

  constructor(context: AnswerContext, kept: KeptDocuments, clock: Clock) {
    this.#kept = kept;
    this.#native = context.request.native as ResponsesNative;
    this.#base = context.requestId.replace(/^req_/, "");
    this.#clock = clock;
    const now = (): number => Math.floor(clock.now() / 1_000);
    this.#builder = new ResponseBuilder(context, now, (type, fields) => this.#emit(type, fields));
  }

  async begin(): Promise<object> {
    const response = this.#builder.snapshot("queued");
    const content = JSON.stringify(this.#contentOf(response));
    await this.#kept.create([{ id: response.id, aliases: this.#aliasesOf(response), content }]);
    return response;
  }

  save(): Promise<boolean> {
    const isDue = this.#clock.now() > this.#leaseEndsAt - LEASE_MS / 2;
    if (this.#events.length === this.#savedEvents && !isDue) return this.#writing;
    return this.#write(() => this.#builder.snapshot("in_progress"));
  }

  async keep(finish: AnswerEvent): Promise<void> {
    this.#builder.add(finish);
    this.#builder.conclude();
    const isKept = await this.#write(() => this.#builder.body);
    const { conversation } = this.#native.own;
    if (!isKept || conversation === undefined) return;
    const items = [...this.#input(), ...outputOf(this.#builder.body as unknown as JsonObject)];
    await addToConversation(this.#kept, conversation, items).catch((error: unknown) => this.#kept.failed(error));
  }

  encode(event: AnswerEvent): string {
    // The id was told before the upstream had answered.
    if (event.type === "start") this.#builder.add({ ...event, id: undefined });
    else if (event.type !== "finish") this.#builder.add(event);
    const frames = this.#frames;
    this.#frames = "";
    return frames;
  }

  error(error: GatewayError): string {
    const { error: told } = encodeError(error);
    const failed = this.#builder.fail({ error: told });
    void this.#write(() => failed);
    const frames = this.#frames;
    this.#frames = "";
    return frames;
  }

  #emit(type: string, fields: Readonly<Record<string, unknown>>): void {
    const data = JSON.stringify({ type, sequence_number: this.#events.length, ...fields });
    this.#events.push(data);
    this.#frames += frameOf({ event: type, data });
  }

  /** Writes the document. Resolves with false when another call has changed or deleted it; a store that fails changes nothing. */
  #write(snapshot: () => object): Promise<boolean> {
    this.#writing = this.#writing.then(async (mayGoOn) => {
      if (!mayGoOn) return false;
      const response = snapshot() as unknown as JsonObject;
      this.#savedEvents = this.#events.length;
      this.#leaseEndsAt = this.#clock.now() + LEASE_MS;
      const content = JSON.stringify(this.#contentOf(response));
      const update = {
        id: String(response["id"]),
        revision: this.#revision,
        content,
        aliases: this.#aliasesOf(response),
      };
      try {
        const isWritten = await this.#kept.update(update);
        if (isWritten) this.#revision++;
        return isWritten;
      } catch (error) {
        this.#kept.failed(error);
        return true;
      }
    });
    return this.#writing;
  }

  #contentOf(response: object): KeptResponse {
    const leaseEndsAt = this.#clock.now() + LEASE_MS;
    return {
      response: response as unknown as JsonObject,
      input: this.#input(),
      previous: this.#native.own.previous,
      background: { leaseEndsAt, events: this.#events },
    };
  }

  #input(): JsonObject[] {
    return this.#native.own.input.map((item, index) => keptItem(item, this.#base, index));
  }

  #aliasesOf(response: object): string[] {
    const items = [...this.#input(), ...outputOf(response as unknown as JsonObject)];
    return items.flatMap(({ id }) => (typeof id === "string" ? id : []));
  }
}

/** Returns a kept response as it is now. One whose process has died is failed, and is kept as such. */
export async function presentResponse(kept: KeptDocuments, document: KeptDocument, now: number): Promise<JsonObject> {
  const content = contentOf(document);
  const { response, background } = content;
  if (!background || background.leaseEndsAt >= now || !UNFINISHED.has(response["status"])) return response;
  const error = { code: "server_error", message: "The process that made this response has ended." };
  const failed = { ...response, status: "failed", error };
  await kept.update({
    id: document.id,
    revision: document.revision,
    content: JSON.stringify({ ...content, response: failed }),
  });
  return failed;
}

/** The most attempts to cancel a response that is being written at the same time. */
const MAX_TRIES = 10;

/** Cancels a response. Its process notices when it writes the document again. Throws `invalid_request` for a response of another kind. */
export async function cancelResponse(kept: KeptDocuments, find: () => Promise<KeptDocument>): Promise<JsonObject> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const document = await find();
    const content = contentOf(document);
    if (!content.background) throw new GatewayError("invalid_request", "Cannot cancel a synchronous response.");
    if (!UNFINISHED.has(content.response["status"])) return content.response;
    const response = { ...content.response, status: "cancelled" };
    const update = { id: document.id, revision: document.revision, content: JSON.stringify({ ...content, response }) };
    if (await kept.update(update)) return response;
  }
  throw new GatewayError("busy", "The response is being changed.", { retryAfterMs: 1_000 });
}

/** The events of a response that was made in the background, from a point on, and those that follow while it is made. */
export class KeptStream implements FrameSource {
  readonly contentType = "text/event-stream; charset=utf-8";
  readonly keepAlive = ": keep-alive\n\n";
  readonly #find: () => Promise<KeptDocument>;
  readonly #now: () => number;
  #after: number;

  /** @param after The number of the last event that the client has. */
  constructor(find: () => Promise<KeptDocument>, after: number, now: () => number) {
    this.#find = find;
    this.#after = after;
    this.#now = now;
  }

  async next(): Promise<{ readonly frames: string; readonly isLast: boolean }> {
    const { response, background } = contentOf(await this.#find());
    let frames = "";
    for (const data of background?.events.slice(this.#after + 1) ?? []) {
      const event = parseJson(data);
      const type = isJsonObject(event) ? event["type"] : undefined;
      frames += frameOf({ data, ...(typeof type === "string" && { event: type }) });
      this.#after++;
    }
    const isDead = background !== undefined && background.leaseEndsAt < this.#now();
    return { frames, isLast: isDead || !UNFINISHED.has(response["status"]) };
  }

  error(error: GatewayError): string {
    return frameOf({ event: "error", data: JSON.stringify({ ...encodeError(error).error, type: "error" }) });
  }
}
