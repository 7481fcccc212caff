// catalogue.ts
import { readFileSync } from "node:fs";
import { priceCatalogue, priceTable } from "polygate/prices";

export function pricesFrom(file: string, date: string) {
  const parsed: unknown = JSON.parse(readFileSync(file, "utf8"));
  const catalogue = priceCatalogue(parsed, { date, only: (model) => /^(?:claude|gpt|gemini)-/.test(model) });
  return priceTable({ ...catalogue.rows, "gpt-our-own": { input: 0.5, output: 1, per: 1_000_000 } });
}
