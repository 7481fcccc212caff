/** Makes a catalogue of prices, models and routes from a price file. */

import { assertOptions, listOf, quoted } from "../options.ts";
import { type CatalogueEntry, type CatalogueModel, isObject } from "./entry.ts";
import { liteLlmEntries } from "./litellm.ts";
import { isModelsDev, modelsDevEntries } from "./models-dev.ts";
import { assertFits, type ModelPrice, type PriceRows } from "./price-table.ts";

/** The options of `priceCatalogue`. */
export interface CatalogueOptions {
  /** The day of the file, such as `2026-11-01`. A price file ages, and has no date of its own. */
  readonly date: string;
  /** Chooses the models to read. Default: all. */
  readonly only?: (model: string) => boolean;
  /**
   * The providers to read of a file of models.dev, such as `["anthropic", "openai"]`. Their models have rows under their own names, too: where
   * several providers have one, that of the first in this list. Default: all providers, with rows by `provider/model` alone.
   */
  readonly providers?: readonly string[];
}

/** A catalogue of prices. */
export interface Catalogue {
  /** The day of the file, as it was given. */
  readonly date: string;
  /** The rows for `priceTable`. */
  readonly rows: PriceRows;
  /**
   * The models that are not in `rows`, because the file has no price for their tokens or pictures, such as prices by the second. Also the modes
   * that the rows of their models lack, because their prices are not one factor of the usual ones, such as `anthropic/claude-9 (fast)`.
   */
  readonly skipped: readonly string[];
  /** The models that are not in `rows`, because something in the file is wrong there. */
  readonly wrong: readonly WrongEntry[];
  /**
   * Returns the names of the rows that are older than a day, such as `2026-06-01`. A row of models.dev has a date of its own; any other has
   * the date of the file. A row whose date cannot be read is older than every day. Throws a TypeError for a text that is no day.
   */
  readonly olderThan: (day: string) => readonly string[];
  /** The models of the rows, as the option `models` of a relay takes them. */
  readonly models: readonly CatalogueModel[];
  /**
   * Makes the routes of the models that are in the file, by their own names. Each model goes to the backends whose names are its providers in
   * the file, under the provider's name. Throws a TypeError for a provider that has no model in the file.
   *
   * @example route({ routes: catalogue.routes({ anthropic, openai }) })
   */
  readonly routes: <Backend>(
    backends: Readonly<Record<string, Backend>>,
  ) => Readonly<Record<string, CatalogueRoute<Backend>>>;
}

/** An entry of a price file that cannot be read. */
export interface WrongEntry {
  /** The name of the model in the file. */
  readonly model: string;
  /** A sentence about the problem. */
  readonly problem: string;
}

/** The route of a model of a catalogue, as the option `routes` of `route` takes it. */
export interface CatalogueRoute<Backend> {
  readonly upstreams: readonly {
    readonly backend: Backend;
    /** The provider, as the file names it. */
    readonly name: string;
    /** The provider's own name of the model. */
    readonly model: string;
  }[];
}

/**
 * Reads a price file in the shape of LiteLLM (an object of models with `input_cost_per_token` and the like) or of models.dev (an object of
 * providers with `models`), in US dollars. The host gives the parsed file, for example with
 * `import prices from "./prices.json" with { type: "json" }`; no prices are built in. Rounds each price to 6 digits, because some prices in
 * the files have the digits that binary fractions leave. An entry that is wrong is left out and named in `wrong`: its model has no price,
 * and all others have theirs.
 *
 * @throws TypeError if the file is no object, or a provider of the options is not in the file.
 */
export function priceCatalogue(file: unknown, options: CatalogueOptions): Catalogue {
  assertOptions<CatalogueOptions>("priceCatalogue", options, {
    date: "string",
    only: "function?",
    providers: { optional: listOf("string") },
  });
  const { date, only = () => true } = options;
  timeOf("The date of a price file", date);
  if (!isObject(file)) throw new TypeError("A price file must be an object of models");
  const rows: Record<string, ModelPrice> = Object.create(null) as Record<string, ModelPrice>;
  /** The day of each row. */
  const days = new Map<string, string>();
  const entries: CatalogueEntry[] = [];
  const skipped: string[] = [];
  const wrong: WrongEntry[] = [];
  for (const entry of entriesOf(file, options.providers)) {
    if (!only(entry.id)) continue;
    try {
      const row = entry.price((mode) => skipped.push(`${entry.name} (${mode})`));
      if (row) assertFits(entry.id, row);
      else skipped.push(entry.name);
      if (row) entries.push(entry);
      for (const name of row ? entry.rows : []) {
        // LiteLLM has one entry for each size of a picture.
        rows[name] = { ...rows[name], ...row, pictures: { ...picturesOf(rows[name]), ...picturesOf(row) } };
        days.set(name, entry.date ?? date);
      }
    } catch (error) {
      wrong.push({ model: entry.name, problem: (error as Error).message });
    }
  }
  return {
    date,
    rows,
    skipped,
    wrong,
    olderThan(day) {
      const limit = timeOf("olderThan: the day", day);
      return [...days].filter(([, own]) => !(Date.parse(own) >= limit)).map(([name]) => name);
    },
    models: [...new Map(entries.map(({ info }) => [info.id, info])).values()],
    routes: (backends) => routesOf(entries, backends),
  };
}

function entriesOf(
  file: Readonly<Record<string, unknown>>,
  providers: readonly string[] | undefined,
): Iterable<CatalogueEntry> {
  const isByProvider = isModelsDev(file);
  if (!providers) return isByProvider ? modelsDevEntries(file, undefined) : liteLlmEntries(file);
  if (!isByProvider) throw new TypeError("priceCatalogue: providers is only for a file of models.dev.");
  const missing = providers.find((name) => !Object.hasOwn(file, name));
  if (missing !== undefined) throw new TypeError(`priceCatalogue: the file has no provider ${quoted(missing)}.`);
  return modelsDevEntries(file, providers);
}

/** Returns the time of a day. Throws a TypeError for a text that is no day. */
function timeOf(what: string, day: string): number {
  const time = typeof day === "string" ? Date.parse(day) : Number.NaN;
  if (Number.isNaN(time)) throw new TypeError(`${what} must be a day such as 2026-11-01, not ${quoted(day)}`);
  return time;
}

function routesOf<Backend>(
  entries: readonly CatalogueEntry[],
  backends: Readonly<Record<string, Backend>>,
): Readonly<Record<string, CatalogueRoute<Backend>>> {
  const routes = new Map<string, Map<string, { backend: Backend; name: string; model: string }>>();
  for (const [name, backend] of Object.entries(backends)) {
    // A route's name with a star stands for many models.
    const own = entries.filter(({ provider, own: model }) => provider === name && !model.includes("*"));
    if (own.length === 0) throw new TypeError(`routes: the file has no model of the provider ${quoted(name)}.`);
    for (const { own: model } of own) {
      const upstreams = routes.get(model) ?? new Map<string, { backend: Backend; name: string; model: string }>();
      routes.set(model, upstreams.set(name, { backend, name, model }));
    }
  }
  return Object.fromEntries(
    Array.from(routes, ([model, upstreams]) => [model, { upstreams: [...upstreams.values()] }]),
  );
}

const picturesOf = (row: ModelPrice | undefined): Readonly<Record<string, number>> =>
  typeof row?.pictures === "object" ? row.pictures : {};
