/**
 * Reads the parts of an upstream's usage that have one set of names in all formats: the uses of tools that a provider runs, the service tier,
 * and the tokens by kind of content. `docs/prices.md` lists the names of the tools.
 */

import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { ModalityCount, Usage, UsageDetails } from "../../model/usage.ts";
import { TOOL_COUNTS } from "./schema.ts";

/** The most tools of one answer that are counted, so that an upstream cannot fill the memory with their names. */
const MAX_TOOLS = 64;

type ToldUses = Pick<Usage, "serverToolUses">;

/** The uses of tools in one answer so far. A report has all of them, because a later report replaces an earlier one. */
export class ToolUses {
  readonly #uses: Map<string, number> = new Map();
  #containers: Set<string> | undefined;
  #hasChanged = false;

  /**
   * Counts one more use of a tool. Returns false for a use that is counted already.
   *
   * @param container The container in which a tool runs code, if the provider charges by the container.
   */
  add(tool: string, container?: string): boolean {
    if (container !== undefined) {
      this.#containers ??= new Set();
      if (this.#containers.has(container)) return false;
      this.#containers.add(container);
    }
    this.set(tool, (this.#uses.get(tool) ?? 0) + 1);
    return true;
  }

  /** Sets the number of uses of a tool. */
  set(tool: string, uses: number): void {
    const known = this.#uses.get(tool);
    if (uses === (known ?? 0) || (known === undefined && this.#uses.size === MAX_TOOLS)) return;
    if (uses === 0) this.#uses.delete(tool);
    else this.#uses.set(tool, uses);
    this.#hasChanged = true;
  }

  /** Takes the counts of the upstream itself, which are those of its bill. */
  learn(counts: Readonly<Record<string, number>>): void {
    for (const [tool, uses] of Object.entries(counts)) this.set(tool, uses);
  }

  /** Returns the uses as a part of a usage; undefined when nothing has changed since the last report. */
  report(): ToldUses | undefined {
    if (!this.#hasChanged) return undefined;
    this.#hasChanged = false;
    return { serverToolUses: Object.fromEntries(this.#uses) };
  }
}

/** Returns the uses of tools that a usage in one of OpenAI's formats counts. */
export function toolUsesIn(usage: Readonly<Record<string, unknown>>): Record<string, number> {
  const uses: [string, number][] = [];
  const add = (tool: string | undefined, count: unknown): void => {
    if (tool !== undefined && typeof count === "number" && count !== 0) uses.push([tool, count]);
  };
  // Perplexity charges each request of a model that searches, and the searches of the models that count them.
  const { search_context_size: size, num_search_queries: queries = size == null ? 0 : 1 } = usage;
  add("web_search", queries);
  // LiteLLM counts the searches among the details of the prompt.
  const { prompt_tokens_details: prompt } = usage;
  if (isJsonObject(prompt)) add("web_search", prompt["web_search_requests"]);
  for (const [field, form] of Object.entries(TOOL_COUNTS)) {
    const counts = usage[field];
    if (isJsonObject(counts)) for (const name in counts) add(form.exec(name)?.[1], counts[name]);
  }
  return Object.fromEntries(uses);
}

/** The most queries of one answer that are remembered. The meter believes fewer. */
const MAX_QUERIES = 2_000;

/**
 * Counts the searches by which Google's models ground an answer, as Google bills them: each query once that is not empty, and the prompt once
 * for models that are billed by the prompt. Streams repeat the queries.
 */
export class GroundingUses {
  readonly #uses: ToolUses;
  readonly #queries: Set<string> = new Set();
  #hasPages = false;
  #hasPlaces = false;
  /** The counts of the bill, which some answers name. */
  #billedSearches = 0;
  #billedPlaces = 0;

  /** @param uses Receives the counts. */
  constructor(uses: ToolUses = new ToolUses()) {
    this.#uses = uses;
  }

  /** Counts the searches of a candidate. Returns the characters that are kept of them. */
  add(grounding: JsonObject): number {
    let chars = 0;
    for (const field of ["webSearchQueries", "imageSearchQueries"])
      for (const query of listIn(grounding, field)) {
        if (typeof query !== "string" || query === "" || this.#queries.size === MAX_QUERIES) continue;
        const before = this.#queries.size;
        this.#queries.add(`${field} ${query}`);
        if (this.#queries.size > before) chars += query.length;
      }
    let hasFiles = listIn(grounding, "retrievalQueries").length > 0;
    for (const chunk of listIn(grounding, "groundingChunks")) {
      if (!isJsonObject(chunk)) continue;
      this.#hasPages ||= chunk["web"] != null || chunk["image"] != null;
      this.#hasPlaces ||= chunk["maps"] != null;
      hasFiles ||= chunk["retrievedContext"] != null;
    }
    if (hasFiles) this.#uses.set("file_search", 1);
    this.#count();
    return chars;
  }

  /** Takes the counts of the bill, `billedToolCalls` of the usage. */
  learn(billed: unknown): void {
    if (!Array.isArray(billed)) return;
    this.#billedSearches = this.#billedPlaces = 0;
    for (const { tool, successfulToolCallCount: calls } of billed.filter(isJsonObject)) {
      if (typeof tool !== "string" || typeof calls !== "number") continue;
      if (/google_search|web_search/i.test(tool)) this.#billedSearches += calls;
      else if (/maps/i.test(tool)) this.#billedPlaces += calls;
    }
    this.#count();
  }

  #count(): void {
    const queries = this.#queries.size;
    // The queries of Google Maps stand among those of Google Search.
    const isOfPlaces = this.#hasPlaces && !this.#hasPages;
    const searches = this.#billedSearches || (isOfPlaces ? 0 : queries);
    const places = this.#billedPlaces || (isOfPlaces ? Math.max(1, queries) : Number(this.#hasPlaces));
    this.#uses.set("web_search", searches);
    this.#uses.set("web_search_prompt", searches > 0 || this.#hasPages ? 1 : 0);
    this.#uses.set("maps", places);
    this.#uses.set("maps_prompt", places > 0 ? 1 : 0);
  }

  /** As `ToolUses.report`. */
  report(): ToldUses | undefined {
    return this.#uses.report();
  }
}

function listIn(object: JsonObject, field: string): readonly unknown[] {
  const list = object[field];
  return Array.isArray(list) ? list : [];
}

/** Returns the tokens by kind of content that Google names for one part of a usage; undefined without a list of them. */
export function googleDetails(counts: unknown): readonly ModalityCount[] | undefined {
  if (!Array.isArray(counts)) return undefined;
  return counts.filter(isJsonObject).map(({ modality, tokenCount }) => ({
    modality: KINDS.get(modality) ?? "unspecified",
    // The official service leaves out a count of zero. The meter rejects a value that is no count.
    tokens: (tokenCount ?? 0) as number,
  }));
}

/** The kinds of content by Google's words. */
const KINDS: ReadonlyMap<unknown, ModalityCount["modality"]> = new Map(
  (["text", "image", "video", "audio", "document"] as const).map((kind) => [kind.toUpperCase(), kind]),
);

/** The words for a tier that name none: the provider chooses. */
const UNNAMED: ReadonlySet<string> = new Set(["", "auto", "unspecified"]);

/** Returns the tier that an answer names; undefined without one, and for a word such as `auto`. */
export const answeredTier = (tier: string | null | undefined): string | undefined =>
  tier == null || UNNAMED.has(tier) ? undefined : tier;

/**
 * Returns the first tier that Google names, in the words of the Gemini API: one of its own tiers, or one of the traffic types of Vertex AI, such
 * as `ON_DEMAND_PRIORITY`.
 */
export function googleTier(...words: readonly unknown[]): string | undefined {
  for (const word of words) {
    if (typeof word !== "string") continue;
    const tier = answeredTier(word.toLowerCase().replace(/^(?:service_tier|traffic_type|on_demand)_/, ""));
    if (tier !== undefined) return tier === "on_demand" ? "standard" : tier;
  }
  return undefined;
}

const MODALITIES = ["audio", "image", "video"] as const satisfies ModalityCount["modality"][];

function countsIn(details: Readonly<Record<string, unknown>> | null | undefined): ModalityCount[] {
  const counts: ModalityCount[] = [];
  for (const modality of details ? MODALITIES : []) {
    const tokens = details?.[`${modality}_tokens`];
    if (typeof tokens === "number" && tokens !== 0) counts.push({ modality, tokens });
  }
  return counts;
}

/** Returns the tokens by kind of content in a usage of OpenAI's formats: those of sounds, pictures and films. */
export function openAIDetails(
  input: Readonly<Record<string, unknown>> | null | undefined,
  output?: Readonly<Record<string, unknown>> | null,
): { readonly details?: UsageDetails } {
  const [read, written] = [countsIn(input), countsIn(output)];
  if (read.length === 0 && written.length === 0) return {};
  return { details: { ...(read.length > 0 && { input: read }), ...(written.length > 0 && { output: written }) } };
}
