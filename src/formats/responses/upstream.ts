/** The Responses format as upstreams speak it: the codec of a relay. */

import { backendFailed } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { ChatEvent, NativeEvent } from "../../model/chat-event.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import type { ChatCodec, CodecOptions, AnswerDecoder } from "../format.ts";
import { decodeUpstreamError, limitHeaders, retryAfterOf } from "../shared/errors.decode.ts";
import { TOOL_NAMES } from "../shared/tool-names.ts";
import { lostUsage, parseAnswerObject } from "../shared/upstream.ts";
import { ResponseDecoder, decodeUsage, usageIn } from "./answer.decode.ts";
import { COMPACT_FORMAT } from "./compaction.keys.ts";
import { encodeRequest, overlaidRequest } from "./request.ts";
import { FORMAT } from "./routes.ts";
import { LooseUsage } from "./schema.upstream.ts";

/** Makes the codec for upstreams that speak this format. */
export function responsesCodec(options: CodecOptions = {}): ChatCodec {
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const { native } = request;
    const encoded =
      native?.format === FORMAT ? overlaidRequest({ ...request, native }, options) : encodeRequest(request, options);
    return { path: "/responses", headers: {}, ...encoded };
  };
  return {
    format: FORMAT,
    toolNames: TOOL_NAMES,
    runsCode: true,
    encodeRequest: encode,
    answerDecoder: (limits) => new ResponseDecoder(limits),
    answerFields: /^(?:output|response|sequence_number)$/,
    count: {
      encode(request) {
        const { body, headers } = encode(request);
        const counted = Object.entries(body).filter(([field]) => COUNTED.has(field));
        return { path: "/responses/input_tokens", headers, body: Object.fromEntries(counted) };
      },
      decode: ({ input_tokens }) => input_tokens,
    },
    compact: {
      format: COMPACT_FORMAT,
      encode(request) {
        const native = { ...(request.native ?? { body: {}, betas: [] }), format: FORMAT };
        const { body, conversions } = overlaidRequest({ ...request, native }, options);
        const passed = Object.entries(body).filter(([field]) => !OF_ANSWERS.has(field));
        return { path: "/responses/compact", headers: {}, body: Object.fromEntries(passed), conversions };
      },
      decoder: (limits) => new CompactionDecoder(limits),
    },
    decodeError: (status, headers, body) => decodeUpstreamError(status, body, retryAfterOf(headers)),
    limitsOf: (headers) => ({ format: FORMAT, headers: limitHeaders(headers, usedUp(headers)) }),
  };
}

/** Lists the headers about the used-up windows of a subscription. Clients read them to learn how long to wait. */
const usedUp = (headers: Headers): string[] =>
  ["x-codex-primary-", "x-codex-secondary-"]
    .filter((window) => Number(headers.get(`${window}used-percent`)) >= 100)
    .flatMap((window) =>
      ["used-percent", "window-minutes", "reset-at", "reset-after-seconds"].map((name) => window + name),
    );

/** The request fields that a compaction does not have. */
const OF_ANSWERS: ReadonlySet<string> = new Set([
  "max_output_tokens",
  "store",
  "stream",
  "include",
  "context_management",
]);

/** The request fields that a token count reads. The official service refuses the others. */
const COUNTED: ReadonlySet<string> = new Set([
  "model",
  "input",
  "instructions",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "personality",
  "reasoning",
  "text",
  "truncation",
]);

/** Decodes the compaction that an upstream has made. The caller gets it unchanged. */
class CompactionDecoder implements Pick<AnswerDecoder, "answer" | "lost"> {
  readonly #limits: JsonLimits | undefined;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
  }

  answer(body: string): ChatEvent[] {
    const { output, usage } = parseAnswerObject(body, this.#limits);
    const items = Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];
    const compactions = items.filter(({ type }) => type === "compaction" || type === "compaction_summary");
    if (compactions.length === 0) throw backendFailed("The model backend's answer holds no compaction.");
    // The sealed texts are counted where the upstream counts nothing.
    const sealed = compactions.flatMap(({ encrypted_content: data }) => (typeof data === "string" ? data : []));
    const events: NativeEvent["events"] = [
      ...sealed.map((data) => ({ type: "redacted-reasoning", data, maker: FORMAT }) as const),
      ...(isValid(LooseUsage, usage) ? [{ type: "usage", usage: decodeUsage(usage) } as const] : []),
      { type: "finish", reason: "stop" },
    ];
    return [{ type: "native", format: COMPACT_FORMAT, body, events }];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.#limits, usageIn, LooseUsage, decodeUsage);
  }
}
