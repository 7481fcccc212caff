/**
 * polygate/prices: prices in a currency, from a table or from a catalogue file. Reads two files that many gateways share: LiteLLM's
 * `model_prices_and_context_window.json`, and the `api.json` of models.dev.
 */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export {
  type Catalogue,
  type CatalogueOptions,
  type CatalogueRoute,
  priceCatalogue,
  type WrongEntry,
} from "./catalogue.ts";
export type { CatalogueModel } from "./entry.ts";
export { unitsOfMoney } from "../model/money.ts";
export {
  type LongerRates,
  type ModelPrice,
  type PriceRows,
  priceTable,
  type TablePrices,
  type TierRates,
  type TokenRates,
} from "./price-table.ts";
