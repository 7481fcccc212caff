/** The options of a backend of AI SDK models. */

import type { ReasoningControl } from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";
import { type Check, CLOCK, fieldsOf, mapOf, type Shapes, FROM_ZERO, overridden } from "../../options.ts";
import { type Clock, systemClock } from "../../ports/clock.ts";
import { type HangUp, MODEL_SHAPES, type ModelInfo } from "../../ports/model-backend.ts";
import { type FailureNotes, HANG_UP_BY_MODEL } from "../backend.ts";
import { CountedFailures } from "../errors-in-row.ts";
import type { MessageRules } from "../messages.ts";
import { TurnMemory, type TurnMemoryLimits } from "../turn-memory.ts";

/** The properties of a model that are read before it is called. Versions 2 to 4 of the providers' interface have them. */
export interface AiSdkModel {
  readonly specificationVersion: "v2" | "v3" | "v4";
  /** Such as `anthropic.messages`. */
  readonly provider: string;
  readonly modelId: string;
}

/** A language model of an AI SDK provider (`LanguageModelV2`, `V3` or `V4`): `anthropic("claude-sonnet-4-5")`. */
export interface AiSdkChatModel extends AiSdkModel {
  readonly supportedUrls: unknown;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<unknown>;
}

/** An image model of an AI SDK provider (`ImageModelV2`, `V3` or `V4`): `openai.image("gpt-image-1")`. */
export interface AiSdkImageModel extends AiSdkModel {
  readonly maxImagesPerCall: unknown;
  doGenerate(options: never): PromiseLike<unknown>;
}

/** An embedding model of an AI SDK provider (`EmbeddingModelV2`, `V3` or `V4`): `openai.embedding("text-embedding-3-small")`. */
export interface AiSdkEmbeddingModel extends AiSdkModel {
  readonly maxEmbeddingsPerCall: unknown;
  readonly supportsParallelCalls: unknown;
  doEmbed(options: never): PromiseLike<unknown>;
}

/** The providers' models under the names that callers use, and the rules for calling them. */
export interface AiSdkOptions {
  /** The language model for each name, or a function that makes it. A function is asked for every name. */
  readonly chat?: AiSdkModels<AiSdkChatModel>;
  /** The image model for each name. The entry `image-model-2` also serves the aliases of that name. */
  readonly images?: AiSdkModels<AiSdkImageModel>;
  /** The embedding model for each name. */
  readonly embeddings?: AiSdkModels<AiSdkEmbeddingModel>;
  /** Further facts about each model by its name, such as its output limit. */
  readonly info?: Readonly<Record<string, Omit<ModelInfo, "id" | "kinds">>>;
  /**
   * The providers' own options for every call, such as `{ openai: { store: false } }`. They replace options that are made from the
   * request.
   */
  readonly providerOptions?: ProviderOptions;
  /**
   * Returns how a request controls the reasoning of a model, by the provider's name of the model: `none`, `budget`, `effort` or `any`.
   * Reasoning that the caller asks for in another way is converted. Default: by the names of Claude's models; for other names, the provider decides.
   */
  readonly reasoning?: (model: string) => ReasoningControl | undefined;
  /** The treatment of earlier reasoning that another provider has made: it is left out, or sent as text. Default: `drop`. */
  readonly foreignReasoning?: "drop" | "text";
  /** Overrides of `DEFAULT_AI_SDK_TIMEOUTS`. */
  readonly timeouts?: Partial<AiSdkTimeouts>;
  /** Overrides of `DEFAULT_AI_SDK_LIMITS`. */
  readonly limits?: Partial<AiSdkLimits>;
  /** Refuses a request with `failed_precondition` if a field would be approximated or dropped. Default: false. */
  readonly strict?: boolean;
  /**
   * Shows callers all error messages of the provider but those of a 401 or 403 (true), or none (false). A message may contain details of
   * the host's account. Default: messages about the caller's request (statuses 400, 404, 413, 422), without addresses, account names and
   * secrets.
   */
  readonly showUpstreamMessages?: boolean;
  /** Shows callers the provider's name of a model that they call by another name. Default: false. */
  readonly showUpstreamModel?: boolean;
  /**
   * The end of a call after its client has disconnected: `cancel` (default) cuts it at once, and `{ drainMs }` lets the upstream go on for so
   * many milliseconds, to learn its exact counts. A function chooses by the requested model.
   */
  readonly hangUp?: HangUp | ((model: string) => HangUp);
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

/** Checks the models of one kind. Each model is checked where its name can be told. */
const assertModels: Check = (path, models) => typeof models === "function" || mapOf("any")(path, models);

const { id: _id, kinds: _kinds, ...INFO_SHAPES } = MODEL_SHAPES;

export const AI_SDK_SHAPES: Shapes<AiSdkOptions> = {
  chat: { optional: assertModels },
  images: { optional: assertModels },
  embeddings: { optional: assertModels },
  info: { optional: mapOf(fieldsOf<Omit<ModelInfo, "id" | "kinds">>(INFO_SHAPES)) },
  providerOptions: { optional: mapOf("object") },
  reasoning: "function?",
  foreignReasoning: { optional: ["drop", "text"] },
  timeouts: "object?",
  limits: "object?",
  strict: "boolean?",
  showUpstreamMessages: "boolean?",
  showUpstreamModel: "boolean?",
  hangUp: HANG_UP_BY_MODEL,
  clock: CLOCK,
};

/** Models by the names that callers use, or a function that finds a model. The function returns undefined for an unknown name. */
export type AiSdkModels<Model> = Readonly<Record<string, Model>> | ((name: string) => Model | undefined);

/** Options by the name of their provider. */
export type ProviderOptions = Readonly<Record<string, JsonObject>>;

/** Time limits of a provider, in milliseconds. A call beyond a limit fails with `deadline_exceeded`. */
export interface AiSdkTimeouts {
  /** The time until a stream's first part. */
  readonly firstEventMs: number;
  /** Between two parts of a stream. */
  readonly betweenEventsMs: number;
  /** For a complete answer, or one call for pictures or vectors. */
  readonly completeMs: number;
}

/** The default time limits. */
export const DEFAULT_AI_SDK_TIMEOUTS: AiSdkTimeouts = {
  firstEventMs: 180_000,
  betweenEventsMs: 120_000,
  completeMs: 600_000,
};

/** The limits of the memory of earlier answers. */
export interface AiSdkLimits extends TurnMemoryLimits {}

/** The default limits. */
export const DEFAULT_AI_SDK_LIMITS: AiSdkLimits = {
  maxRememberedChars: 32 * 1024 ** 2,
  rememberedMs: 6 * 60 * 60_000,
};

/** The options of every call, with their defaults. */
export interface Settings extends Pick<AiSdkOptions, "reasoning" | "foreignReasoning"> {
  readonly providerOptions: ProviderOptions;
  readonly timeouts: AiSdkTimeouts;
  readonly strict: boolean;
  readonly showMessages: boolean | undefined;
  readonly showModel: boolean;
  readonly clock: Clock;
  /** True when the host has named all models, false when a function finds them. */
  readonly listed: boolean;
  /** The signatures and the reasoning of earlier answers, for clients that do not send them back. */
  readonly memory: TurnMemory;
  /** The failures of the providers, for the status. */
  readonly lastFailures: FailureNotes;
}

/** Throws a TypeError for a wrong option, and a RangeError for a wrong time or limit. */
export function settingsOf(options: AiSdkOptions): Settings {
  const { clock = systemClock } = options;
  const limits = overridden("aiSdk: limits", DEFAULT_AI_SDK_LIMITS, options.limits, {
    maxRememberedChars: FROM_ZERO,
    rememberedMs: FROM_ZERO,
  });
  return {
    ...(options.reasoning && { reasoning: options.reasoning }),
    ...(options.foreignReasoning && { foreignReasoning: options.foreignReasoning }),
    providerOptions: options.providerOptions ?? {},
    timeouts: overridden("aiSdk: timeouts", DEFAULT_AI_SDK_TIMEOUTS, options.timeouts),
    strict: options.strict ?? false,
    showMessages: options.showUpstreamMessages,
    showModel: options.showUpstreamModel ?? false,
    clock,
    listed: ![options.chat, options.images, options.embeddings].some((models) => typeof models === "function"),
    memory: new TurnMemory(limits, clock),
    lastFailures: new CountedFailures(),
  };
}

/** Returns the rules for error messages. They name the model as the caller does, unless the host shows the provider's name. */
export const rulesOf = ({ showMessages, showModel }: Settings, from: string, to: string): MessageRules => ({
  show: showMessages,
  rename: showModel || from === to ? undefined : { from, to },
});
