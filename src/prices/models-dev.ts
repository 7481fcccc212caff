/** Reads entries of the file `api.json` of models.dev: an object of providers, each with its models and their prices for a million tokens. */

import { amountIn, type CatalogueEntry, countIn, isObject, type Kind, rounded, textIn } from "./entry.ts";
import type { LongerRates, ModelPrice, TokenRates } from "./price-table.ts";

type Facts = Readonly<Record<string, unknown>>;

/** The field of `cost` for each price. */
const FIELDS = {
  input: "input",
  output: "output",
  cacheRead: "cache_read",
  cacheWrite: "cache_write",
  reasoning: "reasoning",
  audioInput: "input_audio",
  audioOutput: "output_audio",
} as const satisfies Partial<Record<keyof TokenRates, string>>;

/** The input tokens of the older field for longer calls. */
const OLDER_FIELD_TOKENS = 200_000;

/** True for a file in this shape. */
export const isModelsDev = (file: Facts): boolean =>
  Object.values(file).some((entry) => isObject(entry) && isObject(entry["models"]));

/**
 * Lists the entries of a file, with the rows that each makes.
 *
 * @param providers The providers to read, whose models also have rows under their own names. Default: all, by `provider/model` alone.
 */
export function* modelsDevEntries(file: Facts, providers: readonly string[] | undefined): Generator<CatalogueEntry> {
  const taken = new Set<string>();
  for (const provider of providers ?? Object.keys(file)) {
    const models = isObject(file[provider]) ? file[provider]["models"] : undefined;
    if (!isObject(models)) {
      yield broken(provider, `The price file's provider "${provider}" has no models`);
      continue;
    }
    for (const [own, facts] of Object.entries(models)) {
      const name = `${provider}/${own}`;
      const id = providers && !taken.has(own) ? own : name;
      taken.add(own);
      if (!isObject(facts)) yield broken(name, `The price file's "${name}" must be an object`);
      else
        yield {
          name,
          id,
          rows: id === name ? [name] : [own, name],
          provider,
          own,
          date: textIn(facts["last_updated"]) ?? textIn(facts["release_date"]) ?? "",
          info: { ...infoOf(facts, own), id, ownedBy: provider },
          price: (skip) => priceOf(name, facts, skip),
        };
    }
  }
}

const broken = (name: string, problem: string): CatalogueEntry => ({
  name,
  id: name,
  rows: [],
  provider: undefined,
  own: name,
  date: undefined,
  info: { id: name, kinds: [] },
  price() {
    throw new TypeError(problem);
  },
});

function infoOf(facts: Facts, own: string): Omit<CatalogueEntry["info"], "id"> {
  const limit = isObject(facts["limit"]) ? facts["limit"] : {};
  const displayName = textIn(facts["name"]);
  const releasedAt = Date.parse(textIn(facts["release_date"]) ?? "") / 1_000;
  return {
    kinds: kindsOf(facts, own),
    ...(displayName !== undefined && { displayName }),
    ...countIn("createdAt", releasedAt),
    ...countIn("maxInputTokens", limit["input"] ?? limit["context"]),
    ...countIn("maxOutputTokens", limit["output"]),
  };
}

/** The file does not tell which models embed, but their names do. */
function kindsOf({ modalities }: Facts, own: string): readonly Kind[] {
  if (/embed/i.test(own)) return ["embedding"];
  const output = isObject(modalities) && Array.isArray(modalities["output"]) ? modalities["output"] : ["text"];
  if (output.includes("text")) return ["chat"];
  return output.includes("image") ? ["image"] : [];
}

function priceOf(name: string, { cost, experimental }: Facts, skip: (mode: string) => void): ModelPrice | undefined {
  if (cost === undefined || cost === null) return undefined;
  if (!isObject(cost)) throw new TypeError(`The price file's "${name}" has a wrong cost`);
  const usual = ratesOf(name, "cost", cost);
  // A model without a price for its input or output must not answer for nothing.
  if (usual.input === undefined || usual.output === undefined) return undefined;
  const longer = longerOf(name, cost, usual);
  return { ...usual, ...(longer.length > 0 && { longer }), ...modesIn(name, experimental, usual, skip) };
}

/** Returns the prices of the modes of a model: of a service tier, or as the factor of a speed. Other modes have no price of their own. */
function modesIn(
  name: string,
  experimental: unknown,
  usual: TokenRates,
  skip: (mode: string) => void,
): Pick<ModelPrice, "tiers" | "factors"> {
  const modes = isObject(experimental) && isObject(experimental["modes"]) ? experimental["modes"] : {};
  const tiers: Record<string, TokenRates> = {};
  const factors: Record<string, number> = {};
  for (const [mode, facts] of Object.entries(modes)) {
    const { cost, provider } = isObject(facts) ? facts : {};
    const body = isObject(provider) && isObject(provider["body"]) ? provider["body"] : {};
    const [tier, speed] = [textIn(body["service_tier"]), textIn(body["speed"])];
    if (!isObject(cost) || (tier === undefined && speed === undefined)) continue;
    const rates = ratesOf(name, `experimental.modes.${mode}.cost`, cost);
    if (tier !== undefined) tiers[tier] = rates;
    const factor = speed === undefined ? undefined : factorOf(rates, usual);
    if (speed !== undefined && factor !== undefined) factors[speed] = factor;
    else if (speed !== undefined) skip(mode);
  }
  return { ...(Object.keys(tiers).length > 0 && { tiers }), ...(Object.keys(factors).length > 0 && { factors }) };
}

/** Returns the factor between the prices of a mode and the usual ones; undefined where there is not one for all. */
function factorOf(rates: TokenRates, usual: TokenRates): number | undefined {
  const pairs = Object.entries(rates).map(([rate, amount]): [usual: number | undefined, amount: number] => [
    usual[rate as keyof TokenRates],
    amount,
  ]);
  const [base = 1, amount = 1] = pairs.find(([usually]) => usually) ?? [];
  const factor = rounded(amount / base);
  const isOne = pairs.every(([usually, own]) => usually !== undefined && rounded(usually * factor) === own);
  return isOne ? factor : undefined;
}

function ratesOf(name: string, where: string, cost: Facts): TokenRates {
  const rates: Record<string, number> = {};
  for (const [rate, field] of Object.entries(FIELDS)) {
    const amount = amountIn(name, `${where}.${field}`, cost[field]);
    if (amount !== undefined) rates[rate] = amount;
  }
  return rates;
}

/** Returns the prices of longer calls. Leaves out those that are lower than for shorter calls. */
function longerOf(name: string, cost: Facts, usual: TokenRates): readonly LongerRates[] {
  const { tiers, context_over_200k: older } = cost;
  const told: (readonly [above: unknown, rates: unknown])[] = Array.isArray(tiers)
    ? tiers.flatMap((one) => (isObject(one) && isObject(one["tier"]) ? [[one["tier"]["size"], one] as const] : []))
    : [[OLDER_FIELD_TOKENS, older]];
  return told.flatMap(([above, rates]) => {
    if (!isObject(rates)) return [];
    if (!Number.isSafeInteger(above) || (above as number) < 0)
      throw new TypeError(`The price file's "${name}" has a wrong tier`);
    const higher = Object.entries(ratesOf(name, "cost.tiers", rates)).filter(
      ([rate, amount]) => amount >= (usual[rate as keyof TokenRates] ?? 0),
    );
    return higher.length > 0 ? [{ above: above as number, ...Object.fromEntries(higher) }] : [];
  });
}
