/** Decodes the compactions of upstreams. */

import { isValid } from "../../http/validation.ts";
import type { ChatEvent, NativeEvent } from "../../model/chat-event.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import type { AnswerDecoder } from "../format.ts";
import { lostUsage, parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { decodeUsage, usageIn } from "./answer.decode.ts";
import { COMPACT_FORMAT } from "./compaction.keys.ts";
import { FORMAT } from "./routes.ts";
import { LooseUsage } from "./schema.upstream.ts";

/** Decodes the compaction that an upstream has made. The caller gets it unchanged. */
export class CompactionDecoder implements Pick<AnswerDecoder, "answer" | "lost"> {
  readonly #limits: JsonLimits | undefined;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
  }

  answer(body: string): ChatEvent[] {
    const { output, usage } = parseAnswerObject(body, this.#limits);
    const items = Array.isArray(output) ? output.filter((item) => isJsonObject(item)) : [];
    const compactions = items.filter(({ type }) => type === "compaction" || type === "compaction_summary");
    if (compactions.length === 0) throw upstreamFailed("The model backend's answer holds no compaction.");
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
