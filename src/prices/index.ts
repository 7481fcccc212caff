/** polygate/prices: prices in a currency, from a table or from a catalogue file. */

import { assertNodeVersion } from "../node-version.ts";

assertNodeVersion();

export { type Catalogue, type CatalogueOptions, priceCatalogue } from "./catalogue.ts";
export {
  type LongerRates,
  type ModelPrice,
  type PriceRows,
  priceTable,
  type TablePrices,
  type TierRates,
  type TokenRates,
} from "./price-table.ts";
