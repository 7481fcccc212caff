/** The routes of the Responses format, and its options: all that a gateway needs before the format's first request. */

import type { Shapes } from "../../options.ts";
import type { LazyRoute } from "../format.ts";
import { openaiEndpoint } from "../shared/errors.ts";
import { COMPACTION_SHAPE, type CompactionOptions } from "./compaction.keys.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "responses";

/** The options of a host for the Responses format. */
export interface ResponsesOptions {
  /**
   * Lets callers compact their conversations. Default: `POST /v1/responses/compact` answers 404, and an item `compaction_trigger` passes to
   * upstreams of this format only.
   */
  readonly compaction?: CompactionOptions;
}

export const RESPONSES_SHAPES: Shapes<ResponsesOptions> = { compaction: { optional: COMPACTION_SHAPE } };

/** Returns a test whether the end of an address has one of some shapes, in which `*` stands for an id. */
const hasShape =
  (...shapes: readonly string[]) =>
  (wildcardPath: string): boolean =>
    shapes.some((shape) => {
      const [wanted, written] = [shape.split("/"), wildcardPath.split("/")];
      return (
        wanted.length === written.length &&
        wanted.every((one, at) => (one === "*" ? written[at] !== "" : one === written[at]))
      );
    });

/** The fields that all routes of the format share. */
const common = { format: FORMAT, ...openaiEndpoint } as const;
const query = { ...common, kind: "query" } as const;
const kept = { ...query, needsResponseStore: true } as const;

type RouteName =
  | "create"
  | "compact"
  | "connect"
  | "count"
  | "readResponse"
  | "deleteResponse"
  | "cancelResponse"
  | "createConversation"
  | "readConversation"
  | "changeConversation"
  | "deleteConversation";

export const ROUTES: Readonly<Record<RouteName, LazyRoute>> = {
  create: { ...common, kind: "chat", method: "POST", path: "/v1/responses" },
  compact: { ...common, kind: "chat", method: "POST", path: "/v1/responses/compact" },
  connect: {
    ...query,
    method: "GET",
    path: "/v1/responses",
    owns: (_path, { headers }) => headers.get("upgrade")?.toLowerCase() === "websocket",
    takesSockets: true,
  },
  count: { ...query, method: "POST", path: "/v1/responses/input_tokens" },
  readResponse: { ...kept, method: "GET", path: "/v1/responses/**", owns: hasShape("*", "*/input_items") },
  deleteResponse: { ...kept, method: "DELETE", path: "/v1/responses/**", owns: hasShape("*") },
  cancelResponse: { ...kept, method: "POST", path: "/v1/responses/**", owns: hasShape("*/cancel", "compact") },
  createConversation: { ...kept, method: "POST", path: "/v1/conversations" },
  readConversation: {
    ...kept,
    method: "GET",
    path: "/v1/conversations/**",
    owns: hasShape("*", "*/items", "*/items/*"),
  },
  changeConversation: { ...kept, method: "POST", path: "/v1/conversations/**", owns: hasShape("*", "*/items") },
  deleteConversation: { ...kept, method: "DELETE", path: "/v1/conversations/**", owns: hasShape("*", "*/items/*") },
};

/** Returns the routes of a gateway, in the order of its endpoints. */
export function routesOf({ compaction }: ResponsesOptions): readonly LazyRoute[] {
  const { compact: _, ...others } = ROUTES;
  return Object.values(compaction ? ROUTES : others);
}
