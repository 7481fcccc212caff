/** Relays pictures: the request in the images format, what the upstream draws as bytes. */

import { imagesCodec } from "../../dialects/images/codec.ts";
import type { EncodedRequest } from "../../dialects/images/request.encode.ts";
import type { ToldEvent, ToldPicture } from "../../dialects/images/response.decode.ts";
import { encodeForm } from "../../http/form-body.ts";
import type { ImageEvent, ImageRequest } from "../../model/image.ts";
import type { CallContext, ModelBackend, ModelInfo } from "../../ports/model-backend.ts";
import { type Answer, CompleteAnswer, StreamedAnswer } from "./answer.ts";
import { EVENT_STREAM, isOfType, JSON_TYPE } from "./content-type.ts";
import { Exchange, LEFT } from "./exchange.ts";
import { observed } from "./observe.ts";
import type { RelayBackend, RelayOptions } from "./options.ts";
import { Pictures } from "./pictures.ts";
import type { UpstreamResponse } from "./transport.ts";
import { type Sent, Upstream } from "./upstream.ts";

export class ImageRelay implements RelayBackend {
  readonly models?: () => readonly ModelInfo[];
  readonly hangUp?: NonNullable<ModelBackend["hangUp"]>;
  readonly #upstream: Upstream;
  readonly #pictures: Pictures;

  constructor(options: RelayOptions) {
    this.#upstream = new Upstream(options);
    this.#pictures = new Pictures(this.#upstream, options.imageOrigins ?? []);
    const { list } = this.#upstream.names;
    if (list) this.models = () => list;
    if (options.hangUp) this.hangUp = options.hangUp;
  }

  async *image(request: ImageRequest, call: CallContext): AsyncGenerator<ImageEvent> {
    const { names, clock, failures } = this.#upstream;
    const model = names.upstreamName(...imagesCodec.modelNames(request));
    const encoded = imagesCodec.encodeRequest(request, model);
    const exchange = new Exchange(clock, call.signal);
    const watch = observed(this.#upstream, { format: "images", model, stream: encoded.stream }, call);
    try {
      const sent = sentAs(encoded);
      const response = await (watch?.send(sent, exchange) ?? this.#upstream.send(sent, exchange));
      if (response.status < 200 || response.status > 299)
        throw await failures.ofResponse(response, imagesCodec, exchange);
      const answer = this.#answer(response, request, encoded.stream, exchange);
      if (!answer) throw await failures.ofWrongType(response, exchange);
      for (let told = await answer.next(); told; told = await answer.next())
        for (const event of told) {
          watch?.began();
          yield event.type === "picture" ? await this.#drawn(event, call.signal) : event;
          // Time that a picture took to be fetched is none that the upstream was silent for.
          exchange.touch();
        }
      exchange.end();
    } catch (error) {
      const told = failures.told(error);
      watch?.failed(told);
      throw told;
    } finally {
      // Lets go of a connection whose answer is not read to its end: the caller left, or it was none.
      exchange.cut(LEFT);
      watch?.end(call.signal);
    }
  }

  close(): Promise<void> {
    return this.#upstream.close();
  }

  /** A stream may be answered complete: some upstreams do not stream at all. Undefined for a body of another type. */
  #answer(
    response: UpstreamResponse,
    request: ImageRequest,
    stream: boolean,
    exchange: Exchange,
  ): Answer<ToldEvent> | undefined {
    const { json, limits, timeouts } = this.#upstream;
    let left = request.count;
    const isFinish = ({ type }: ToldEvent): boolean => type === "picture" && --left === 0;
    const source = {
      response,
      decoder: imagesCodec.answerDecoder(request, json),
      isFinish,
      exchange,
      timeouts,
      limits,
    };
    if (stream && isOfType(response, EVENT_STREAM)) return new StreamedAnswer(source);
    return isOfType(response, JSON_TYPE) ? new CompleteAnswer(source) : undefined;
  }

  async #drawn(told: ToldPicture, signal: AbortSignal): Promise<ImageEvent> {
    const picture =
      "picture" in told ? told.picture : imagesCodec.decodePicture(await this.#pictures.fetch(told.url, signal));
    const { revisedPrompt } = told;
    return { type: "image", ...picture, ...(revisedPrompt !== undefined && { revisedPrompt }) };
  }
}

function sentAs({ path, body, stream }: EncodedRequest): Sent {
  if (body.type === "json") return { path, headers: {}, body: JSON.stringify(body.fields), stream };
  const { contentType, bytes } = encodeForm(body.parts);
  return { path, headers: { "content-type": contentType }, body: bytes, stream };
}
