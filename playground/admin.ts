/** The demo's admin at `/admin`, with its page, for the machine that the demo runs on. */

import type { IncomingMessage } from "node:http";
import { type NodeHandler, toNodeHandler } from "../adapters/node.ts";
import { type AdminPage, adminHandler } from "../src/admin/http/index.ts";
import { pageIn } from "../src/admin/page/files.ts";
import type { Gateway } from "../src/index.ts";
import { KYSELY, type PlaygroundQuotas } from "./quotas.ts";

/**
 * The demo has no login, so only this machine may use its admin. The name in the address refuses pages of other sites, whose own name may lead
 * here. The address of the connection refuses other machines, which can write any name.
 */
export const isOfThisMachine = (host: string | null, address: string | undefined): boolean =>
  /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/.test(host ?? "") &&
  /^(?:::1|(?:::ffff:)?127(?:\.\d{1,3}){3})$/.test(address ?? "");

/** Answers `/admin` and the paths below. Finds the folder of the page with the first request for it. */
export function adminOf(
  { directory, records, lacksKysely }: Pick<PlaygroundQuotas, "directory" | "records" | "lacksKysely">,
  gateway: Gateway,
  folder: () => Promise<URL>,
): NodeHandler {
  let page: Promise<AdminPage> | undefined;
  const opened = async (): Promise<AdminPage> =>
    pageIn(await folder(), { title: "polygate demo", currency: "USD" }, lacksKysely ? KYSELY : "");
  const admin = adminHandler<Pick<IncomingMessage, "socket">>(directory, {
    ...(records.calls && { calls: records.calls }),
    ...(records.audit && { audit: records.audit }),
    authorize: ({ headers }, req) =>
      isOfThisMachine(headers.get("host"), req?.socket.remoteAddress) ? { name: "you" } : undefined,
    gateway,
    page: { file: async (name, base) => (await (page ??= opened())).file(name, base) },
  });
  return toNodeHandler(admin, { prefix: "/admin", context: (req) => req });
}
