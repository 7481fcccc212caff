/** Prices in a currency, by model: exact to a millionth of the currency, and rounded up once. */

import { GatewayError } from "../errors.ts";
import type { Price } from "../kinds/chat/price.ts";
import type { ImagePrice } from "../kinds/image/price.ts";
import { currencyCode } from "../model/money.ts";
import type { ModalityCount, Usage } from "../model/usage.ts";
import {
  assertOptions,
  type Check,
  checkOf,
  FROM_ZERO,
  listOf,
  mapOf,
  type NumberRule,
  oneLine,
  printError,
  quoted,
  type Shapes,
  unknownName,
} from "../options.ts";

/** The prices of one model's tokens. A price that is left out is the price of the tokens that it is a part of. */
export interface TokenRates {
  /** Input tokens. */
  readonly input?: number;
  /** Output tokens. */
  readonly output?: number;
  /** Input that was read from a prompt cache. Default: `input`. */
  readonly cacheRead?: number;
  /** Input that was written to a prompt cache. Default: `input`. */
  readonly cacheWrite?: number;
  /** Input that was written to a cache for an hour. Default: `cacheWrite`. */
  readonly cacheWrite1h?: number;
  /** Output for reasoning. Default: `output`. */
  readonly reasoning?: number;
  /** Input of sound. Default: `input`. */
  readonly audioInput?: number;
  /** Output of sound. Default: `output`. */
  readonly audioOutput?: number;
  /** Input of pictures. Default: `input`. */
  readonly imageInput?: number;
  /** Output of pictures by a chat model. Default: `output`. */
  readonly imageOutput?: number;
  /** Input of films. Default: `input`. */
  readonly videoInput?: number;
}

/** The prices of calls with more input tokens than `above`. */
export interface LongerRates extends TokenRates {
  readonly above: number;
}

/** The prices of a service tier. A price that is left out is the model's. The tier has only its own prices for longer calls. */
export interface TierRates extends TokenRates {
  readonly longer?: readonly LongerRates[];
}

/** The prices of one model. Prices are decimal numbers from 0 up, for `per` tokens. */
export interface ModelPrice extends TokenRates {
  /** Input tokens. Every model needs this price, unless it is only for pictures. */
  readonly input?: number;
  /** Output tokens. A model with `input` needs this price: 0 for models without output, such as embedding models. */
  readonly output?: number;
  /** The tokens that a price is for: a power of ten. Default: 1,000,000. */
  readonly per?: number;
  /**
   * The currency by its code of three letters, such as `usd` or `eur`: a quota unit is then a millionth of it. Another text counts the same,
   * but amounts have no currency. The unit `unit` is the quota unit itself. All models of a table must have the same unit. Default: `usd`.
   */
  readonly unit?: string;
  /**
   * The prices of calls with a longer input than `above` tokens. They apply to all tokens of the call. A price that is left out stays as it
   * is for shorter calls, and none may be lower.
   */
  readonly longer?: readonly LongerRates[];
  /** The prices of service tiers, by the provider's word, such as `priority`. A tier that is left out costs the model's usual prices. */
  readonly tiers?: Readonly<Record<string, TierRates>>;
  /**
   * Factors of all token prices, by the provider's word for the speed or the region of an answer, such as `{ fast: 6, us: 1.1 }`. An answer with
   * both words has both factors. A word that is left out changes nothing. Tool uses and pictures have no factor.
   */
  readonly factors?: Readonly<Record<string, number>>;
  /** The price of one use of a tool that the provider runs, by the tool's name, such as `web_search`. Default: 0. */
  readonly toolUses?: Readonly<Record<string, number>>;
  /**
   * The price of one picture: a number, or prices by `quality/size`, `size`, `quality`, or `*` for all others, of which the first that
   * exists applies.
   */
  readonly pictures?: number | Readonly<Record<string, number>>;
}

/** Prices by model. A name may have the wildcard `*`, which stands for any text. */
export type PriceRows = Readonly<Record<string, ModelPrice>>;

/** The two options of `createGateway` that a table answers. */
export interface TablePrices {
  /** The price of a call by its tokens. */
  readonly price: Price;
  /** The price of an image. */
  readonly imagePrice: ImagePrice;
}

const RATES = [
  "input",
  "output",
  "cacheRead",
  "cacheWrite",
  "cacheWrite1h",
  "reasoning",
  "audioInput",
  "audioOutput",
  "imageInput",
  "imageOutput",
  "videoInput",
] as const satisfies readonly (keyof TokenRates)[];
type Rates = Readonly<Record<(typeof RATES)[number], number>>;

const PER: NumberRule = {
  words: "a power of ten up to 1,000,000,000",
  allows: (value) => Number.isInteger(Math.log10(value)) && value >= 1 && value <= 1e9,
};
const TOKENS: NumberRule = { ...FROM_ZERO, words: "a count of tokens" };

/** The prices that other price lists name otherwise. The nearest word of `cachedInput` would be `input`, which is several times the price. */
const OTHER_NAMES: readonly (readonly [RegExp, keyof TokenRates])[] = [
  [/cach.*(?:1h|hour)/i, "cacheWrite1h"],
  [/cach.*(?:writ|creat|stor)|(?:writ|creat|stor).*cach/i, "cacheWrite"],
  [/cach/i, "cacheRead"],
  [/reason|think|thought/i, "reasoning"],
  [/audio.*out|out.*audio/i, "audioOutput"],
  [/audio/i, "audioInput"],
  [/image.*out|out.*image/i, "imageOutput"],
  [/image/i, "imageInput"],
  [/video/i, "videoInput"],
  [/prompt/i, "input"],
  [/complet/i, "output"],
];

/** Checks a row or a part of one. A price of an unknown name is refused with the name that was probably meant. */
function assertRow<Row extends object>(path: string, value: unknown, shapes: Shapes<Row>): void {
  const known = Object.keys(shapes);
  for (const name of typeof value === "object" && value !== null ? Object.keys(value) : []) {
    const [, meant] = OTHER_NAMES.find(([words]) => words.test(name)) ?? [];
    if (meant !== undefined && !known.includes(name))
      throw new TypeError(`${path}: ${unknownName(name, known, meant)}`);
  }
  assertOptions<Row>(path, value, shapes);
}

const rowOf =
  <Row extends object>(shapes: Shapes<Row>): Check =>
  (path, value) =>
    assertRow(path, value, shapes);

const RATE_SHAPES = Object.fromEntries(RATES.map((rate) => [rate, "amount?"])) as Shapes<TokenRates>;
const LONGER = { optional: listOf(rowOf<LongerRates>({ ...RATE_SHAPES, above: TOKENS })) };
const ROW_SHAPES: Shapes<ModelPrice> = {
  ...RATE_SHAPES,
  per: { optional: PER },
  unit: {
    optional: (path, unit) => {
      if (typeof unit !== "string" || (unit !== "unit" && currencyCode(unit) === undefined))
        throw new TypeError(`${path} must be "unit" or a code of three letters, such as "usd", not ${quoted(unit)}`);
    },
  },
  longer: LONGER,
  tiers: { optional: mapOf(rowOf<TierRates>({ ...RATE_SHAPES, longer: LONGER })) },
  factors: { optional: mapOf("amount") },
  toolUses: { optional: mapOf("amount") },
  pictures: {
    optional: (path, pictures) => (typeof pictures === "number" ? checkOf("amount") : mapOf("amount"))(path, pictures),
  },
};

/** The most digits behind the point of a millionth. Prices of vendors have up to six. */
const MAX_DECIMALS = 12;

/** The most models whose row is remembered. A key may ask for any name when a row is for `*`. */
const MAX_REMEMBERED = 1_000;

/** The most models without a row that the host hears of. A key may ask for any name when the backend lists no models. */
const MAX_MISSED = 100;

/**
 * Makes prices from a table: `createGateway({ ...priceTable({ "claude-*": { input: 3, output: 15 } }) })`. The exact name of a model goes
 * before patterns, and a pattern with more characters before one with fewer. The upstream's own name of the model goes before the caller's
 * name, where both are exact or both match a pattern; a row for `upstream/model`, with the upstream's name in a route, goes before both. A model without a row is refused with `model_not_found`,
 * before the backend is asked; `onFailure` is told of it once for each model. A row for `*` is the price of all other models. A call costs the sum of all its parts, rounded up once to a
 * whole unit. A price of a million tokens below 0.0005 is printed to standard error, because that of one token was probably meant.
 *
 * @throws TypeError if a row has no prices, or prices of tokens without `output` or `input`, or if units differ or are no code of a currency; RangeError if a price is not a
 * number from 0 up or has too many digits, or if a longer call would cost less.
 */
export function priceTable(rows: PriceRows): TablePrices {
  const table = new Table(rows);
  warnOfTinyPrices(rows);
  const { models, currency } = table;
  const named = { models, ...(currency !== undefined && { currency }) };
  const price: Price = (usage, model, _kind, upstream) => table.row(model, upstream).costOf(model, usage);
  const imagePrice: ImagePrice = ({ model, size, quality, upstream }) =>
    table.row(model, upstream).costOfPicture(model, size, quality);
  const all = Object.values(rows);
  return {
    price: Object.assign(price, named, { hasFreeModels: all.some(hasFreeTokens) }),
    imagePrice: Object.assign(imagePrice, named, { hasFreeModels: all.some(hasFreePictures) }),
  };
}

/** A lower price of a million tokens is nearly surely that of one token: the cheapest models cost several times more. */
const LEAST_USUAL = 0.0005;

/** Prints a line about prices that are so low that the price of one token was probably meant. The table counts them as they are. */
function warnOfTinyPrices(rows: PriceRows): void {
  const tiny = Object.entries(rows).flatMap(([name, price]) =>
    price.per === undefined && price.unit !== "unit"
      ? Array.from(amountsOf(name, price)).filter(([, amount, per]) => per > 1 && amount > 0 && amount < LEAST_USUAL)
      : [],
  );
  const [[field, amount] = [], ...others] = tiny;
  if (field === undefined || amount === undefined) return;
  const more = others.length > 0 ? ` ${others.length} more are as low.` : "";
  const written = amount.toFixed(MAX_DECIMALS).replace(/0+$/, "");
  printError(
    `polygate: ${oneLine(field)} is ${written} for a million tokens. For the price of one token, write per: 1 in the row.${more}`,
    {},
    "warn",
  );
}

const hasFreeTokens = ({ input, output, toolUses = {} }: ModelPrice): boolean =>
  input === 0 && output === 0 && Object.values(toolUses).every((amount) => amount === 0);

const hasFreePictures = ({ pictures = {} }: ModelPrice): boolean => Object.values(picturesOf(pictures)).includes(0);

/** The upstream that may answer, with its own name of the model. */
type Upstream = Parameters<Price>[3];

class Table {
  /** The code of the currency in capitals; undefined for units of another kind. */
  readonly currency: string | undefined;
  readonly #exact = new Map<string, Row>();
  readonly #patterns: { readonly matches: (model: string) => boolean; readonly row: Row }[] = [];
  readonly #remembered = new Map<string, Row | undefined>();
  readonly #missed = new Set<string>();

  constructor(rows: PriceRows) {
    if (typeof rows !== "object" || rows === null || Array.isArray(rows))
      throw new TypeError(
        'priceTable: expects an object of prices by model, such as { "*": { input: 3, output: 15 } }.',
      );
    const entries = Object.entries(rows);
    if (entries.length === 0)
      throw new TypeError(
        'priceTable: has no prices, so that every call would be refused. Give a price for each model, or one for all: { "*": { input: 3, output: 15 } }.',
      );
    for (const [name, price] of entries) assertRow<ModelPrice>(`The price of "${name}"`, price, ROW_SHAPES);
    this.currency = currencyOf(entries);
    const scale = new Scale(entries);
    const bySize = entries.toSorted(
      ([one], [other]) => other.replaceAll("*", "").length - one.replaceAll("*", "").length,
    );
    for (const [name, price] of bySize) {
      const row = new Row(name, price, scale);
      if (name.includes("*")) this.#patterns.push({ matches: pattern(name), row });
      else this.#exact.set(name, row);
    }
  }

  /** The names of the rows, without patterns. */
  get models(): readonly string[] {
    return [...this.#exact.keys()];
  }

  row(model: string, upstream?: Upstream): Row {
    const own = upstream?.model ?? model;
    const row =
      (upstream && this.#exact.get(`${upstream.name}/${own}`)) ??
      this.#exact.get(own) ??
      this.#exact.get(model) ??
      this.#matching(own) ??
      this.#matching(model);
    if (row) return row;
    const cause = this.#missing(model, own);
    throw new GatewayError("model_not_found", `The model "${model}" has no price.`, {
      path: ["model"],
      cause,
    });
  }

  /** Returns the error for `onFailure`, once for each model. */
  #missing(model: string, own: string): Error | undefined {
    const name = JSON.stringify(own);
    if (this.#missed.size === MAX_MISSED || this.#missed.has(name)) return undefined;
    this.#missed.add(name);
    const asked = own === model ? "" : `, which callers know as ${JSON.stringify(model)}`;
    return new Error(
      `priceTable has no row for the model ${name}${asked}. Its calls are refused. Add a row for it: ${name}: { input: …, output: … }. Or price all other models: "*": { input: …, output: … }.`,
    );
  }

  /** Returns the row of the longest pattern that a name matches. */
  #matching(model: string): Row | undefined {
    const known = this.#remembered.get(model);
    if (known) return known;
    const row = this.#patterns.find(({ matches }) => matches(model))?.row;
    if (!row) return undefined;
    if (this.#remembered.size === MAX_REMEMBERED) this.#remembered.clear();
    this.#remembered.set(model, row);
    return row;
  }
}

/** Returns the currency of all rows; undefined for quota units. Throws a TypeError for rows that differ. */
function currencyOf(entries: readonly (readonly [string, ModelPrice])[]): string | undefined {
  const [[first, unit] = ["", "usd"], ...others] = entries.map(([name, price]) => [name, price.unit ?? "usd"] as const);
  const currency = currencyCode(unit);
  for (const [name, other] of others)
    if (currencyCode(other) !== currency)
      throw new TypeError(
        `priceTable: all rows must have the same unit, but "${first}" has ${unit} and "${name}" has ${other}.`,
      );
  return currency;
}

/** Returns a test for names that match a pattern. Each part is looked for once, from left to right, so that no name takes long. */
function pattern(name: string): (model: string) => boolean {
  const [first = "", ...parts] = name.split("*");
  const last = parts.pop() ?? "";
  return (model) => {
    if (model.length < first.length + last.length || !model.startsWith(first) || !model.endsWith(last)) return false;
    let from = first.length;
    const end = model.length - last.length;
    return parts.every((part) => {
      const at = model.indexOf(part, from);
      from = at + part.length;
      return at >= 0 && from <= end;
    });
  };
}

/** Turns decimal numbers into whole numbers of one scale, so that sums are exact. */
class Scale {
  /** The parts of a quota unit that all prices of the table are whole numbers of: a power of ten. */
  readonly parts: number;
  readonly #decimals: number;

  constructor(entries: readonly (readonly [string, ModelPrice])[]) {
    let decimals = 0;
    for (const [name, price] of entries)
      for (const [field, amount, per] of amountsOf(name, price)) {
        const { places } = unitsOf(amount, per, price.unit);
        if (places > MAX_DECIMALS) throw new RangeError(`${field} has too many digits: ${amount}`);
        decimals = Math.max(decimals, places);
      }
    this.#decimals = decimals;
    this.parts = 10 ** decimals;
  }

  whole(field: string, amount: number, per: number, unit: string | undefined): number {
    const { digits, places } = unitsOf(amount, per, unit);
    const whole = Number(digits) * 10 ** (this.#decimals - places);
    if (!Number.isSafeInteger(whole)) throw new RangeError(`${field} is too high beside the smallest price: ${amount}`);
    return whole;
  }
}

/** Returns the quota units that a price is, as a decimal number: `digits` with the point before the last `places` of them. */
function unitsOf(amount: number, per: number, unit = "usd"): { readonly digits: string; readonly places: number } {
  const [mantissa = "", exponent = "0"] = String(amount).split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const places = fraction.length - Number(exponent) + Math.log10(per) - (unit === "unit" ? 0 : 6);
  if (places >= 0) return { digits: whole + fraction, places };
  return { digits: whole + fraction + "0".repeat(-places), places: 0 };
}

/** A decimal number as a fraction of whole numbers. */
interface Factor {
  readonly numerator: bigint;
  readonly denominator: bigint;
}

const ONE: Factor = { numerator: 1n, denominator: 1n };

const product = (one: Factor, other: Factor | undefined): Factor =>
  other === undefined
    ? one
    : { numerator: one.numerator * other.numerator, denominator: one.denominator * other.denominator };

function factorOf(field: string, amount: number): Factor {
  const { digits, places } = unitsOf(amount, 1, "unit");
  if (places > MAX_DECIMALS) throw new RangeError(`${field} has too many digits: ${amount}`);
  if (!Number.isSafeInteger(Number(digits))) throw new RangeError(`${field} is too high: ${amount}`);
  return { numerator: BigInt(digits), denominator: 10n ** BigInt(places) };
}

/** Lists all prices of a row, each with the tokens that it is for. Throws a TypeError for a row that is no price. */
function* amountsOf(name: string, price: ModelPrice): Generator<readonly [field: string, amount: number, per: number]> {
  const { per = 1_000_000, longer, tiers = {}, toolUses = {}, pictures = {} } = price;
  const at = `The price of "${name}"`;
  if (!hasTokens(price) && price.pictures === undefined)
    throw new TypeError(`${at} needs input and output, or pictures`);
  if (hasTokens(price) && price.input === undefined) throw new TypeError(`${at} needs input; 0 makes it free`);
  if (hasTokens(price) && price.output === undefined)
    throw new TypeError(
      `${at} needs output; 0 is for models without output, such as embedding models, and makes it free`,
    );
  const amounts: [string, number | undefined, number][] = [];
  const add = (prefix: string, rates: TokenRates, longerRates: readonly LongerRates[] = []): void => {
    for (const rate of RATES) amounts.push([`${at}: ${prefix}${rate}`, rates[rate], per]);
    for (const { above, ...higher } of longerRates) add(`${prefix}above ${above}, `, higher);
  };
  add("", price, longer);
  for (const [tier, rates] of Object.entries(tiers)) add(`tier ${tier}, `, rates, rates.longer);
  for (const [tool, amount] of Object.entries(toolUses)) amounts.push([`${at}: ${tool}`, amount, 1]);
  for (const [kind, amount] of Object.entries(picturesOf(pictures)))
    amounts.push([`${at}: picture ${kind}`, amount, 1]);
  for (const [field, amount, tokens] of amounts) if (amount !== undefined) yield [field, amount, tokens];
}

/** The most digits behind the point of a millionth, and the highest price in millionths, that fit beside those of any other row. */
const COMMON = { decimals: 9, units: 9_000_000 };

/** Throws a RangeError for a row that no table takes, or that not every table takes beside its other rows. */
export function assertFits(name: string, price: ModelPrice): void {
  void new Table({ [name]: price });
  for (const [field, amount, per] of amountsOf(name, price)) {
    const { digits, places } = unitsOf(amount, per, price.unit);
    if (places > COMMON.decimals || Number(digits) / 10 ** places > COMMON.units)
      throw new RangeError(`${field} does not fit beside other prices: ${amount}`);
  }
}

/** True for a row that prices tokens, and not only pictures. */
const hasTokens = ({ input, output }: TokenRates): boolean => input !== undefined || output !== undefined;

/** The prices of one row as whole numbers. */
class Row {
  readonly #hasTokens: boolean;
  readonly #parts: number;
  readonly #usual: readonly Band[];
  readonly #tiers: ReadonlyMap<string, readonly Band[]>;
  /** The factors by words in lower case. */
  readonly #factors: ReadonlyMap<string, Factor>;
  readonly #toolUses: ReadonlyMap<string, number>;
  readonly #pictures: ReadonlyMap<string, number>;

  constructor(name: string, price: ModelPrice, scale: Scale) {
    const { per = 1_000_000, unit, longer, tiers = {}, factors = {}, toolUses = {}, pictures = {} } = price;
    const at = `The price of "${name}"`;
    const ratesOf = (own: TokenRates): Rates => {
      const of = (rate: keyof TokenRates, otherwise: number): number => {
        const amount = own[rate];
        return amount === undefined ? otherwise : scale.whole(`${at}: ${rate}`, amount, per, unit);
      };
      const input = of("input", 0);
      const output = of("output", 0);
      const cacheWrite = of("cacheWrite", input);
      return {
        input,
        output,
        cacheRead: of("cacheRead", input),
        cacheWrite,
        cacheWrite1h: of("cacheWrite1h", cacheWrite),
        reasoning: of("reasoning", output),
        audioInput: of("audioInput", input),
        audioOutput: of("audioOutput", output),
        imageInput: of("imageInput", input),
        imageOutput: of("imageOutput", output),
        videoInput: of("videoInput", input),
      };
    };
    /** Returns the bands of a model or a tier, the longest calls first. */
    const bandsOf = (own: TokenRates, higher: readonly LongerRates[] = []): Band[] => {
      const bands: Band[] = [{ above: -1, rates: ratesOf(own) }];
      for (const { above, ...rates } of higher.toSorted((one, other) => one.above - other.above)) {
        const band = { above, rates: ratesOf({ ...own, ...rates }) };
        const lower = RATES.find((rate) => band.rates[rate] < (bands[0]?.rates[rate] ?? 0));
        if (lower) throw new RangeError(`${at}: ${lower} must not be lower for calls above ${above} tokens`);
        bands.unshift(band);
      }
      return bands;
    };
    const singles = (amounts: Readonly<Record<string, number>>): Map<string, number> =>
      new Map(Object.entries(amounts).map(([key, amount]) => [key, scale.whole(`${at}: ${key}`, amount, 1, unit)]));
    this.#hasTokens = hasTokens(price);
    this.#parts = scale.parts;
    this.#usual = bandsOf(price, longer);
    this.#tiers = new Map(
      Object.entries(tiers).map(([tier, own]) => [tier.toLowerCase(), bandsOf({ ...price, ...own }, own.longer)]),
    );
    this.#factors = new Map(
      Object.entries(factors).map(([word, factor]) => [word.toLowerCase(), factorOf(`${at}: factor ${word}`, factor)]),
    );
    this.#toolUses = singles(toolUses);
    this.#pictures = singles(picturesOf(pictures));
  }

  /** Returns the whole units of a usage. Parts that are more than their whole count as the whole. */
  costOf(model: string, usage: Usage): number {
    if (!this.#hasTokens)
      throw new GatewayError("model_not_found", `Tokens of the model "${model}" have no price.`, { path: ["model"] });
    const { inputTokens, outputTokens, cacheWritesByTtl = {}, serverToolUses, details = {} } = usage;
    const rates = this.#ratesOf(usage);
    const input = new Parts(inputTokens);
    const writes = Math.min(cacheWritesByTtl["1h"] ?? 0, usage.cacheWriteTokens);
    input.take(usage.cacheReadTokens, rates.cacheRead);
    input.take(writes, rates.cacheWrite1h);
    input.take(usage.cacheWriteTokens - writes, rates.cacheWrite);
    const uncached = (modality: ModalityCount["modality"]): number =>
      tokensOf(modality, details.input) - tokensOf(modality, details.cacheRead);
    input.take(uncached("audio"), rates.audioInput);
    input.take(uncached("image"), rates.imageInput);
    input.take(uncached("video"), rates.videoInput);
    input.take(inputTokens, rates.input);
    const output = new Parts(outputTokens);
    output.take(usage.reasoningTokens, rates.reasoning);
    output.take(tokensOf("audio", details.output), rates.audioOutput);
    output.take(tokensOf("image", details.output), rates.imageOutput);
    output.take(outputTokens, rates.output);
    const tokens = [...input.terms, ...output.terms];
    const tools: Term[] = [];
    if (serverToolUses)
      for (const [tool, uses] of Object.entries(serverToolUses)) tools.push([uses, this.#toolUses.get(tool) ?? 0]);
    const factor = this.#factors.size === 0 ? ONE : this.#factorOf(usage);
    return factor === ONE ? this.#sum([...tokens, ...tools]) : this.#multiplied(tokens, factor, tools);
  }

  #factorOf({ speed = "", inferenceGeo = "" }: Usage): Factor {
    const bySpeed = product(ONE, this.#factors.get(speed.toLowerCase()));
    return product(bySpeed, this.#factors.get(inferenceGeo.toLowerCase()));
  }

  costOfPicture(model: string, size: string, quality = ""): number {
    const pictures = this.#pictures;
    const amount =
      pictures.get(`${quality}/${size}`) ?? pictures.get(size) ?? pictures.get(quality) ?? pictures.get("*");
    if (amount === undefined)
      throw new GatewayError("model_not_found", `Pictures by the model "${model}" have no price.`, { path: ["model"] });
    return this.#sum([[1, amount]]);
  }

  #ratesOf({ inputTokens, serviceTier }: Usage): Rates {
    const bands = this.#tiers.get(serviceTier?.toLowerCase() ?? "") ?? this.#usual;
    const band = bands.find(({ above }) => inputTokens > above);
    if (!band) throw new RangeError(`${inputTokens} is no count of tokens`);
    return band.rates;
  }

  /** Adds up counts times prices, and rounds up to whole units. Sums that a number does not hold exactly are added as big integers. */
  #sum(terms: readonly Term[]): number {
    const parts = this.#parts;
    let sum = 0;
    for (const [count, rate] of terms) sum += count * rate;
    if (Number.isSafeInteger(sum)) return (sum - (sum % parts)) / parts + (sum % parts > 0 ? 1 : 0);
    return wholeUnits(exactSum(terms), BigInt(parts));
  }

  /** Adds up tokens times prices times a factor, and tool uses without the factor, and rounds up to whole units. */
  #multiplied(tokens: readonly Term[], { numerator, denominator }: Factor, tools: readonly Term[]): number {
    const sum = exactSum(tokens) * numerator + exactSum(tools) * denominator;
    return wholeUnits(sum, BigInt(this.#parts) * denominator);
  }
}

function exactSum(terms: readonly Term[]): bigint {
  let sum = 0n;
  for (const [count, rate] of terms) sum += BigInt(count) * BigInt(rate);
  return sum;
}

/** Divides, and rounds up. */
const wholeUnits = (sum: bigint, parts: bigint): number => Number((sum + parts - 1n) / parts);

/** The prices of calls with more than `above` input tokens. */
interface Band {
  readonly above: number;
  readonly rates: Rates;
}

const picturesOf = (pictures: number | Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  typeof pictures === "number" ? { "*": pictures } : pictures;

type Term = readonly [count: number, rate: number];

/** Divides a count of tokens into parts with their prices. */
class Parts {
  readonly terms: Term[] = [];
  #left: number;

  constructor(tokens: number) {
    this.#left = Math.ceil(tokens);
  }

  /** Takes up to so many tokens of the rest. */
  take(tokens: number, rate: number): void {
    const taken = Math.min(this.#left, Math.max(0, Math.ceil(tokens)));
    if (taken === 0) return;
    this.#left -= taken;
    this.terms.push([taken, rate]);
  }
}

function tokensOf(modality: ModalityCount["modality"], counts: readonly ModalityCount[] = []): number {
  let tokens = 0;
  for (const count of counts) if (count.modality === modality) tokens += count.tokens;
  return tokens;
}
