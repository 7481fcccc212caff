/** What becomes of a field that crosses from one wire format into another. */

/**
 * `exact`: it means the same there. `approximated`: the nearest that the other format can say. `emulated`: the gateway does what the
 * other format cannot. `dropped`: it is left out, which the caller and the observer are told. `rejected`: the request is refused.
 */
export type Fate = "exact" | "approximated" | "emulated" | "dropped" | "rejected";

/** What became of one field of one request. */
export interface FieldFate {
  /** The field's name in the neutral request, as keys with dots between: `tools.provider`, `topK`. */
  readonly field: string;
  readonly fate: Exclude<Fate, "exact">;
  /** A short sentence on why. */
  readonly why: string;
}
