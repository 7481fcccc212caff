/** An entry of a price file, in the form that all shapes of files are read into. */

import type { Price } from "../kinds/chat/price.ts";
import { quoted } from "../options.ts";
import type { ModelPrice } from "./price-table.ts";

/** A kind of generation: `chat`, `image` or `embedding`. */
export type Kind = Parameters<Price>[2];

/** A model of a price file, in the fields of `ModelInfo`. */
export interface CatalogueModel {
  /** The name of its row. */
  readonly id: string;
  /** The kinds of requests that the model answers; none for models of sound alone, and the like. */
  readonly kinds: readonly Kind[];
  readonly displayName?: string;
  /** The provider. */
  readonly ownedBy?: string;
  /** The date of the release, as Unix time in seconds. */
  readonly createdAt?: number;
  readonly maxInputTokens?: number;
  readonly maxOutputTokens?: number;
}

export interface CatalogueEntry {
  /** The name for messages. */
  readonly name: string;
  /** The name of the model, for the host's choice of models. */
  readonly id: string;
  /** The names of its rows. */
  readonly rows: readonly string[];
  readonly provider: string | undefined;
  /** The provider's own name of the model. */
  readonly own: string;
  /** The day of its last change; undefined for the day of the file. */
  readonly date: string | undefined;
  readonly info: CatalogueModel;
  /**
   * Returns the price; undefined where the file has none in tokens or pictures. Throws a TypeError for an entry that is wrong.
   *
   * @param skip Called for a mode of the model whose prices are left out.
   */
  price(skip: (mode: string) => void): ModelPrice | undefined;
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const rounded = (amount: number): number => Number(amount.toPrecision(6));

/** Returns a price of an entry. Throws a TypeError for a value that is none. */
export function amountIn(name: string, field: string, amount: unknown): number | undefined {
  if (amount === undefined || amount === null) return undefined;
  if (typeof amount !== "number" || !(amount >= 0) || amount === Number.POSITIVE_INFINITY)
    throw new TypeError(`The price file's "${name}" has a wrong ${field}: ${quoted(amount)}`);
  return rounded(amount);
}

/** Returns a text; undefined for any other value. */
export const textIn = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : undefined;

/** Returns a field with a positive count; nothing for any other value. */
export const countIn = <Name extends string>(name: Name, value: unknown): { readonly [Key in Name]?: number } =>
  (Number.isSafeInteger(value) && (value as number) > 0 ? { [name]: value } : {}) as {
    readonly [Key in Name]?: number;
  };
