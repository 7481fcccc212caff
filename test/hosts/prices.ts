/** Prices that can be told from a table alone, so also in a runtime that cannot stand still until the tests have told them. */

import type { ImageKind, ImagePrice } from "../../src/index.ts";

export interface PriceTable {
  readonly byModel: Readonly<Record<string, number>>;
  readonly otherwise: number;
}

export const priceOf = ({ byModel, otherwise }: PriceTable, { model }: Pick<ImageKind, "model">): number =>
  byModel[model] ?? otherwise;

/** The price as a function that carries its table. `told` hears of what it is asked for. */
export const imagePriceFrom = (table: PriceTable, told: (image: ImageKind) => void = () => {}): ImagePrice =>
  Object.assign((image: ImageKind) => (told(image), priceOf(table, image)), table);

export const flat = (price: number): ImagePrice => imagePriceFrom({ byModel: {}, otherwise: price });
