/** polygate/backends/ai-sdk: the models of any AI SDK provider as a backend. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { GatewayError } from "../../errors.ts";
import { CHAT, type ChatRequest } from "../../model/chat-request.ts";
import { EMBEDDING, type EmbeddingRequest } from "../../model/embedding.ts";
import { IMAGE, type ImageRequest, saidModel } from "../../model/image.ts";
import { assertOptions } from "../../options.ts";
import type { ModelKind } from "../../ports/call-info.ts";
import { type CallContext, type ModelBackend, type ModelInfo, VERB_OF } from "../../ports/model-backend.ts";
import { askChat } from "./chat.ts";
import { askEmbedding } from "./embedding.ts";
import { askImage } from "./image.ts";
import {
  AI_SDK_SHAPES,
  type AiSdkChatModel,
  type AiSdkEmbeddingModel,
  type AiSdkImageModel,
  type AiSdkModel,
  type AiSdkModels,
  type AiSdkOptions,
  type Settings,
  settingsOf,
} from "./options.ts";

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
 * const backend = aiSdk({
 *   chat: { sonnet: anthropic("claude-sonnet-4-5") },
 *   images: { "image-model-multi": openai.image("gpt-image-1") },
 * });
 */
export function aiSdk(options: AiSdkOptions): ModelBackend {
  assertOptions<AiSdkOptions>("aiSdk", options, AI_SDK_SHAPES);
  const { hangUp } = options;
  const settings = settingsOf(options);
  const offered = new Map(
    Object.entries<OfferedKind>(kindsOf(options)).filter(([, { models }]) => models !== undefined),
  );
  if (offered.size === 0)
    throw new TypeError("aiSdk: there is neither a chat model nor an image model nor an embedding model.");
  for (const { models } of offered.values())
    if (typeof models === "object") for (const [name, model] of Object.entries(models)) assertModel(name, model);
  const list = listOf(offered, options.info);
  const providers = [...offered.values()].flatMap(({ models = {} }) =>
    typeof models === "function" ? [] : Object.values(models).map(({ provider }) => provider),
  );
  const verbs = Array.from(offered, ([kind, one]) => [
    VERB_OF[kind as ModelKind],
    (request: ModelRequest, call: CallContext): AsyncIterable<unknown> =>
      one.ask(find(one.models ?? {}, request.model, one.said?.(request)), request, call, settings),
  ]);
  return {
    takesUnknown: true,
    ...(hangUp && { hangUp }),
    upstreamsOf(name, kind) {
      const { models } = offered.get(kind) ?? {};
      if (!models) return [];
      const { provider, modelId } = find(models, name);
      return [{ name: provider, model: modelId }];
    },
    ...(list && { models: () => list }),
    status: () => settings.lastFailures.status(providers),
    ...Object.fromEntries(verbs),
  };
}

interface ModelRequest {
  readonly model: string;
}

/** The models of one kind, and the function that asks one of them. */
interface OfferedKind<Model extends AiSdkModel = AiSdkModel, Request extends ModelRequest = ModelRequest> {
  readonly models: AiSdkModels<Model> | undefined;
  ask(model: Model, request: Request, call: CallContext, settings: Settings): AsyncIterable<unknown>;
  /** Returns the name that the caller used for the model, perhaps an alias. */
  said?(request: Request): string | undefined;
}

/** Returns the models of each kind. A new kind has a row here. */
const kindsOf = ({ chat, images, embeddings }: AiSdkOptions): Readonly<Record<ModelKind, OfferedKind>> => {
  const ofChat: OfferedKind<AiSdkChatModel, ChatRequest> = { models: chat, ask: askChat };
  const ofImages: OfferedKind<AiSdkImageModel, ImageRequest> = { models: images, ask: askImage, said: saidModel };
  const ofEmbeddings: OfferedKind<AiSdkEmbeddingModel, EmbeddingRequest> = { models: embeddings, ask: askEmbedding };
  return { [CHAT]: ofChat, [IMAGE]: ofImages, [EMBEDDING]: ofEmbeddings };
};

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
function listOf(
  offered: ReadonlyMap<string, OfferedKind>,
  info: AiSdkOptions["info"] = {},
): readonly ModelInfo[] | undefined {
  const kindsById = new Map<string, ModelKind[]>();
  for (const [kind, { models = {} }] of offered) {
    if (typeof models === "function") return undefined;
    for (const id of Object.keys(models)) kindsById.set(id, [...(kindsById.get(id) ?? []), kind as ModelKind]);
  }
  return Array.from(kindsById, ([id, kinds]) => ({ ...info[id], id, kinds }));
}
