/** The public face of "polygate/admin": making, rotating, revoking, granting and listing api keys. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export type {
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  Retention,
} from "../stores/durable.ts";
export { newApiKey } from "./api-key.ts";
export { type IssuedKey, type KeyAdmin, keyAdmin, type NewKeyOptions, type Rotation } from "./key-admin.ts";
