/** The models of Amazon Bedrock by their makers, and the fields beside Converse's own that each takes. */

import { isClaude } from "../../formats/shared/claude.ts";
import type { ReasoningControl, ReasoningEffort } from "../../model/chat-request.ts";
import type { JsonObject } from "../../model/json.ts";

export const FORMAT = "bedrock-converse";

/** The fields and values that a model accepts. A request with any other field fails. */
export interface ModelFamily {
  readonly isClaude: boolean;
  /** The control of the reasoning, unless the host names another. */
  readonly control: ReasoningControl;
  /** The efforts that the model knows, from least to most. */
  readonly efforts: readonly ReasoningEffort[];
  /** Makes the fields for an effort. `none` turns the reasoning off. */
  readonly effortFields: (effort: ReasoningEffort | "none") => JsonObject;
  /** The effort for a request that names none. Missing for a model that then chooses itself. */
  readonly usualEffort?: ReasoningEffort;
  /** True when the reasoning can be turned off by `none`. */
  readonly hasNoEffort: boolean;
  /** Makes the fields for `topK`. Missing for a model without it. */
  readonly topK?: (topK: number) => JsonObject;
  /** True for a model that takes a temperature and `topP`. */
  readonly isSampled: boolean;
  readonly maxStopSequences: number;
  /** The places of marks for the prompt cache: everywhere, everywhere except behind tools, or nowhere. */
  readonly cacheMarks: "all" | "prompt" | "none";
  /** True for a model that holds its answers and its arguments to a schema. */
  readonly isStructured: boolean;
}

const flatEffort = (effort: string): JsonObject => ({ reasoning_effort: effort });

const OTHER: ModelFamily = {
  isClaude: false,
  control: "none",
  efforts: ["low", "medium", "high"],
  effortFields: flatEffort,
  hasNoEffort: false,
  isSampled: true,
  maxStopSequences: 4,
  cacheMarks: "none",
  isStructured: true,
};

/** Reasoning and sampling of Claude are fitted by the rules of the messages format. */
const CLAUDE: ModelFamily = {
  ...OTHER,
  isClaude: true,
  topK: (topK) => ({ top_k: topK }),
  maxStopSequences: 1_000,
  cacheMarks: "all",
  isStructured: false,
};

const NOVA: ModelFamily = {
  ...OTHER,
  topK: (topK) => ({ inferenceConfig: { topK } }),
  cacheMarks: "prompt",
  isStructured: false,
};

/** The families by a part of the model's name. The first that matches counts. */
const FAMILIES: readonly (readonly [name: RegExp, family: ModelFamily])[] = [
  // Claude 4.5 and 4.6. Bedrock refuses schemas for the models after them.
  [/claude-(?:[a-z]+-)?4[.-][56](?!\d)/, { ...CLAUDE, isStructured: true }],
  [/claude-/, CLAUDE],
  [
    /amazon\.nova-2-/,
    {
      ...NOVA,
      control: "effort",
      // With `high`, the model takes no output limit.
      efforts: ["low", "medium"],
      effortFields: (effort) =>
        effort === "none" ? {} : { reasoningConfig: { type: "enabled", maxReasoningEffort: effort } },
      usualEffort: "medium",
      hasNoEffort: true,
    },
  ],
  [/amazon\.nova-/, NOVA],
  [/openai\.gpt-oss/, { ...OTHER, control: "effort", maxStopSequences: 0 }],
  [
    /openai\./,
    {
      ...OTHER,
      control: "effort",
      efforts: ["low", "medium", "high", "xhigh", "max"],
      effortFields: (effort) => ({ reasoning: { effort } }),
      hasNoEffort: true,
      isSampled: false,
      maxStopSequences: 0,
    },
  ],
  [/mistral\./, { ...OTHER, topK: (topK) => ({ top_k: topK }) }],
  [/cohere\./, { ...OTHER, topK: (topK) => ({ k: topK }), isStructured: false }],
  [/(?:ai21|amazon|meta|writer)\./, { ...OTHER, isStructured: false }],
];

/** Returns what a model takes, by its id, inference profile or ARN. The ARN of an application's own profile names no model. */
export function familyOf(model: string): ModelFamily {
  const name = model.toLowerCase();
  return FAMILIES.find(([pattern]) => pattern.test(name))?.[1] ?? OTHER;
}

/** Tells whether a model is Mistral's: its calls have short ids of their own. */
export const isMistral = (model: string): boolean => model.toLowerCase().includes("mistral.");

const COMPANIES =
  "(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshotai|moonshot|nvidia|openai|qwen|writer|xai|zai)";
const COMPANY = new RegExp(String.raw`(?:^|[./])${COMPANIES}\.`);

/** Returns the maker of a model's signatures and encrypted reasoning: only models of the same company accept them. */
export function makerOf(model: string): string {
  const company = COMPANY.exec(model.toLowerCase())?.[1];
  return company === undefined ? FORMAT : `${FORMAT}.${company}`;
}

/** Matches what the name of an inference profile has before the name of its model. */
const PROFILE = new RegExp(String.raw`^(?:arn:[^/]*:inference-profile\/)?[a-z-]+\.(?=${COMPANIES}\.)`);

/** Returns the model of an inference profile: Bedrock counts tokens for models alone. Returns any other name as it is. */
export const modelBehind = (name: string): string => name.replace(PROFILE, "");

/** Tells whether a model accepts a signature. Claude's are the same in the messages format and here. */
export const acceptsSignature = (model: string, { maker }: { readonly maker?: string }): boolean =>
  maker === undefined || maker === makerOf(model) || (maker === "messages" && isClaude(model));

const ORDER: readonly ReasoningEffort[] = ["minimal", "low", "medium", "high", "xhigh", "max"];

/** Returns the highest effort that a model knows up to the wanted one; else its lowest. */
export function nearestEffort(effort: ReasoningEffort, { efforts }: Pick<ModelFamily, "efforts">): ReasoningEffort {
  const most = ORDER.indexOf(effort);
  // Each family knows an effort at least.
  return efforts.findLast((known) => ORDER.indexOf(known) <= most) ?? (efforts[0] as ReasoningEffort);
}
