/** A call as the stores of its host see it. */

import type { CallInfo } from "../ports/call-info.ts";

/** What of a call its host may know. */
interface KnownCall {
  readonly id: string;
  readonly context: unknown;
  readonly request: Request;
  readonly mounted: { readonly clientAddress?: string | undefined };
}

/** What a store is told about a call. */
export class CallDetails implements CallInfo {
  readonly requestId: string;
  readonly context: unknown;
  readonly headers: Headers;
  readonly clientAddress: string | undefined;

  constructor({ id, context, request, mounted }: KnownCall) {
    this.requestId = id;
    this.context = context;
    this.headers = request.headers;
    this.clientAddress = mounted.clientAddress;
  }
}
