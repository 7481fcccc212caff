/** The types of a Responses answer. */

export interface UrlCitation {
  readonly type: "url_citation";
  readonly url: string;
  readonly title: string;
  readonly start_index: number;
  readonly end_index: number;
}

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
  readonly top_logprobs: readonly Omit<TokenLogprob, "top_logprobs">[];
}

export type ContentPart =
  | { type: "output_text"; text: string; annotations: UrlCitation[]; logprobs: TokenLogprob[] }
  | { type: "refusal"; refusal: string };

export type ItemStatus = "in_progress" | "completed" | "incomplete";

/** An item of the output. */
export type OutputItem =
  | { type: "message"; id: string; status: ItemStatus; role: "assistant"; content: ContentPart[] }
  | {
      type: "reasoning";
      id: string;
      status: ItemStatus;
      summary: { type: "summary_text"; text: string }[];
      encrypted_content?: string;
    }
  | { type: "function_call"; id: string; status: ItemStatus; call_id: string; name: string; arguments: string }
  | { type: "custom_tool_call"; id: string; status: ItemStatus; call_id: string; name: string; input: string }
  | {
      type: "code_interpreter_call";
      id: string;
      status: ItemStatus;
      code: string;
      container_id: string;
      outputs: { type: "logs"; logs: string }[] | null;
    }
  | { type: "image_generation_call"; id: string; status: ItemStatus; result: string | null; output_format: string };

export type ItemOf<Type extends OutputItem["type"]> = Extract<OutputItem, { type: Type }>;

export interface ResponseUsage {
  readonly input_tokens: number;
  readonly input_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly output_tokens: number;
  readonly output_tokens_details: { readonly reasoning_tokens: number };
  readonly total_tokens: number;
}

export interface ResponseBody {
  readonly id: string;
  readonly object: "response";
  readonly created_at: number;
  readonly status: "queued" | "in_progress" | "completed" | "incomplete" | "failed";
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly incomplete_details: { readonly reason: "max_output_tokens" | "content_filter" } | null;
  readonly model: string;
  readonly output: readonly OutputItem[];
  readonly usage: ResponseUsage | null;
  /** The fields of the request, which the answer repeats. */
  readonly [field: string]: unknown;
}
