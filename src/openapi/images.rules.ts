/** The bodies of image requests as JSON Schema, with the rules of each model as conditions (spec 2.1 to 2.3, 8). */

import {
  DEFAULT_MODEL,
  DEFAULT_MULTI_MODEL,
  IMAGE_PROFILES,
  type ImageCatalog,
  type OperationProfile,
} from "../dialects/images/schema.profiles.ts";
import { ImageModels } from "../dialects/images/schema.rules.ts";
import type { ImageOperation } from "../index.ts";
import type { JsonSchema } from "./types.ts";

/** A model that can do an operation. */
interface Able {
  readonly names: readonly string[];
  readonly rules: JsonSchema;
  /** Whether it may be meant where a request names none. */
  readonly byDefault: boolean;
}

/** The bodies by their names in the document, from the schema of all fields. */
export function bodySchemas(fields: JsonSchema, catalog: ImageCatalog): Record<string, JsonSchema> {
  const [generate, edit, vary] = (["generate", "edit", "vary"] as const).map((operation) =>
    rulesOf(fields, ableOf(operation, catalog)),
  );
  return {
    ImageGenerationRequest: { ...generate, required: ["prompt"] },
    ImageEditRequest: withFiles(
      { ...edit, required: ["prompt"] },
      { image: SEVERAL, "image[]": SEVERAL, "image[0]": FILE, "image[1]": FILE, mask: FILE },
      "image",
      "image[]",
      "image[0]",
    ),
    ImageVariationRequest: withFiles({ ...vary, not: { required: ["mask"] } }, { image: FILE }, "image"),
  };
}

const FILE: JsonSchema = { type: "string", format: "binary" };
const SEVERAL: JsonSchema = { anyOf: [FILE, { type: "array", items: FILE, minItems: 1 }] };

/** A form's schema: its fields, and files of which one must be there. */
const withFiles = (
  body: JsonSchema,
  files: Readonly<Record<string, JsonSchema>>,
  ...oneOfThese: readonly string[]
): JsonSchema => ({
  ...body,
  properties: { ...files, ...(body["properties"] as JsonSchema) },
  ...(oneOfThese.length === 1
    ? { required: [...((body["required"] as string[] | undefined) ?? []), ...oneOfThese] }
    : { anyOf: oneOfThese.map((name) => ({ required: [name] })) }),
});

function ableOf(operation: ImageOperation, catalog: ImageCatalog): Able[] {
  const models = new ImageModels(catalog);
  const defaults = operation === "edit" ? [DEFAULT_MODEL, DEFAULT_MULTI_MODEL] : [DEFAULT_MODEL];
  return Object.entries({ ...IMAGE_PROFILES, ...catalog.models }).flatMap(([id, { operations }]) => {
    const profile = operations[operation];
    if (!profile) return [];
    const rules = { properties: propertiesOf(profile, operation) };
    return [{ names: [id, ...models.aliasesOf(id)], rules, byDefault: defaults.includes(id) }];
  });
}

/** Every field, a model that can do it, and what that model takes. */
function rulesOf(fields: JsonSchema, able: readonly Able[]): JsonSchema {
  const named = able.map(({ names, rules }) =>
    where({ properties: { model: { enum: names } }, required: ["model"] }, rules),
  );
  const unnamed = able.filter(({ byDefault }) => byDefault).map(({ rules }) => rules);
  const noName = where({ properties: { model: { type: "null" } } }, { anyOf: unnamed });
  const model = { enum: [...able.flatMap(({ names }) => names), null], default: DEFAULT_MODEL };
  return {
    type: "object",
    properties: { ...(fields["properties"] as JsonSchema), model },
    allOf: [...named, ...(unnamed.length > 0 ? [noName] : [])],
  };
}

/** What holds under a condition. */
const where = (condition: JsonSchema, rules: JsonSchema): JsonSchema => ({ anyOf: [{ not: condition }, rules] });

/** As many originals as a model takes, under either name of the field. */
const originalsOf = (maxItems: number): Record<string, JsonSchema> => ({
  image: { maxItems },
  "image[]": { maxItems },
});

const FINISHING = ["background", "moderation", "output_format", "output_compression", "partial_images"];

/** What is not there, as good as absent. */
const NONE: JsonSchema = { type: "null" };

function propertiesOf(profile: OperationProfile, operation: ImageOperation): Record<string, JsonSchema> {
  const oneOf = (values: readonly string[] | undefined): JsonSchema => (values ? { enum: [...values, null] } : NONE);
  return {
    ...(operation !== "vary" && { prompt: { type: "string", minLength: 1, maxLength: profile.maxPromptLength } }),
    n: { anyOf: [{ type: "integer", minimum: 1, maximum: profile.maxCount }, NONE] },
    size: oneOf(profile.sizes),
    quality: oneOf(profile.qualities),
    style: oneOf(profile.styles),
    ...(profile.originals && originalsOf(profile.originals.maxFiles)),
    ...(!profile.finishing && Object.fromEntries(FINISHING.map((field) => [field, NONE]))),
    ...(!profile.fidelity && { input_fidelity: NONE }),
  };
}
