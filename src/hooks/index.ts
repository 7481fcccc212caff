/** polygate/hooks: the code of hooks that change, hold back or end running answers. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

import { chatOutput } from "../kinds/chat/output.ts";
import { imageOutput } from "../kinds/image/output.ts";
import type { OutputKind } from "../kinds/kind.ts";
import { duringCode } from "../pipeline/during.ts";
import type { OutputCode } from "../pipeline/output.ts";
import type { Hook } from "../ports/hook.ts";

/** The code for the kinds whose answers hooks may change. An embedding has nothing that a hook could read. */
const CODE: OutputCode = duringCode([chatOutput, imageOutput] as readonly OutputKind[]);

/**
 * Returns a hook with the code of its `during`, which a gateway without such hooks does not load.
 *
 * Throws a TypeError for a hook without `during`.
 *
 * @example
 * const polite = withDuring({
 *   during: (event) =>
 *     event.type === "text-delta" ? { ...event, text: event.text.replaceAll("damn", "***") } : undefined,
 * });
 */
export function withDuring<Context = unknown>(hook: Hook<Context>): Hook<Context> {
  if (typeof (hook as Partial<Hook> | undefined)?.during !== "function")
    throw new TypeError("withDuring: the hook must have a function during.");
  return {
    ...hook,
    // The functions may be those of a class.
    ...(hook.before && { before: (request, call) => hook.before?.(request, call) }),
    during: (event, call, held) => hook.during?.(event, call, held),
    ...(hook.needsDuring && { needsDuring: (call) => hook.needsDuring?.(call) ?? true }),
    ...(hook.after && { after: (answer, call) => hook.after?.(answer, call) }),
    code: CODE,
  };
}
