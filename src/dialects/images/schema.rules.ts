/** Holds the fields of a request against the profile of its model (spec 2.1 to 2.3), and finds the model where none is named. */

import { GatewayError } from "../../errors.ts";
import { isLonger } from "../../http/characters.ts";
import type { RuleBreach } from "../../http/validation.ts";
import type { ImageOperation, ImageRequest } from "../../model/image.ts";
import {
  DEFAULT_MODEL,
  DEFAULT_MULTI_MODEL,
  IMAGE_ALIASES,
  IMAGE_PROFILES,
  type ImageCatalog,
  type ImageProfile,
  type OperationProfile,
} from "./schema.profiles.ts";
import type { ImageFields } from "./schema.ts";

/** The model that a request is for. */
export interface ChosenModel {
  readonly id: string;
  readonly profile: ImageProfile;
  readonly rules: OperationProfile;
}

/** What a request asks for beside its files' contents. */
export interface Asked {
  readonly operation: ImageOperation;
  readonly fields: ImageFields;
  readonly originals: number;
  readonly masked: boolean;
}

const DOING: Readonly<Record<ImageOperation, string>> = {
  generate: "generate images",
  edit: "edit images",
  vary: "make variations",
};

/** Knows the models, and which of them takes what. */
export class ImageModels {
  readonly #profiles: ReadonlyMap<string, ImageProfile>;
  readonly #aliases: ReadonlyMap<string, string>;

  /** Throws a RangeError for an alias that leads to no model. */
  constructor({ models = {}, aliases = {} }: ImageCatalog) {
    this.#profiles = new Map(Object.entries({ ...IMAGE_PROFILES, ...models }));
    // A host's own model goes by its own name, though a built-in alias has the same.
    const builtIn = Object.entries(IMAGE_ALIASES).filter(([alias]) => !Object.hasOwn(models, alias));
    const all = new Map([...builtIn, ...Object.entries(aliases)]);
    this.#aliases = new Map([...all.keys()].map((alias) => [alias, this.#modelBehind(alias, all)]));
  }

  /** The model that an alias leads to, perhaps by way of others. */
  #modelBehind(alias: string, aliases: ReadonlyMap<string, string>): string {
    let name = alias;
    for (let steps = 0; steps < aliases.size && aliases.has(name); steps++) name = aliases.get(name) ?? name;
    if (aliases.has(name) || !this.#profiles.has(name))
      throw new RangeError(`images.aliases["${alias}"] leads to no image model: "${name}" is none`);
    return name;
  }

  /** The other names of a model. */
  aliasesOf(id: string): string[] {
    return [...this.#aliases].flatMap(([alias, model]) => (model === id ? [alias] : []));
  }

  /** What a model takes for an operation, of a request that it was chosen for. */
  rulesOf({ model, operation }: Pick<ImageRequest, "model" | "operation">): OperationProfile {
    return this.#profiles.get(model)?.operations[operation] ?? this.#named(model, operation).rules;
  }

  /** Whether the answers of a model tell the tokens that were used. */
  tellsUsage(id: string): boolean {
    return this.#profiles.get(id)?.tellsUsage ?? false;
  }

  /** The model for a request that keeps its rules; throws `model_not_found`, or `invalid_request` that names the field. */
  choose(asked: Asked): ChosenModel {
    const chosen =
      asked.fields.model == null ? this.#byDefault(asked) : this.#named(asked.fields.model, asked.operation);
    const [breach] = breaches(asked, chosen.rules);
    if (!breach) return chosen;
    const takers = this.#takers(asked, breach);
    const field = breach.path.join(".");
    const said = asked.fields.model ?? chosen.id;
    const otherwise = takers.length > 0 ? `; ${takers.join(" and ")} ${takers.length > 1 ? "take" : "takes"} it` : "";
    throw new GatewayError("invalid_request", `${field}: ${breach.message} for the model "${said}"${otherwise}`, {
      path: breach.path,
    });
  }

  #named(name: string, operation: ImageOperation): ChosenModel {
    const id = this.#aliases.get(name) ?? name;
    const profile = this.#profiles.get(id);
    if (!profile) throw new GatewayError("model_not_found", `There is no image model "${name}".`, { path: ["model"] });
    const rules = profile.operations[operation];
    if (rules) return { id, profile, rules };
    const able = [...this.#profiles].filter(([, other]) => other.operations[operation]).map(([other]) => other);
    const message = `model: "${name}" does not ${DOING[operation]}; ${able.join(" and ")} ${able.length > 1 ? "do" : "does"}`;
    throw new GatewayError("invalid_request", message, { path: ["model"] });
  }

  /** The older model; for an edit the newer one, where a parameter is used that only this takes (spec 2.2). */
  #byDefault(asked: Asked): ChosenModel {
    const chosen = this.#named(DEFAULT_MODEL, asked.operation);
    if (asked.operation !== "edit") return chosen;
    const multi = this.#profiles.get(DEFAULT_MULTI_MODEL);
    const rules = multi?.operations.edit;
    const special = parameterBreaches(asked, chosen.rules).some(({ path }) => path[0] !== "n");
    if (!multi || !rules || !special || parameterBreaches(asked, rules).length > 0) return chosen;
    return { id: DEFAULT_MULTI_MODEL, profile: multi, rules };
  }

  /** The models that take for this operation what another one does not. */
  #takers(asked: Asked, { path }: RuleBreach): string[] {
    return [...this.#profiles].flatMap(([id, { operations }]) => {
      const rules = operations[asked.operation];
      return rules && !breaches(asked, rules).some((breach) => breach.path[0] === path[0]) ? [id] : [];
    });
  }
}

const breaches = (asked: Asked, rules: OperationProfile): RuleBreach[] => [
  ...parameterBreaches(asked, rules),
  ...promptBreaches(asked, rules),
];

function promptBreaches({ operation, fields: { prompt } }: Asked, { maxPromptLength }: OperationProfile): RuleBreach[] {
  const path = ["prompt"];
  // Variations take no words, and do not mind any.
  if (operation === "vary") return [];
  if (prompt == null) return [{ path, message: "is required" }];
  if (!isLonger(prompt, maxPromptLength)) return [];
  return [{ path, message: `must be at most ${maxPromptLength} characters long` }];
}

const FINISHING = ["background", "moderation", "output_format", "output_compression", "partial_images"] as const;

/** The parameters that a model does not take, or not with these values. */
function parameterBreaches({ fields, originals, masked }: Asked, rules: OperationProfile): RuleBreach[] {
  const found: RuleBreach[] = [];
  const breach = (field: string, message: string): void => void found.push({ path: [field], message });
  const oneOf = (field: "size" | "quality" | "style", values: readonly string[] | undefined): void => {
    const value = fields[field];
    if (value == null) return;
    if (!values) breach(field, "is not supported");
    else if (!values.includes(value)) breach(field, `must be ${values.map((each) => `"${each}"`).join(" or ")}`);
  };
  const { n } = fields;
  if (n != null && (n < 1 || n > rules.maxCount))
    breach("n", rules.maxCount === 1 ? "must be 1" : `must be from 1 to ${rules.maxCount}`);
  oneOf("size", rules.sizes);
  oneOf("quality", rules.qualities);
  oneOf("style", rules.styles);
  for (const field of FINISHING) if (fields[field] != null && !rules.finishing) breach(field, "is not supported");
  if (fields.input_fidelity != null && !rules.fidelity) breach("input_fidelity", "is not supported");
  if (rules.originals && originals > rules.originals.maxFiles)
    breach(
      "image",
      rules.originals.maxFiles === 1 ? "must be a single file" : `must be at most ${rules.originals.maxFiles} files`,
    );
  if (masked && !rules.mask) breach("mask", "is not supported");
  return found;
}
