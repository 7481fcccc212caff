/** The images format in the direction of an upstream: requests are encoded, answers and errors decoded (spec 2.1 to 2.4, 7.4). */

import type { GatewayError } from "../../errors.ts";
import type { ImageRequest } from "../../model/image.ts";
import type { JsonLimits } from "../../model/json.ts";
import type { AnswerDecoder } from "../codec.ts";
import { decodeError } from "./errors.ts";
import { type EncodedRequest, encodeRequest, modelNames } from "./request.encode.ts";
import { AnswerDecoder as ImageAnswerDecoder, decodePicture, type Picture, type ToldEvent } from "./response.decode.ts";

export interface ImageCodec {
  /** The names by which an upstream may know the model of a request, best first. */
  modelNames(request: ImageRequest): readonly [string, ...string[]];
  /** The request as the upstream takes it, for the model of this name. */
  encodeRequest(request: ImageRequest, model: string): EncodedRequest;
  answerDecoder(request: ImageRequest, limits?: JsonLimits): AnswerDecoder<ToldEvent>;
  /** What fetched bytes are. Throws `backend_failed` for what is no picture. */
  decodePicture(bytes: Uint8Array): Picture;
  /** The error that an upstream told of, by status, headers and body. Its own message stays in `cause`. */
  decodeError(status: number, headers: Headers, body: unknown): GatewayError;
}

export const imagesCodec: ImageCodec = {
  modelNames,
  encodeRequest,
  answerDecoder: ({ count }, limits) => new ImageAnswerDecoder(count, limits),
  decodePicture,
  decodeError,
};
