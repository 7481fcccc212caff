/** The demo's admin at `/admin`, with its page, for the machine that the demo runs on. */

import { type NodeHandler, toNodeHandler } from "../adapters/node.ts";
import { type AdminPage, adminHandler } from "../src/admin/http/index.ts";
import { pageIn } from "../src/admin/page/files.ts";
import type { Gateway } from "../src/index.ts";
import type { PlaygroundQuotas } from "./quotas.ts";

/**
 * The names of this machine. The demo has no login, so it answers only requests for these names. This refuses pages of other sites
 * whose names resolve to this machine.
 */
const isOfThisMachine = (host: string | null): boolean =>
  /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/.test(host ?? "");

/** Answers `/admin` and the paths below. Finds the folder of the page with the first request for it. */
export function adminOf(
  { directory, records }: Pick<PlaygroundQuotas, "directory" | "records">,
  gateway: Gateway,
  folder: () => Promise<URL>,
): NodeHandler {
  let page: Promise<AdminPage> | undefined;
  const opened = async (): Promise<AdminPage> => pageIn(await folder(), { title: "polygate demo" });
  const admin = adminHandler(directory, {
    ...(records.calls && { calls: records.calls }),
    ...(records.audit && { audit: records.audit }),
    authorize: ({ headers }) => (isOfThisMachine(headers.get("host")) ? { name: "you" } : undefined),
    gateway,
    page: { file: async (name, base) => (await (page ??= opened())).file(name, base) },
  });
  return toNodeHandler(admin, { prefix: "/admin" });
}
