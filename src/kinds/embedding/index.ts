/** Embeddings as a kind of generation: a vector for each input, charged by the tokens of the inputs. */

import type { EmbeddingEndpoint } from "../../formats/format.ts";
import { NO_USAGE } from "../../model/usage.ts";
import { answeringUpstream, upstreamsOf } from "../../pipeline/attempts.ts";
import { doubt } from "../../pipeline/failures.ts";
import type { Kind } from "../../pipeline/kind.ts";
import { charge } from "../chat/price.ts";
import { priceAmong } from "../other-models.ts";
import { EmbeddingMeter, estimateTokens } from "./meter.ts";
import type { EmbeddingAnswerEvent, EmbeddingEvent, EmbeddingRequest } from "./request.ts";

export const embedding: Kind<EmbeddingEndpoint, EmbeddingRequest, EmbeddingEvent, EmbeddingAnswerEvent> = {
  model: (_endpoint, { model }) => ({ name: model, aliases: [], kind: "embedding" }),

  fit: (_endpoint, request) => request,

  amounts(call, request, model) {
    const { countTokens } = call.services;
    const price = priceAmong(call.services.price, request.native);
    call.inputTokens = estimateTokens(request, countTokens, model?.maxInputTokens);
    const usage = { ...NO_USAGE, inputTokens: call.inputTokens };
    const upstreams = upstreamsOf(call, request.model, "embedding");
    const units = Math.max(
      ...(upstreams.length === 0 ? [undefined] : upstreams).map((upstream) =>
        charge(price, usage, request.model, "embedding", upstream),
      ),
    );
    return { atLeast: units, atMost: units };
  },

  afford: (_call, request) => request,

  mayRunCode: () => false,

  ask: (backend, request, context) => backend.embed?.(request, context),

  generation(call, _endpoint, request) {
    const meter = new EmbeddingMeter({
      request,
      inputTokens: call.inputTokens,
      price: priceAmong(call.services.price, request.native),
      upstream: () => answeringUpstream(call),
      doubt: (why) => doubt(call, why),
    });
    return { meter, shape: (events) => events };
  },
};
