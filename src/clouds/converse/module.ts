/** The format of an upstream that speaks Converse. */

import type { CodecOptions } from "../../formats/format.ts";
import type { ChatVerbs } from "../../formats/module.ts";
import { Lazy, lazyCodec } from "../../formats/shared/lazy.ts";
import type { FormatInCloud } from "../shaped.ts";
import { FORMAT } from "./models.ts";
import type { HostFields } from "./request.ts";

/** The code of the codec, which is loaded with the first request. */
const upstream = /* @__PURE__ */ new Lazy(async () => (await import("./upstream.ts")).converseCodec);

/** Makes the format of a relay whose upstream speaks Converse. */
export const converseUpstream = (host: HostFields): FormatInCloud<ChatVerbs> => ({
  name: FORMAT,
  telemetry: { provider: "aws.bedrock" },
  load: () => upstream.get(),
  open: (relay, options: CodecOptions) => relay.chat(lazyCodec(upstream, (codec) => codec(options, host))),
});
