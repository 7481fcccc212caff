/** CORS: answers preflights, and lets the pages of other origins read answers. */

import { H3Event, handleCors } from "h3";
import type { Answer, CorsOptions } from "./answer.ts";

/** Applies h3's CORS rules: returns the whole answer to a preflight, and headers for any other request. */
export function corsOf(
  request: Request,
  options: CorsOptions,
): { preflight?: Answer; headers: Record<string, string> } {
  const event = new H3Event(request);
  const preflight = handleCors(event, options);
  const headers = Object.fromEntries(event.res.headers);
  return preflight ? { preflight: { status: preflight.status ?? 204, headers, body: null }, headers } : { headers };
}
