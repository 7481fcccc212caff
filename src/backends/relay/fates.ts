/** Tells the caller what the upstream's format cannot say of a request, or refuses it. */

import { GatewayError } from "../../errors.ts";
import type { FieldFate } from "../../model/fate.ts";
import type { CallContext } from "../../ports/model-backend.ts";

/**
 * Reports what became of a request's fields. Throws `failed_precondition` for one that is rejected and, where `strict`, for one that
 * is left out or said less exactly.
 */
export function reportFates(
  fates: readonly FieldFate[],
  call: Pick<CallContext, "reportFates">,
  strict: boolean,
): void {
  // Where nothing is left to say, what was left out is the reason.
  const isNothing = fates.some(({ field }) => field === "messages.none");
  const refused = fates.filter(
    ({ fate }) => fate === "rejected" || (isNothing && fate === "dropped") || (strict && fate !== "emulated"),
  );
  if (refused.length > 0) {
    const reasons = refused.map(({ field, why }) => `${field} (${why})`).join(", ");
    throw new GatewayError("failed_precondition", `The model's format cannot say all of this request: ${reasons}`);
  }
  if (fates.length > 0) call.reportFates(fates);
}
