/** The conversion of a field from one wire format to another. */

/**
 * `exact`: the field means the same. `approximated`: the other format has only something similar. `emulated`: the gateway does what the
 * other format cannot. `dropped`: the field is left out, and the caller and the observer are told. `rejected`: the request is refused.
 */
export type ConversionKind = "exact" | "approximated" | "emulated" | "dropped" | "rejected";

/** The conversion of one field of one request or answer. */
export interface Conversion {
  /** The field's name in the neutral request or answer, as keys with dots between: `tools.provider`, `topK`. */
  readonly field: string;
  readonly conversion: Exclude<ConversionKind, "exact">;
  /** A short sentence on the reason. */
  readonly why: string;
}
