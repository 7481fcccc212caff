/** Compares the models that a key names with those that the gateway has. */

import { meantHint } from "../options.ts";
import { takesUnlisted } from "../ports/model-backend.ts";
import { checkModels } from "./admission.ts";
import type { Services } from "./services.ts";

/** The most models that a sentence names. */
const MOST_NAMED = 5;

/** Says which of some models the backend does not have. Undefined when it has all, lists none, or fails to list them. */
export async function modelFault(
  { backend, kindNames, aliasesOf }: Pick<Services, "backend" | "kindNames" | "aliasesOf">,
  names: readonly string[],
): Promise<string | undefined> {
  try {
    const models = await backend.models?.();
    if (!models) return undefined;
    checkModels(models, kindNames);
    const ids = models.map(({ id }) => id);
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
