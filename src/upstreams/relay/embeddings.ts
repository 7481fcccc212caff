/** Relays embedding calls: sends the inputs in batches, and yields the vectors in the order of the inputs. */

import type { EmbeddingAnswer, EmbeddingCodec } from "../../formats/format.ts";
import { upstreamFailed } from "../../formats/shared/upstream.ts";
import type { EmbeddingRequest } from "../../kinds/embedding/request.ts";
import { overridden } from "../../options.ts";
import type { CallContext, ModelBackend } from "../../ports/model-backend.ts";
import { type Batch, batchesOf, embedded } from "../batches.ts";
import { type RelayedCall, relayed } from "./call.ts";
import { reportConversions } from "./chat.ts";
import type { UpstreamOptions } from "./options.ts";
import type { Upstream } from "./upstream.ts";

/** The number of batches of one call that are asked for at once, by default. */
const CONCURRENCY = 4;

/** The function of a relay to an upstream that embeds. */
export type EmbeddingRelay = Required<Pick<ModelBackend, "embed">>;

/** Throws a RangeError for a wrong number in `options.embeddings`. */
export function embeddingRelay(upstream: Upstream, options: UpstreamOptions, codec: EmbeddingCodec): EmbeddingRelay {
  const { strict = false, embeddings = {} } = options;
  // The default of `maxInputs` depends on the request, so only its own value is checked here.
  const { concurrency, maxInputs } = overridden(
    "relay: embeddings",
    { concurrency: CONCURRENCY, maxInputs: Number.MAX_SAFE_INTEGER },
    embeddings,
  );
  const most = (request: EmbeddingRequest): number =>
    embeddings.maxInputs === undefined ? codec.maxInputs(request) : maxInputs;
  return {
    async *embed(request, context) {
      const asked = { ...request, model: upstream.modelName(request.model) };
      reportConversions(codec.conversionsOf(asked), context, strict);
      const batches = batchesOf(request.inputs.length, most(asked));
      const { signal, observeUpstream } = context;
      yield* embedded(batches, concurrency, { signal, clock: upstream.clock }, (batch, signal) =>
        relayedBatch(upstream, codec, asked, request.model, batch, { signal, observeUpstream }),
      );
    },
  };
}

async function relayedBatch(
  upstream: Upstream,
  codec: EmbeddingCodec,
  request: EmbeddingRequest,
  callerModel: string,
  { start, end }: Batch,
  context: Pick<CallContext, "signal" | "observeUpstream">,
): Promise<EmbeddingAnswer> {
  const call = (): RelayedCall<EmbeddingAnswer, EmbeddingAnswer> => {
    const { body, path, headers } = codec.encodeRequest(request, start, end);
    return {
      kind: "embedding",
      model: request.model,
      callerModel,
      path,
      headers,
      body: JSON.stringify(body),
      stream: false,
      codec,
      decoder: { answer: (text) => [codec.decodeAnswer(text, end - start, upstream.json)] },
      handOn(answers, _exchange, observation) {
        for (const { model, inputTokens } of answers) observation?.onUsage(model, inputTokens);
        return answers;
      },
    };
  };
  let answer: EmbeddingAnswer | undefined;
  for await (const decoded of relayed(upstream, context, call)) answer = decoded;
  if (answer) return answer;
  throw upstreamFailed("The model backend's answer is empty.");
}
