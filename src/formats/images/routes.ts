/** The routes of the images format: all that a gateway needs before the format's first request. */

import type { LazyRoute } from "../format.ts";
import { openaiEndpoint } from "../shared/errors.ts";

/** The name of the format in routes, and in the native parts of requests and answers. */
export const FORMAT = "images";

/** The path of finished pictures. */
export const FILES = "/v1/images/files";

const drawn = { format: FORMAT, ...openaiEndpoint, kind: "image", method: "POST" } as const;

export const ROUTES: Readonly<Record<"generate" | "edit" | "vary" | "read", LazyRoute>> = {
  generate: { ...drawn, path: "/v1/images/generations" },
  edit: { ...drawn, path: "/v1/images/edits" },
  vary: { ...drawn, path: "/v1/images/variations" },
  read: { ...drawn, kind: "public", answersOf: "image", method: "GET", path: `${FILES}/**` },
};
