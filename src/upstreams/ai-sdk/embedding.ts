/** Calls an embedding model of an AI SDK provider, in batches of the size that the model takes. */

import { backendFailed } from "../../errors.ts";
import { dropped, EXACT, rejected } from "../../formats/shared/conversions.ts";
import {
  type EmbeddingConversions,
  embeddingConversions,
  type EmbeddingField,
  batchesOf,
  embedded,
} from "../../formats/shared/embedding.ts";
import { TASK_TYPE } from "../../formats/shared/schema.ts";
import { EMBEDDING, type EmbeddingEvent, type EmbeddingRequest, type EmbeddingVector } from "../../model/embedding.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { Pending } from "../backend.ts";
import { reportConversions } from "../relay/chat.ts";
import { conversionsOfWarnings, type Traits, traitsOf } from "./conversions.ts";
import { decodeError, ModelCall } from "./model-call.ts";
import { type AiSdkEmbeddingModel, type ProviderOptions, rulesOf, type Settings } from "./options.ts";
import { mergedMetadata } from "./seals.ts";

/** The number of batches of one call that a model is asked for at once, if the model allows several. */
const CONCURRENCY = 4;

/** The members of an embedding model that are used. Their values and answers are not trusted. */
interface CallableEmbeddingModel {
  readonly maxEmbeddingsPerCall?: unknown;
  readonly supportsParallelCalls?: unknown;
  doEmbed(options: object): PromiseLike<unknown>;
}

interface Embedded {
  readonly vectors: readonly EmbeddingVector[];
  readonly inputTokens: number | undefined;
  readonly warnings: unknown;
  readonly fault?: { readonly error: unknown };
}

export async function* askEmbedding(
  model: AiSdkEmbeddingModel,
  request: EmbeddingRequest,
  context: CallContext,
  settings: Settings,
): AsyncGenerator<EmbeddingEvent> {
  const { strict, timeouts, providerOptions, clock } = settings;
  const callable: CallableEmbeddingModel = model;
  const call = new ModelCall(settings, context);
  try {
    call.signal.throwIfAborted();
    const traits = traitsOf(model);
    const conversions = embeddingConversions(tableOf(traits), request);
    reportConversions(conversions, context, strict);
    const { maxEmbeddingsPerCall, supportsParallelCalls } = callable;
    const [told, mayBeParallel] = await call.wait(Promise.all([maxEmbeddingsPerCall, supportsParallelCalls]));
    const most = Number.isSafeInteger(told) && Number(told) > 0 ? Number(told) : request.inputs.length;
    const options = optionsOf(traits, request, providerOptions);
    call.asks(model, { kind: EMBEDDING, stream: false, modelListed: settings.listed });
    call.exchange.enter({ name: "complete answer", limitMs: timeouts.completeMs });
    let hasReported = false;
    yield* embedded(
      batchesOf(request.inputs.length, most),
      mayBeParallel === true ? CONCURRENCY : 1,
      { signal: call.signal, reportUnread: context.reportUnread, clock },
      async ({ start, end }, abortSignal): Promise<Embedded> => {
        const values = request.inputs.slice(start, end);
        const pending = new Pending();
        abortSignal.addEventListener("abort", () => pending.fail(abortSignal.reason), { once: true });
        const answer = embeddedOf(
          await pending.of(callable.doEmbed({ ...options, values, abortSignal })),
          values.length,
        );
        // Each answer restarts the time limit: it is for one call of the model.
        call.exchange.touch();
        // All batches have the same warnings.
        if (!hasReported)
          reportConversions([...conversions, ...conversionsOfWarnings(answer.warnings)], context, strict);
        hasReported = true;
        return answer;
      },
    );
  } catch (error) {
    throw call.failed(decodeError(error, rulesOf(settings, model.modelId, request.model)));
  } finally {
    call.end();
  }
}

/** Reads the answer for one batch. An answer with a wrong number of vectors has a fault. The meter checks the numbers. */
function embeddedOf(answer: unknown, count: number): Embedded {
  const { embeddings, usage, warnings }: Partial<JsonObject> = isJsonObject(answer) ? answer : {};
  const tokens = isJsonObject(usage) ? usage["tokens"] : undefined;
  // Some providers report that they have counted nothing by NaN.
  const inputTokens = tokens == null || Number.isNaN(tokens) ? undefined : Number(tokens);
  const broken = (message: string): Embedded => ({
    vectors: [],
    inputTokens,
    warnings,
    fault: { error: backendFailed(message) },
  });
  if (!Array.isArray(embeddings) || embeddings.length !== count)
    return broken("The model backend's answer does not have a vector for each input.");
  const vectors: readonly unknown[] = embeddings;
  if (!vectors.every(isVector)) return broken("The model backend's answer has something that is no vector.");
  return { vectors, inputTokens, warnings };
}

const isVector = (value: unknown): value is EmbeddingVector =>
  Array.isArray(value) || value instanceof Float32Array || value instanceof Float64Array;

/** The fields that the options of a provider have. The interface itself has the dimensions from version 4 on. */
const SUPPORTED_BY: Readonly<Record<NonNullable<Traits["family"]>, readonly EmbeddingField[]>> = {
  anthropic: [],
  google: ["dimensions", "taskType"],
  openai: ["dimensions", "endUser"],
};

/** The rules for a model of an unknown provider. */
const CONVERSIONS: EmbeddingConversions = {
  "inputs.tokens": rejected("The interface takes texts, not lists of tokens."),
  "inputs.media": rejected("The interface takes only texts."),
  dimensions: dropped("This version of the interface cannot choose the dimensions."),
  inputDimensions: rejected("All vectors of a request have one length."),
  taskType: dropped("The use of vectors cannot be told."),
  taskTypes: dropped("All vectors of a request have one use."),
  titles: dropped("Inputs have no title."),
  endUser: dropped("The provider has no field for the end user."),
  native: dropped("Only the caller's own format has this field."),
};

function tableOf({ version, family }: Traits): EmbeddingConversions {
  const exact = [...(family ? SUPPORTED_BY[family] : []), ...(version === "v4" ? (["dimensions"] as const) : [])];
  return { ...CONVERSIONS, ...Object.fromEntries(exact.map((field) => [field, EXACT])) };
}

function optionsOf({ version, family }: Traits, request: EmbeddingRequest, own: ProviderOptions): object {
  const { dimensions, taskType, endUser } = request;
  const ofFamily: JsonObject = {};
  if (dimensions !== undefined && version !== "v4") {
    if (family === "openai") ofFamily["dimensions"] = dimensions;
    if (family === "google") ofFamily["outputDimensionality"] = dimensions;
  }
  if (taskType !== undefined && family === "google") ofFamily["taskType"] = TASK_TYPE[taskType];
  if (endUser !== undefined && family === "openai") ofFamily["user"] = endUser;
  return {
    ...(version === "v4" && dimensions !== undefined && { dimensions }),
    providerOptions: mergedMetadata(family && Object.keys(ofFamily).length > 0 ? { [family]: ofFamily } : {}, own),
  };
}
