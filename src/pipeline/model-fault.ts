/** Lists the models that keys can name, and compares those of a key with them. */

import { meantHint } from "../options.ts";
import { readSoon } from "../ports/clock.ts";
import { takesUnlisted } from "../ports/model-backend.ts";
import { checkModels } from "./admission.ts";
import type { Services } from "./services.ts";

/** The most models that a sentence names. */
const MOST_NAMED = 5;

/** The longest wait for the list of the backend, in milliseconds. Its readers can do without it. */
const LIST_MS = 2_000;

type Listing = Pick<Services, "backend" | "kindNames" | "clock">;

/** Returns the ids of the models that the backend lists. Undefined when it lists none, fails to list them, or takes too long. */
export const listedModels = (services: Listing): Promise<readonly string[] | undefined> =>
  readSoon(idsOf(services), LIST_MS, services.clock);

async function idsOf({ backend, kindNames }: Listing): Promise<readonly string[] | undefined> {
  const models = await backend.models?.();
  if (models) checkModels(models, kindNames);
  return models?.map(({ id }) => id);
}

/** Says which of some models the backend does not have. Undefined when it has all, and when `listedModels` is. */
export async function modelFault(
  services: Listing & Pick<Services, "aliasesOf">,
  names: readonly string[],
): Promise<string | undefined> {
  const { backend, aliasesOf } = services;
  try {
    const ids = await listedModels(services);
    if (!ids) return undefined;
    const known = new Set(ids.flatMap((id) => [id, ...aliasesOf(id)]));
    const unknown = names.filter((name) => !known.has(name) && !takesUnlisted(backend, name));
    if (unknown.length === 0) return undefined;
    const sentences = unknown
      .slice(0, MOST_NAMED)
      .map((name) => `The gateway has no model ${JSON.stringify(name)}.${meantHint(name, ids)}`);
    const more = unknown.length - sentences.length;
    return [...sentences, ...(more > 0 ? [`Nor has it ${more} more of these models.`] : [])].join(" ");
  } catch {
    // A backend that is away cannot tell.
    return undefined;
  }
}
