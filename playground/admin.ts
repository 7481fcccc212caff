/** The playground's admin at `/admin`, with its page, for the machine that it runs on. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { fileURLToPath, pathToFileURL } from "node:url";
import { toNodeHandler } from "../adapters/node.ts";
import { type AdminPage, adminHandler } from "../src/admin/http/index.ts";
import { pageIn } from "../src/admin/page/files.ts";
import { gateway, store } from "./gateway.ts";

const BUILT = new URL("../node_modules/.cache/admin-page/", import.meta.url);

let built: Promise<AdminPage> | undefined;

/** Builds the page with the first request for it: most starts never need it. */
export async function builtPage(): Promise<AdminPage> {
  const [{ build }, { adminPageBundle }] = await Promise.all([import("tsdown"), import("../tsdown.config.ts")]);
  await build({ ...adminPageBundle(fileURLToPath(BUILT)), config: false, logLevel: "error" });
  return pageIn(pathToFileURL(fileURLToPath(BUILT)), { title: "polygate playground" });
}

/**
 * The playground has no login, so it lets in who asks for it by a name of this machine. A page of another site that has its own name lead
 * here is refused by that name.
 */
const isOfThisMachine = (host: string | null): boolean =>
  /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/.test(host ?? "");

const handle = toNodeHandler(
  adminHandler(store.quotas, {
    ...(store.records.calls && { calls: store.records.calls }),
    ...(store.records.audit && { audit: store.records.audit }),
    authorize: ({ headers }) => (isOfThisMachine(headers.get("host")) ? { name: "you" } : undefined),
    gateway,
    page: { file: async (name, base) => (await (built ??= builtPage())).file(name, base) },
  }),
  { prefix: "/admin" },
);

/** Answers a request for `/admin` and below; false, at once, for any other. */
export function answerAdmin(req: IncomingMessage, res: ServerResponse): boolean {
  if (!/^\/admin(?:[/?]|$)/.test(req.url ?? "")) return false;
  handle(req, res);
  return true;
}
