/** Lists the models that keys can name, and compares those of a key with them. */

import { meantHint } from "../options.ts";
import { takesUnlisted } from "../ports/model-backend.ts";
import { checkModels } from "./admission.ts";
import type { Services } from "./services.ts";

/** The most models that a sentence names. */
const MOST_NAMED = 5;

type Listing = Pick<Services, "backend" | "kindNames">;

/** Returns the ids of the models that the backend lists. Undefined when it lists none, or fails to list them. */
export const listedModels = (services: Listing): Promise<readonly string[] | undefined> =>
  idsOf(services).catch(() => undefined);

async function idsOf({ backend, kindNames }: Listing): Promise<readonly string[] | undefined> {
  const models = await backend.models?.();
  if (models) checkModels(models, kindNames);
  return models?.map(({ id }) => id);
}

/** Says which of some models the backend does not have. Undefined when it has all, lists none, or fails to list them. */
export async function modelFault(
  { backend, kindNames, aliasesOf }: Listing & Pick<Services, "aliasesOf">,
  names: readonly string[],
): Promise<string | undefined> {
  try {
    const ids = await idsOf({ backend, kindNames });
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
