/** What a host may set for models of the AI SDK's providers, and what each of it means. */

import type { JsonObject } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ModelBackend, ModelInfo } from "../../ports/model-backend.ts";

/** As much as is asked of a model before it is called; every version of the providers' interface from 2 on has it. */
interface AiSdkModel {
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

/** The models of the providers, by the names that callers use, and how they are dealt with. */
export interface AiSdkOptions {
  /** The language model of each name that callers use, or a function that makes it: then every name is let through to that. */
  readonly chat?: AiSdkModels<AiSdkChatModel>;
  /** The image model of each name; `image-model-2` stands for its aliases too. */
  readonly images?: AiSdkModels<AiSdkImageModel>;
  /** What the host says of its models beside their names, by name: their output limits above all. */
  readonly info?: Readonly<Record<string, Omit<ModelInfo, "id" | "kinds">>>;
  /** Options of the providers' own for every call, by provider, such as `{ openai: { store: false } }`; they win over the request's. */
  readonly providerOptions?: ProviderOptions;
  /** Overrides of `DEFAULT_AI_SDK_TIMEOUTS`. */
  readonly timeouts?: Partial<AiSdkTimeouts>;
  /** Refuses a request that the model cannot be asked in full (`failed_precondition`), rather than to leave a field out. */
  readonly strict?: boolean;
  /** Shows callers the provider's own words about an error. Default: false, because they may tell of the host's account. */
  readonly showUpstreamMessages?: boolean;
  /** Shows callers the provider's name of a model that they know by another. Default: false. */
  readonly showUpstreamModel?: boolean;
  /** What a client that hangs up does to its call, as of any backend. */
  readonly hangUp?: NonNullable<ModelBackend["hangUp"]>;
  /** Default: the machine's own. */
  readonly clock?: Clock;
}

/** Models by the name that callers use, or a function that finds one; undefined is a name that there is none of. */
export type AiSdkModels<Model> = Readonly<Record<string, Model>> | ((name: string) => Model | undefined);

/** Options by the name of the provider that they are for. */
export type ProviderOptions = Readonly<Record<string, JsonObject>>;

/** How long a provider may take, in milliseconds: after it, `deadline_exceeded`. */
export interface AiSdkTimeouts {
  /** Until a stream's first part. */
  readonly firstEventMs: number;
  /** Between two parts of a stream. */
  readonly betweenEventsMs: number;
  /** For a complete answer, or one call for pictures. */
  readonly completeMs: number;
}

/** What holds unless a host says otherwise. */
export const DEFAULT_AI_SDK_TIMEOUTS: AiSdkTimeouts = {
  firstEventMs: 180_000,
  betweenEventsMs: 120_000,
  completeMs: 600_000,
};
