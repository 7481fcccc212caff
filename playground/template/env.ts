/** Ends a start that cannot succeed, with one line that names the variable to change. The file .env.example explains all variables. */

import type { TablePrices } from "polygate/prices";

/** Ends the process. */
export function stop(problem: string): never {
  console.error(problem);
  process.exit(1);
}

/** Returns a variable. Ends the process when it is missing or empty. */
export const required = (name: string, value: string | undefined, meaning: string): string =>
  value || stop(`${name} is missing: ${meaning}. Set it in .env; .env.example explains all variables.`);

/** Returns a port. Ends the process for anything else. */
export function portIn(name: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text);
  return stop(`${name} must be a port from 0 to 65535, such as 3000, not ${JSON.stringify(text)}.`);
}

/** Returns the result of a part of the start. Ends the process with its reason when the part fails. */
export async function orStop<T>(variables: string, part: () => T): Promise<Awaited<T>> {
  try {
    return await part();
  } catch (error) {
    return stop(`${variables} cannot be used. ${(error as Error).message}`);
  }
}

/** Warns of each model without a price: its calls are refused. */
export function warnOfPrices(models: readonly string[] = [], { price }: TablePrices): void {
  const usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  for (const model of models)
    try {
      price(usage, model, "chat");
    } catch (error) {
      const { cause = error } = error as Error;
      console.warn(`gateway.ts: ${(cause as Error).message}`);
    }
}

const { HOST, PORT } = process.env;

/** The address and the port of the server. */
export const host: string = HOST || "127.0.0.1";
export const port: number = portIn("PORT", PORT || "3000");
