/** The generate-content format for hosts that choose their formats. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { generateContent as format } from "../formats/generate-content/index.ts";
import type { GatewayFormat } from "../gateway.ts";

export { generateContentUpstream } from "../upstreams/relay/formats/generate-content.ts";

/** The generate-content format: the methods of `/v1beta/models/**` for answers, token counts and embeddings, and the list of models. */
export const generateContent = (): GatewayFormat<"generate-content"> => ({
  name: "generate-content",
  options: {},
  make: () => format(),
});
