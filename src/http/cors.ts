/** Which pages of a browser may call the gateway: what h3's rules for CORS can be told, in types of our own. */

/** What the answers say to browsers (https://fetch.spec.whatwg.org/#http-cors-protocol). */
export interface CorsOptions {
  /**
   * The pages that may call, by their origins; a function says it for each. A regular expression is looked for anywhere in an
   * origin: write `^` and `$`, and escape the dots. Default: every page.
   */
  origin?: "*" | "null" | (string | RegExp)[] | ((origin: string) => boolean);
  /** The methods that a page may use. Default: all. */
  methods?: "*" | string[];
  /** The headers that a page may send. Default: all that it asks for. With a replay store a list has `Idempotency-Key` as well. */
  allowHeaders?: "*" | string[];
  /** The headers of an answer that a page may read. Default: all. */
  exposeHeaders?: "*" | string[];
  /** Whether a page may send cookies and the like; the other fields must then be lists. Default: false. */
  credentials?: boolean;
  /** For how long a browser may remember the answer to its preflight, in seconds. Default: its own time. */
  maxAge?: string | false;
  /** How the answer to a preflight is given. */
  preflight?: {
    /** Default: 204. */
    statusCode?: number;
  };
}
