/** Reads entries of LiteLLM's price file: an object of models with `input_cost_per_token` and the like. */

import { amountIn, type CatalogueEntry, countIn, isObject, type Kind, rounded, textIn } from "./entry.ts";
import type { LongerRates, ModelPrice, TierRates, TokenRates } from "./price-table.ts";

/** The field of the file for each price of a token. */
const FIELDS = {
  input: "input_cost_per_token",
  output: "output_cost_per_token",
  cacheRead: "cache_read_input_token_cost",
  cacheWrite: "cache_creation_input_token_cost",
  cacheWrite1h: "cache_creation_input_token_cost_above_1hr",
  reasoning: "output_cost_per_reasoning_token",
  audioInput: "input_cost_per_audio_token",
  audioOutput: "output_cost_per_audio_token",
  imageInput: "input_cost_per_image_token",
  imageOutput: "output_cost_per_image_token",
  videoInput: "input_cost_per_video_token",
} as const satisfies Record<keyof TokenRates, string>;

const TIERS = ["priority", "flex", "batches"] as const;
/** The providers' word for a tier whose word in the file differs. */
const TIER_NAMES: Readonly<Record<string, string>> = { batches: "batch" };

/** The modes of models that answer in tokens. */
const CHATS: ReadonlySet<unknown> = new Set(["chat", "completion", "responses"]);

const LONGER = /_above_(\d+)k_tokens(?:_(\w+))?$/;
/** The words with a factor: a speed, and regions such as `us`. */
const FACTOR = /^(?:fast|[a-z]{2})$/;
/** The name of a picture's price, such as `hd/1024-x-1792/dall-e-3`. */
const PICTURE = /^(?:([\w-]+)\/)?(\d+)-x-(\d+)\/(.+)$/;

/** The kind of requests that models of each mode answer. Other modes, such as transcription, have no kind. */
const KINDS: Readonly<Record<string, Kind>> = {
  chat: "chat",
  completion: "chat",
  responses: "chat",
  embedding: "embedding",
  image_generation: "image",
};

/** Lists the entries of a file, with the rows that each makes. */
export function* liteLlmEntries(file: Readonly<Record<string, unknown>>): Generator<CatalogueEntry> {
  for (const [name, entry] of Object.entries(file)) {
    // The file explains its fields in an entry of this name.
    if (name === "sample_spec") continue;
    const [, quality, width, height, model = name] = PICTURE.exec(name) ?? [];
    const facts = isObject(entry) ? entry : {};
    const provider = textIn(facts["litellm_provider"]);
    const own = provider !== undefined && model.startsWith(`${provider}/`) ? model.slice(provider.length + 1) : model;
    const mode = textIn(facts["mode"]) ?? "chat";
    const kind = Object.hasOwn(KINDS, mode) ? KINDS[mode] : undefined;
    yield {
      name,
      id: model,
      rows: [model],
      provider,
      own,
      date: undefined,
      info: {
        id: model,
        ...(provider !== undefined && { ownedBy: provider }),
        kinds: kind === undefined ? [] : [kind],
        ...countIn("maxInputTokens", facts["max_input_tokens"]),
        ...countIn("maxOutputTokens", facts["max_output_tokens"]),
      },
      price() {
        if (!isObject(entry)) throw new TypeError(`The price file's "${name}" must be an object`);
        const prices = new Prices(name, entry);
        return width === undefined ? prices.row() : prices.picture(`${width}x${height}`, quality);
      },
    };
  }
}

/** An entry of the file. */
class Prices {
  readonly #name: string;
  readonly #entry: Readonly<Record<string, unknown>>;

  constructor(name: string, entry: Readonly<Record<string, unknown>>) {
    this.#name = name;
    this.#entry = entry;
  }

  row(): ModelPrice | undefined {
    const usual = this.#rates("");
    const pictures = this.#picture();
    const toolUses = this.#toolUses();
    const factors = this.#factors();
    const { input, output } = usual;
    if (input === undefined && pictures === undefined) return undefined;
    const { mode = "chat" } = this.#entry;
    // A chat model without a price for its input or output must not answer for nothing.
    if (CHATS.has(mode) && (input === undefined) !== (output === undefined)) return undefined;
    const longer = this.#longer(undefined, usual);
    const tiers: Record<string, TierRates> = {};
    for (const tier of TIERS) {
      const rates = this.#rates(`_${tier}`);
      const own = this.#longer(tier, { ...usual, ...rates });
      if (Object.keys(rates).length > 0 || own.length > 0)
        tiers[TIER_NAMES[tier] ?? tier] = { ...rates, ...(own.length > 0 && { longer: own }) };
    }
    return {
      ...usual,
      ...((input ?? output) !== undefined && { input: input ?? 0, output: output ?? 0 }),
      per: 1,
      unit: "usd",
      ...(longer.length > 0 && { longer }),
      ...(Object.keys(tiers).length > 0 && { tiers }),
      ...(factors && { factors }),
      ...(toolUses && { toolUses }),
      ...(pictures !== undefined && { pictures: { "*": pictures } }),
    };
  }

  /** Returns the row of an entry that is for pictures of one size. */
  picture(size: string, quality: string | undefined): ModelPrice | undefined {
    const [width = 0, height = 0] = size.split("x").map(Number);
    const pixel = this.#amount("input_cost_per_pixel") ?? this.#amount("output_cost_per_pixel");
    const amount = this.#picture() ?? (pixel === undefined ? undefined : rounded(pixel * width * height));
    if (amount === undefined) return undefined;
    return { per: 1, unit: "usd", pictures: { [quality === undefined ? size : `${quality}/${size}`]: amount } };
  }

  #picture(): number | undefined {
    return (
      this.#amount("output_cost_per_image") ??
      (this.#entry["mode"] === "image_generation" ? this.#amount("input_cost_per_image") : undefined)
    );
  }

  /** Returns the prices of the uses of tools, by the names that the answers of all formats have. */
  #toolUses(): Readonly<Record<string, number>> | undefined {
    const {
      search_context_cost_per_query: search,
      litellm_provider: provider,
      web_search_billing_unit: unit,
    } = this.#entry;
    // Google bills older models by the prompt, and newer ones by the query.
    const isOfGoogle = /gemini/.test(this.#name) && /^(?:gemini|vertex_ai)/.test(textIn(provider) ?? "");
    const isByPrompt = isOfGoogle && unit !== "per_query";
    const prices: [string, number | undefined][] = [
      [isByPrompt ? "maps_prompt" : "maps", this.#amount("google_maps_grounding_cost_per_query")],
      ["file_search", this.#amount("file_search_cost_per_1k_calls", this.#entry, 1_000)],
      ["code_interpreter", this.#amount("code_interpreter_cost_per_session")],
    ];
    if (isObject(search)) {
      const amounts = Object.keys(search).map((field) => this.#amount(field, search) ?? 0);
      prices.push([isByPrompt ? "web_search_prompt" : "web_search", Math.max(0, ...amounts)]);
    }
    const known = prices.filter((price): price is [string, number] => price[1] !== undefined);
    return known.length > 0 ? Object.fromEntries(known) : undefined;
  }

  /** Reads the factors of a speed and of regions among the fields of one provider alone. */
  #factors(): Readonly<Record<string, number>> | undefined {
    const own = this.#entry["provider_specific_entry"];
    if (!isObject(own)) return undefined;
    const factors: Record<string, number> = {};
    for (const word of Object.keys(own).filter((field) => FACTOR.test(field))) {
      const factor = this.#amount(word, own);
      if (factor !== undefined) factors[word] = factor;
    }
    return Object.keys(factors).length > 0 ? factors : undefined;
  }

  #rates(suffix: string): TokenRates {
    const rates: Record<string, number> = {};
    for (const [rate, field] of Object.entries(FIELDS)) {
      const amount = this.#amount(field + suffix);
      if (amount !== undefined) rates[rate] = amount;
    }
    return rates;
  }

  /** Returns the prices of longer calls, of one tier or without a tier. Leaves out those that are lower than for shorter calls. */
  #longer(tier: string | undefined, usual: TokenRates): LongerRates[] {
    const lengths = new Set<string>();
    for (const field of Object.keys(this.#entry)) {
      const [, thousands, of] = LONGER.exec(field) ?? [];
      if (thousands !== undefined && of === tier) lengths.add(thousands);
    }
    return Array.from(lengths, (thousands) => {
      const rates = this.#rates(`_above_${thousands}k_tokens${tier === undefined ? "" : `_${tier}`}`);
      const higher = Object.entries(rates).filter(([rate, amount]) => amount >= (usual[rate as keyof TokenRates] ?? 0));
      return { above: Number(thousands) * 1_000, ...Object.fromEntries(higher) };
    }).filter((rates) => Object.keys(rates).length > 1);
  }

  /** @param uses The number of uses that the price is for. */
  #amount(field: string, entry: Readonly<Record<string, unknown>> = this.#entry, uses = 1): number | undefined {
    const amount = amountIn(this.#name, field, entry[field]);
    return amount === undefined ? undefined : rounded(amount / uses);
  }
}
