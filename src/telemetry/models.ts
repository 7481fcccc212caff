/** Chooses the models that are labels of metrics and parts of span names: each label is a series, and callers can invent names. */

import type { GatewayGauges } from "../index.ts";

/** The label of all other models, and of all other budgets. */
export const OTHER = "_OTHER";

/**
 * The most models with a label, beside those of the option `models`. An SDK keeps 2,000 series of a metric by default, and a model has
 * several: for each outcome and each error.
 */
const MAX_MODELS = 200;

export class ModelLabels {
  readonly #always: ReadonlySet<string>;
  /** The models that the host of each gateway has named. */
  readonly #named = new Map<GatewayGauges, ReadonlySet<string>>();
  readonly #labelled = new Set<string>();

  /** @param always The models of the option. */
  constructor(always: readonly string[] = []) {
    this.#always = new Set(always);
  }

  /** Returns a function that forgets the gateway. The labels that its models have stay. */
  addGateway(gateway: GatewayGauges): () => void {
    this.#named.set(gateway, new Set(gateway.models));
    return () => void this.#named.delete(gateway);
  }

  isNamed(model: string): boolean {
    for (const names of this.#named.values()) if (names.has(model)) return true;
    return false;
  }

  /**
   * Returns the model if it is a label: a model of the option, or one of the first `MAX_MODELS` other models that are called and that the
   * backend lists or the host has named. Returns undefined for all others.
   */
  labelOf(model: string | undefined, isListed: boolean): string | undefined {
    if (model === undefined || this.#always.has(model) || this.#labelled.has(model)) return model;
    if (this.#labelled.size === MAX_MODELS || !(isListed || this.isNamed(model))) return undefined;
    this.#labelled.add(model);
    return model;
  }
}
