/** polygate/telemetry: traces and metrics of a gateway, by OpenTelemetry. It needs the optional peer `@opentelemetry/api`. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export { openTelemetry } from "./open-telemetry.ts";
export type { OpenTelemetryOptions } from "./options.ts";
