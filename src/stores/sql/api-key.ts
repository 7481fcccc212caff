/** Reads an api key from its row. */

import type { Selectable } from "kysely";
import { parseJson } from "../../model/json.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { type KeyTable, numberOf } from "./schema.ts";

export function apiKeyOf(
  row: Pick<Selectable<KeyTable>, "id" | "name" | "unlimited" | "models" | "expires_at">,
): ApiKey {
  const models = row.models === null ? undefined : (parseJson(row.models) as string[]);
  return {
    id: row.id,
    name: row.name,
    unlimited: numberOf(row.unlimited) === 1,
    modelLimits: Object.fromEntries((models ?? []).map((model) => [model, true])),
    modelLimitsEnabled: models !== undefined,
    expiresAt: numberOf(row.expires_at),
  };
}
