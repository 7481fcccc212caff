/** The token usage dialect: `GET /api/usage/token` tells a key its own quota (spec 2.5, 7.1). */

import { bearerToken } from "../../http/credential.ts";
import { GatewayError } from "../../errors.ts";
import type { Dialect } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { encodeUsage } from "./response.ts";

const DIALECT = "token-usage";

export const tokenUsage = (): Dialect => ({
  name: DIALECT,
  endpoints: [
    {
      dialect: DIALECT,
      kind: "query",
      method: "GET",
      path: "/api/usage/token",
      expiredKeysMayAsk: true,
      credential: (request) => bearerToken(request.headers),
      body: "none",
      answer: async ({ key, balance }) => {
        const left = await balance();
        // Deleted since it was found, which a host may have remembered.
        if (!left) throw new GatewayError("invalid_api_key", "The API key is not valid.");
        return encodeUsage(key, left);
      },
      encodeError: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
    },
  ],
});
