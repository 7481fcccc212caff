/** What is known of a model before it is asked: its interface's version, its provider, and which addresses it fetches by itself. */

import type { FatedField } from "../../dialects/shared/fates.ts";
import type { AiSdkChatModel } from "./options.ts";

export interface Traits {
  readonly version: AiSdkChatModel["specificationVersion"];
  /** Such as `anthropic.messages`. */
  readonly provider: string;
  readonly isAnthropic: boolean;
  readonly isGoogle: boolean;
  readonly isOpenai: boolean;
  /** What can be said by the provider's own options, beside what the interface has. */
  readonly says: ReadonlySet<FatedField>;
  readonly urls: Urls;
}

const ANTHROPIC: readonly FatedField[] = [
  "messages.role.system",
  "messages.cache",
  "messages.document.citations",
  "messages.document.text",
  "toolChoice.parallel",
  "reasoning.budgetTokens",
  "endUser",
];
const GOOGLE: readonly FatedField[] = [
  "messages.document.text",
  "reasoning.budgetTokens",
  "reasoning.visible",
  "modalities",
];
const OPENAI: readonly FatedField[] = ["messages.media.detail", "toolChoice.parallel", "endUser"];

export function traitsOf({ specificationVersion, provider }: AiSdkChatModel, urls: Urls): Traits {
  const isAnthropic = /anthropic/i.test(provider);
  const isGoogle = !isAnthropic && /google|vertex/i.test(provider);
  const isOpenai = !isAnthropic && !isGoogle && /openai|azure/i.test(provider);
  const own = isAnthropic ? ANTHROPIC : isGoogle ? GOOGLE : isOpenai ? OPENAI : [];
  return {
    version: specificationVersion,
    provider,
    isAnthropic,
    isGoogle,
    isOpenai,
    says: new Set<FatedField>(specificationVersion === "v2" ? own : [...own, "tools.function.strict"]),
    urls,
  };
}

/** The addresses that a model's service fetches by itself. The gateway fetches none that a caller names. */
export class Urls {
  readonly #patterns: readonly (readonly [type: string, patterns: readonly RegExp[]])[];

  constructor(supportedUrls: unknown) {
    const entries = typeof supportedUrls === "object" && supportedUrls !== null ? Object.entries(supportedUrls) : [];
    this.#patterns = entries.map(([type, patterns]: [string, unknown]) => [
      type.toLowerCase(),
      Array.isArray(patterns) ? patterns.filter((pattern) => pattern instanceof RegExp) : [],
    ]);
  }

  takes(url: string, mediaType: string): boolean {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return false;
    return this.#patterns.some(
      ([type, patterns]) => isOfType(mediaType, type) && patterns.some((one) => one.test(url)),
    );
  }
}

function isOfType(mediaType: string, pattern: string): boolean {
  if (pattern === "*" || pattern === "*/*" || pattern === mediaType) return true;
  const [top] = mediaType.split("/");
  return pattern === `${top}/*` || (mediaType === `${top}/*` && pattern.startsWith(`${top}/`));
}
