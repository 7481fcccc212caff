/** Finds the request id of a call in what people paste. */

/**
 * Returns the request id in a text, such as in the error of a client. The id of an answer that the gateway has made, such as `msg_…`, `resp_…` or
 * `chatcmpl-…`, has the same 32 digits; an answer of an upstream of the same format keeps the id of the upstream, which no record has. Undefined
 * for a text without either.
 */
export function requestIdIn(text: string): string | undefined {
  const [own] = /\breq_[\w-]+/.exec(text) ?? [];
  const [, digits] = /(?<![^\W_])[a-z]+[_-]([\da-f]{32})(?![^\W_])/.exec(text) ?? [];
  return own ?? (digits === undefined ? undefined : `req_${digits}`);
}

/** Says which id is wanted, and where the caller sees it. */
export const WHERE_IDS_ARE =
  "A request id begins with req_ as a rule: it stands in the header request-id of the answer, and in errors. The id in an answer may be that of the upstream.";
