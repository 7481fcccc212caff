/** All that the official SDK tries on a server, by name. */

import { embeddingSuite } from "./embedding.ts";
import { errorsSuite } from "./errors.ts";
import { generatingSuite } from "./generating.ts";
import { quotaSuite } from "./quota.ts";
import { socketResponsesSuite } from "./responses.sockets.ts";
import { responsesSuite } from "./responses.ts";
import type { Stage } from "./sdk.ts";
import { streamingSuite } from "./streaming.ts";
import { uploadingSuite } from "./uploading.ts";

export const suites: readonly (readonly [name: string, suite: (stage: Stage) => void])[] = [
  ["generating", generatingSuite],
  ["uploading", uploadingSuite],
  ["streaming", streamingSuite],
  ["embedding", embeddingSuite],
  ["responses", responsesSuite],
  ["responses over a WebSocket", socketResponsesSuite],
  ["errors", errorsSuite],
  ["quota", quotaSuite],
];
