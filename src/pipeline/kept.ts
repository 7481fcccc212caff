/** The documents of a call's key in the host's store of responses. */

import { toGatewayError } from "../errors.ts";
import type { KeptDocuments } from "../formats/format.ts";
import { LATE, within } from "../http/wait.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import { askStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { report } from "./failures.ts";
import type { Responses } from "./services.ts";
import { tooLate } from "./settlements.ts";

/** Returns the documents of the call's key; undefined without a store. */
export function keptBy(call: Call): KeptDocuments | undefined {
  const { services, key } = call;
  return services.responses && key && new KeyDocuments(call, key.id, services.responses);
}

class KeyDocuments implements KeptDocuments {
  readonly #call: Call;
  readonly #keyId: string;
  readonly #store: ResponseStore;
  readonly #retainMs: number;

  constructor(call: Call, keyId: string, { store, retainMs }: Responses) {
    this.#call = call;
    this.#keyId = keyId;
    this.#store = store;
    this.#retainMs = retainMs;
  }

  create(documents: readonly Omit<NewDocument, "retainMs">[]): Promise<boolean> {
    const retained = documents.map((document) => ({ ...document, retainMs: this.#retainMs }));
    return this.#ask("create", (call) => this.#store.create(this.#keyId, retained, call));
  }

  update(update: Omit<DocumentUpdate, "retainMs">): Promise<boolean> {
    const retained = { ...update, retainMs: this.#retainMs };
    return this.#ask("update", (call) => this.#store.update(this.#keyId, retained, call));
  }

  read(ids: readonly string[]): Promise<readonly KeptDocument[]> {
    return this.#ask("read", (call) => this.#store.read(this.#keyId, ids, call));
  }

  list(parentId: string, page: DocumentPage): Promise<readonly KeptDocument[]> {
    return this.#ask("list", (call) => this.#store.list(this.#keyId, parentId, page, call));
  }

  delete(id: string): Promise<boolean> {
    return this.#ask("delete", (call) => this.#store.delete(this.#keyId, id, call));
  }

  failed(error: unknown): void {
    report(this.#call, error, "response-store");
  }

  /** Asks after the end of the call too, because a response that is made in the background is written then. */
  async #ask<Value>(verb: string, ask: (call: Call["details"]) => Promise<Value>): Promise<Value> {
    const { clock, details, isEnded, limits } = this.#call;
    if (!isEnded) return askStore(this.#call, "response-store", verb, () => ask(details));
    const answer = await within(ask(details), limits.storeTimeoutMs, clock);
    if (answer !== LATE) return answer;
    throw toGatewayError(tooLate(limits.storeTimeoutMs), "response-store");
  }
}
