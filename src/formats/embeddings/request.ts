/** Converts the embeddings request to the neutral request, and back for an upstream. */

import { assertValid } from "../../http/validation.ts";
import type { WireObject } from "../../kinds/chat/request.ts";
import { type EmbeddingRequest, MAX_INPUTS } from "../../kinds/embedding/request.ts";
import type { Conversion } from "../../model/conversion.ts";
import type { JsonObject } from "../../model/json.ts";
import type { EncodedRequest } from "../format.ts";
import { dropped, EXACT, rejected } from "../shared/conversions.ts";
import { type EmbeddingConversions, embeddingConversions } from "../shared/embedding.ts";
import { EmbeddingsRequest, FORMAT, unsupportedIn } from "./schema.ts";

/** Decodes a request. Unknown fields stay in `native`. Throws `invalid_request` with the path of the first wrong field. */
export function decodeRequest(body: unknown): EmbeddingRequest {
  assertValid(EmbeddingsRequest, body);
  const { model, input, dimensions, user } = body;
  const isOne = typeof input === "string" || typeof input[0] === "number";
  return {
    model,
    inputs: (isOne ? [input] : input) as EmbeddingRequest["inputs"],
    ...(dimensions != null && { dimensions }),
    ...(user != null && { endUser: user }),
    native: { format: FORMAT, body, betas: [], unsupported: () => unsupportedIn(body) },
  };
}

/** The conversion of each field of a request for an upstream of this format. */
export const CONVERSIONS: EmbeddingConversions = {
  "inputs.tokens": EXACT,
  "inputs.media": rejected("Only texts and tokens can be embedded."),
  dimensions: EXACT,
  inputDimensions: rejected("All vectors of a request have one length."),
  taskType: dropped("The use of vectors cannot be told."),
  taskTypes: dropped("The use of vectors cannot be told."),
  titles: dropped("Inputs have no title."),
  endUser: EXACT,
  native: dropped("Only the caller's own format has this field."),
};

const isOurs = ({ native }: EmbeddingRequest): boolean => native?.format === FORMAT;

export const conversionsOf = (request: EmbeddingRequest): Conversion[] =>
  isOurs(request) ? [] : embeddingConversions(CONVERSIONS, request);

/** Tells whether the answer is requested in base64, as official clients do: it is smaller, and faster to read. */
const asksForBase64 = (request: EmbeddingRequest): boolean =>
  !isOurs(request) || request.native?.body["encoding_format"] === "base64";

/** The most inputs of a request for an answer of plain numbers, so that the answer keeps within the relay's limits. */
const MAX_INPUTS_AS_NUMBERS = 512;

export const maxInputs = (request: EmbeddingRequest): number =>
  asksForBase64(request) ? MAX_INPUTS : MAX_INPUTS_AS_NUMBERS;

/** Encodes the inputs from `start` up to `end`. A request of this format keeps its unknown fields and its encoding. */
export function encodeRequest(
  request: EmbeddingRequest,
  start: number,
  end: number,
): Omit<EncodedRequest, "conversions"> {
  const { model, inputs, dimensions, endUser, native } = request;
  const body = isOurs(request)
    ? { ...native?.body, model, ...(inputs.length > 1 && { input: inputs.slice(start, end) }) }
    : {
        model,
        input: inputs.slice(start, end),
        ...(dimensions !== undefined && { dimensions }),
        encoding_format: "base64",
        ...(endUser !== undefined && { user: endUser }),
      };
  // The cast is safe: the body is the caller's own JSON, or is built from texts and numbers.
  return { path: "/embeddings", headers: {}, body: body as WireObject as JsonObject };
}
