/** The exports of "polygate/serve": the configuration of `polygate serve`, a gateway as a server of its own. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export {
  defineServer,
  type ServerAdminOptions,
  type ServedGateway,
  type ServerMetricsOptions,
  type ServerOptions,
} from "./config.ts";
