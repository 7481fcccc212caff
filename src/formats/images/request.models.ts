/** The image models of a gateway, and the check of a request against the rules of its model (spec 2.1 to 2.3, 8). */

import { GatewayError, invalidField } from "../../errors.ts";
import type { RuleBreach } from "../../http/validation.ts";
import type { ImageOperation, ImageRequest } from "../../model/image.ts";
import { isLonger } from "../../model/json.ts";
import {
  type ImageProfile,
  type OperationProfile,
  type ImageCatalog,
  IMAGE_PROFILES,
  IMAGE_ALIASES,
  DEFAULT_MODEL,
  DEFAULT_MULTI_MODEL,
} from "./request.profiles.ts";
import type { ImageFields } from "./schema.ts";

interface ChosenModel {
  readonly id: string;
  readonly profile: ImageProfile;
  readonly rules: OperationProfile;
}

/** The facts of a request that are compared with the rules of a model. The contents of files are checked later. */
interface RequestFacts {
  readonly operation: ImageOperation;
  readonly fields: ImageFields;
  /** The number of pictures that are sent to be edited or varied. */
  readonly originals: number;
  readonly masked: boolean;
}

const VERB: Readonly<Record<ImageOperation, string>> = {
  generate: "generate images",
  edit: "edit images",
  vary: "make variations",
};

/** Shared by all models without an alias: a backend may list a million of them. */
const NO_ALIASES: readonly string[] = Object.freeze([]);

/** The image models of a gateway: the built-in ones, and the host's own. */
export class ImageModels {
  readonly #profiles: ReadonlyMap<string, ImageProfile>;
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #aliasesOf: ReadonlyMap<string, readonly string[]>;

  /** Throws a TypeError for an alias of an unknown model. */
  constructor({ models = {}, aliases = {} }: ImageCatalog) {
    this.#profiles = new Map(Object.entries({ ...IMAGE_PROFILES, ...models }));
    // If a host's own model has the name of a built-in alias, the name means the host's model.
    const builtIn = Object.entries(IMAGE_ALIASES).filter(([alias]) => !Object.hasOwn(models, alias));
    const all = new Map([...builtIn, ...Object.entries(aliases)]);
    this.#aliases = new Map([...all.keys()].map((alias) => [alias, this.#resolve(alias, all)]));
    this.#aliasesOf = Map.groupBy(this.#aliases.keys(), (alias) => this.#aliases.get(alias) ?? alias);
  }

  /** Returns the model that an alias stands for. An alias may stand for another alias. */
  #resolve(alias: string, aliases: ReadonlyMap<string, string>): string {
    let name = alias;
    for (let steps = 0; steps < aliases.size && aliases.has(name); steps++) name = aliases.get(name) ?? name;
    if (aliases.has(name) || !this.#profiles.has(name))
      throw new TypeError(`images.aliases["${alias}"] leads to no image model: "${name}" is none`);
    return name;
  }

  get ids(): readonly string[] {
    return [...this.#profiles.keys()];
  }

  aliasesOf(id: string): readonly string[] {
    return this.#aliasesOf.get(id) ?? NO_ALIASES;
  }

  rulesOf({ model, operation }: Pick<ImageRequest, "model" | "operation">): OperationProfile {
    return this.#profiles.get(model)?.operations[operation] ?? this.#named(model, operation).rules;
  }

  tellsUsage(id: string): boolean {
    return this.#profiles.get(id)?.tellsUsage ?? false;
  }

  /** Returns the model of a request. Throws `model_not_found`, or `invalid_request` with the field that breaks a rule of the model. */
  choose(facts: RequestFacts): ChosenModel {
    const { operation, fields } = facts;
    const chosen = fields.model == null ? this.#default(facts) : this.#named(fields.model, operation);
    const [breach] = breaches(facts, chosen.rules);
    if (!breach) return chosen;
    const { path, message } = breach;
    // The error lists the models that accept the field for this operation.
    const able = [...this.#profiles].flatMap(([id, { operations }]) => {
      const rules = operations[operation];
      return rules && !breaches(facts, rules).some((other) => other.path[0] === path[0]) ? [id] : [];
    });
    const hint = able.length > 0 ? `; ${able.join(" and ")} ${able.length > 1 ? "take" : "takes"} it` : "";
    const name = fields.model ?? chosen.id;
    throw invalidField(path, `${message} for the model "${name}"${hint}`);
  }

  #named(name: string, operation: ImageOperation): ChosenModel {
    const id = this.#aliases.get(name) ?? name;
    const profile = this.#profiles.get(id);
    if (!profile) throw new GatewayError("model_not_found", `There is no image model "${name}".`, { path: ["model"] });
    const rules = profile.operations[operation];
    if (rules) return { id, profile, rules };
    const able = [...this.#profiles].filter(([, other]) => other.operations[operation]).map(([other]) => other);
    const message = `"${name}" does not ${VERB[operation]}; ${able.join(" and ")} ${able.length > 1 ? "do" : "does"}`;
    throw invalidField(["model"], message);
  }

  /** Returns the model of a request without `model`: the older one, unless an edit needs a parameter of the newer one (spec 2.2). */
  #default(facts: RequestFacts): ChosenModel {
    const chosen = this.#named(DEFAULT_MODEL, facts.operation);
    const profile = this.#profiles.get(DEFAULT_MULTI_MODEL);
    const rules = facts.operation === "edit" ? profile?.operations.edit : undefined;
    if (!profile || !rules) return chosen;
    const unsupported = new Set(parameterBreaches(facts, rules).map(({ path: [field] }) => field));
    // Several files are a parameter of the newer model, even too many. A wrong `n` is one of neither model.
    const isNewer = parameterBreaches(facts, chosen.rules).some(
      ({ path: [field] }) => field === "image" || (field !== "n" && !unsupported.has(field)),
    );
    return isNewer ? { id: DEFAULT_MULTI_MODEL, profile, rules } : chosen;
  }
}

const breaches = (facts: RequestFacts, rules: OperationProfile): RuleBreach[] => [
  ...parameterBreaches(facts, rules),
  ...promptBreaches(facts, rules),
];

function promptBreaches({ operation, fields: { prompt } }: RequestFacts, rules: OperationProfile): RuleBreach[] {
  const path = ["prompt"];
  // A variation ignores the prompt.
  if (operation === "vary") return [];
  if (prompt == null) return [{ path, message: "is required" }];
  if (!isLonger(prompt, rules.maxPromptLength)) return [];
  return [{ path, message: `must be at most ${rules.maxPromptLength} characters long` }];
}

const FINISHING = ["background", "moderation", "output_format", "output_compression", "partial_images"] as const;

/** Lists the parameters that a model does not support, and those whose values it does not support. */
function parameterBreaches({ fields, originals, masked }: RequestFacts, rules: OperationProfile): RuleBreach[] {
  const found: RuleBreach[] = [];
  const breach = (field: string, message: string): void => void found.push({ path: [field], message });
  const oneOf = (field: "size" | "quality" | "style", values: readonly string[] | undefined, maxPixels = 0): void => {
    const value = fields[field];
    if (value == null) return;
    if (!values) breach(field, "is not supported");
    else if (!values.includes(value)) {
      const other = maxPixels > 0 ? ` or another size of at most ${maxPixels} pixels` : "";
      breach(field, `must be ${values.map((each) => `"${each}"`).join(" or ")}${other}`);
    }
  };
  const { n } = fields;
  const { maxCount } = rules;
  if (n != null && (n < 1 || n > maxCount)) breach("n", maxCount === 1 ? "must be 1" : `must be from 1 to ${maxCount}`);
  const { size } = fields;
  const { maxPixels = 0, sizes } = rules;
  const pixels = pixelsOf(size ?? "");
  if (pixels === 0 || pixels > maxPixels) oneOf("size", sizes, maxPixels);
  oneOf("quality", rules.qualities);
  oneOf("style", rules.styles);
  for (const field of FINISHING) if (fields[field] != null && !rules.finishing) breach(field, "is not supported");
  if (fields.input_fidelity != null && !rules.fidelity) breach("input_fidelity", "is not supported");
  const maxFiles = rules.originals?.maxFiles ?? Number.POSITIVE_INFINITY;
  if (originals > maxFiles)
    breach("image", maxFiles === 1 ? "must be a single file" : `must be at most ${maxFiles} files`);
  if (masked && !rules.mask) breach("mask", "is not supported");
  return found;
}

/** The number of bytes for each pixel of an uncompressed picture: red, green, blue and alpha. */
const BYTES_A_PIXEL = 4;
/** The largest number of bytes in a file beside its pixels. */
const FILE_HEADER_BYTES = 64 * 1024;
/** The assumed number of pixels, if a host's own model has sizes in another form than `1024x1024`. */
const UNKNOWN_PIXELS = 1024 * 1024;

/** Returns the largest number of bytes that all pictures of a request may take. This room is booked before the pictures are drawn. */
export function maxPictureBytes({ size, count }: ImageRequest, { sizes, maxPixels = 0 }: OperationProfile): number {
  // For `auto`, the backend chooses the size: assume the largest size of the model.
  const pixels = pixelsOf(size) || Math.max(maxPixels, ...sizes.map(pixelsOf)) || UNKNOWN_PIXELS;
  return count * (BYTES_A_PIXEL * pixels + FILE_HEADER_BYTES);
}

function pixelsOf(size: string): number {
  const [, width = 0, height = 0] = /^(\d{1,5})x(\d{1,5})$/.exec(size) ?? [];
  return Number(width) * Number(height);
}
