/** What a host may set for a relay, and what each of it means. */

import type { Clock } from "../../ports/clock.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import type { RelayModels } from "./models.ts";
import type { Fetch } from "./transport.fetch.ts";

/** The upstream of a relay, and how it is dealt with. */
export interface RelayOptions {
  /** The wire format that the upstream speaks. */
  readonly format: RelayFormat;
  /** The upstream's address with its version, such as `https://api.example.com/v1`; `http` or `https`, without a query. */
  readonly baseUrl: string;
  /** The upstream's secret. It is sent in a header, and stands in no address, log, error or record. */
  readonly apiKey?: string | undefined;
  /**
   * What callers may ask for: a list of the upstream's models, or the upstream's name of each model by the name that callers use
   * for it. Default: every name is let through, and the upstream decides.
   */
  readonly models?: RelayModels;
  /**
   * Headers of every request, beside the format's own; they win over those. The values of those that are named for a secret, such
   * as `authorization` or `x-access-token`, stand in no error, as `apiKey` does not.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /** Overrides of `DEFAULT_RELAY_TIMEOUTS`. */
  readonly timeouts?: Partial<RelayTimeouts>;
  /** Overrides of `DEFAULT_RELAY_LIMITS`. */
  readonly limits?: Partial<RelayLimits>;
  /** Which beta features that callers of the same format name reach the upstream. Default: `pass`, all of them. */
  readonly betas?: NamePolicy;
  /** Which versions of the format that callers name reach the upstream, in place of the codec's own. Default: `pass`. */
  readonly versions?: NamePolicy;
  /** Carries the requests in place of the runtime's own transport. */
  readonly fetch?: Fetch;
  /** Refuses a request that the upstream's format cannot say in full (`failed_precondition`), rather than to leave a field out. */
  readonly strict?: boolean;
  /** Shows callers the upstream's own words about an error. Default: false, because they may tell of the host's account. */
  readonly showUpstreamMessages?: boolean;
  /** Shows callers the upstream's name of a model that they know by another. Default: false. */
  readonly showUpstreamModel?: boolean;
  /**
   * Of an images upstream: from where its pictures may be fetched beside its own origin, such as `https://pictures.example.com`. It
   * is asked for data, so this is for one that answers with addresses all the same. Default: none.
   */
  readonly imageOrigins?: readonly string[];
  /** How an upstream of chat completions spells the limit on the output; some local servers know `max_tokens` alone. */
  readonly outputLimitField?: "max_completion_tokens" | "max_tokens";
  /** What a client that hangs up does to its call, as of any backend. */
  readonly hangUp?: NonNullable<ModelBackend["hangUp"]>;
  /** Default: the machine's own. */
  readonly clock?: Clock;
}

/** The wire formats that an upstream may speak. */
export type RelayFormat = "messages" | "generate-content" | "chat-completions" | "images";

/** All names, none, or those on the list. */
export type NamePolicy = "pass" | "none" | readonly string[];

/** How long each phase of a call may take, in milliseconds. */
export interface RelayTimeouts {
  /** Until there is a connection: after it, `backend_unavailable`. */
  readonly connectMs: number;
  /** From the connection to the headers of a streamed answer: after it and all below, `deadline_exceeded`. */
  readonly headersMs: number;
  /** From the headers to the first event, whatever signs of life come before it. */
  readonly firstEventMs: number;
  /** Between two events, or two pieces of a complete answer. A keep-alive of the upstream's format is an event, a comment is none. */
  readonly betweenEventsMs: number;
  /** From the connection to the headers of a complete answer, which come when all of it is made. */
  readonly completeMs: number;
  /** From the connection to the last byte of a picture that is fetched from its address. */
  readonly pictureMs: number;
}

/** What holds unless a host says otherwise. */
export const DEFAULT_RELAY_TIMEOUTS: RelayTimeouts = {
  connectMs: 10_000,
  headersMs: 60_000,
  firstEventMs: 120_000,
  betweenEventsMs: 120_000,
  completeMs: 600_000,
  pictureMs: 60_000,
};

/** How much of an answer is taken: what is larger is `backend_failed`. */
export interface RelayLimits {
  /** One event of a stream, in characters. */
  readonly maxEventChars: number;
  /** The body of a complete answer, decompressed, in bytes. */
  readonly maxBodyBytes: number;
  /** A picture that is fetched from its address, in bytes. */
  readonly maxPictureBytes: number;
  /** Deepest nesting of objects and arrays in the JSON of an event, of a complete answer, or of a tool call's arguments. */
  readonly maxJsonDepth: number;
  /** Most JSON values of an event, of a complete answer, or of the arguments of all tool calls of an answer. */
  readonly maxJsonValues: number;
  /** Most members of one object in the same. */
  readonly maxJsonKeys: number;
  /** Most elements of all arrays in the same. Likelihoods of tokens are many. */
  readonly maxJsonItems: number;
}

const MIB = 1024 ** 2;

/** What holds unless a host says otherwise. */
export const DEFAULT_RELAY_LIMITS: RelayLimits = {
  maxEventChars: 16 * MIB,
  maxBodyBytes: 64 * MIB,
  maxPictureBytes: 25 * MIB,
  maxJsonDepth: 200,
  // 20,000 tokens with 20 likelihoods each, and the bytes of each.
  maxJsonValues: 5_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 3_000_000,
};

/** An upstream as a backend. */
export interface RelayBackend extends ModelBackend {
  /** Lets calls end, and then closes the connections to the upstream. */
  close(): Promise<void>;
}
