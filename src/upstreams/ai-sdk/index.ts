/** aiSdk: the models of any AI SDK provider as a backend. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { GatewayError } from "../../errors.ts";
import { saidModel } from "../../kinds/image/request.ts";
import { assertOptions } from "../../options.ts";
import type { ModelKind } from "../../ports/call.ts";
import type { ModelBackend, ModelInfo } from "../../ports/model-backend.ts";
import { askChat } from "./chat.ts";
import { askEmbedding } from "./embedding.ts";
import { askImage } from "./image.ts";
import { AI_SDK_SHAPES, type AiSdkModel, type AiSdkModels, type AiSdkOptions, settingsOf } from "./options.ts";

export {
  type AiSdkChatModel,
  type AiSdkEmbeddingModel,
  type AiSdkImageModel,
  type AiSdkLimits,
  type AiSdkModels,
  type AiSdkOptions,
  type AiSdkTimeouts,
  DEFAULT_AI_SDK_LIMITS,
  DEFAULT_AI_SDK_TIMEOUTS,
  type ProviderOptions,
} from "./options.ts";

/**
 * Makes a backend from models of the AI SDK's providers. The backend calls the providers' published interface (`@ai-sdk/provider`,
 * versions 2 to 4), so neither the `ai` package nor its server is needed. Metadata that a provider adds to its answer, such as
 * signatures of reasoning, reaches callers as signatures and returns to the provider with the next turn. The headers
 * `polygate-dropped` and `polygate-approximated` name the fields that a model does not support, including the fields in its own
 * warnings. Throws a TypeError for wrong options, and a RangeError for a wrong time or limit.
 *
 * @example
 * const backend = aiSdk({ chat: { sonnet: anthropic("claude-sonnet-4-5") }, images: { "image-model-multi": openai.image("gpt-image-1") } });
 */
export function aiSdk(options: AiSdkOptions): ModelBackend {
  assertOptions<AiSdkOptions>("aiSdk", options, AI_SDK_SHAPES);
  const { chat, images, embeddings, hangUp } = options;
  const settings = settingsOf(options);
  if (!chat && !images && !embeddings)
    throw new TypeError("aiSdk: there is neither a chat model nor an image model nor an embedding model.");
  for (const models of [chat, images, embeddings])
    if (typeof models === "object") for (const [name, model] of Object.entries(models)) assertModel(name, model);
  const list = listOf(options);
  return {
    takesUnknown: true,
    ...(hangUp && { hangUp }),
    upstreamsOf(name, kind) {
      const models: AiSdkModels<AiSdkModel> | undefined = { chat, image: images, embedding: embeddings }[kind];
      if (!models) return [];
      const { provider, modelId } = find(models, name);
      return [{ name: provider, model: modelId }];
    },
    ...(list && { models: () => list }),
    ...(chat && { chat: (request, call) => askChat(find(chat, request.model), request, call, settings) }),
    ...(images && {
      image: (request, call) => askImage(find(images, request.model, saidModel(request)), request, call, settings),
    }),
    ...(embeddings && {
      embed: (request, call) => askEmbedding(find(embeddings, request.model), request, call, settings),
    }),
  };
}

/**
 * Finds a model by the gateway's name, or else by the alias that the caller used. Throws `model_not_found` when there is none, and a
 * TypeError for a value that is not a model.
 */
function find<Model extends AiSdkModel>(models: AiSdkModels<Model>, name: string, alias = name): Model {
  for (const known of [name, alias]) {
    const model = typeof models === "function" ? models(known) : Object.hasOwn(models, known) && models[known];
    if (model === undefined || model === false) continue;
    assertModel(known, model);
    return model;
  }
  throw new GatewayError("model_not_found", `There is no model "${name}".`, { path: ["model"] });
}

const VERSIONS: ReadonlySet<unknown> = new Set(["v2", "v3", "v4"]);

function assertModel(name: string, model: AiSdkModel | null): void {
  const { specificationVersion, provider }: Partial<AiSdkModel> = model ?? {};
  if (!VERSIONS.has(specificationVersion) || typeof provider !== "string")
    throw new TypeError(`aiSdk: the model ${JSON.stringify(name)} is none of a provider of the versions 2 to 4.`);
}

/** Lists the models. Returns undefined when a function finds the models, because they cannot be listed then. */
function listOf({
  chat = {},
  images = {},
  embeddings = {},
  info = {},
}: AiSdkOptions): readonly ModelInfo[] | undefined {
  if ([chat, images, embeddings].some((models) => typeof models === "function")) return undefined;
  return [...new Set([chat, images, embeddings].flatMap((models) => Object.keys(models)))].map((id) => {
    const kinds: ModelKind[] = [];
    if (Object.hasOwn(chat, id)) kinds.push("chat");
    if (Object.hasOwn(images, id)) kinds.push("image");
    if (Object.hasOwn(embeddings, id)) kinds.push("embedding");
    return { ...info[id], id, kinds };
  });
}
