/** What an upstream says that its answer's body is. */

import type { UpstreamResponse } from "./transport.ts";

export const EVENT_STREAM: RegExp = /^text\/event-stream$/;
export const JSON_TYPE: RegExp = /^application\/(?:[\w.-]+\+)?json$/;

/** Whether a response says that its body is of a type, or nothing about it. */
export function isOfType(response: UpstreamResponse, type: RegExp): boolean {
  const said = response.header("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  return said === undefined || said === "" || type.test(said);
}
