/** The token usage dialect: `GET /api/usage/token` tells a key its own quota (spec 2.5, 7.1). */

import { bearerToken } from "../../http/credential.ts";
import type { Balance } from "../../ports/quota-store.ts";
import type { Dialect } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { encodeUsage } from "./response.ts";

/** What a key that was deleted while it asked has left. */
const NOTHING: Balance = { used: 0, available: 0, held: 0 };

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
      answer: async ({ key, balance }) => encodeUsage(key, (await balance()) ?? NOTHING),
      encodeError: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
    },
  ],
});
