/** The token usage dialect: `GET /api/usage/token` tells a key its own quota (spec 2.5, 7.1). */

import { bearerToken } from "../../http/credential.ts";
import type { Dialect } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { encodeUsage } from "./response.ts";

export const tokenUsage = (): Dialect => ({
  name: "token-usage",
  endpoints: [
    {
      kind: "query",
      method: "GET",
      path: "/api/usage/token",
      expiredKeysMayAsk: true,
      credential: (request) => bearerToken(request.headers),
      answer: ({ key }) => encodeUsage(key),
      dress: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
    },
  ],
});
