/** The host's own login: who is behind a request of the admin. */

import { originOf, pathOf } from "../../http/request.ts";
import { assertOptions, givenInstead, isPlain, shown } from "../../options.ts";
import type { Mounted } from "../../pipeline/call.ts";
import { type Clock, LATE, within } from "../../ports/clock.ts";
import type { AdminUser } from "./operation.ts";
import { OPERATIONS } from "./operations.ts";
import { refused } from "./refusal.ts";

/** The user behind a request; nothing for a stranger; or a response, such as a redirect to the host's login. */
export type Login =
  // An error and a function have a name too.
  (AdminUser & { readonly message?: never; readonly call?: never }) | Response | undefined | null;

export interface GuardOptions {
  readonly authorize: (request: Request, mounted: Mounted) => Login | Promise<Login>;
  /** The address of the host's login, for browsers without a session. */
  readonly loginUrl: string | undefined;
  /** The headers of every answer of the admin. */
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
}

/** The longest wait for `authorize`, and for the body of its response, in milliseconds. */
const AUTHORIZE_MS = 10_000;
const LONGEST_NAME = 200;

export class Guard {
  readonly #options: GuardOptions;
  /** The bodies of responses that the host returns again and again. */
  readonly #bodies = new WeakMap<Response, Promise<ArrayBuffer>>();

  constructor(options: GuardOptions) {
    this.#options = options;
  }

  /**
   * Asks the host who the user is. Returns a response that is sent in place of an answer. Throws for a stranger, and for anything that is no
   * user.
   */
  async userOf(request: Request, root: string, mounted: Mounted): Promise<AdminUser | Response> {
    const { authorize, loginUrl, headers } = this.#options;
    const seen = asSent(request, mounted.path ?? "");
    const login = await this.#inTime((async () => authorize(seen, mounted))());
    if (login instanceof Response) return this.#copyOf(login);
    if (login === undefined || login === null) {
      if (loginUrl && isNavigation(request, root))
        return new Response(null, { status: 303, headers: { location: loginTo(loginUrl, seen.url), ...headers } });
      throw refused(401, "You are not logged in.");
    }
    return userOf(login);
  }

  /** Copies a response, which the host may return for many requests. */
  async #copyOf(login: Response): Promise<Response> {
    let body = this.#bodies.get(login);
    if (!body) this.#bodies.set(login, (body = login.arrayBuffer()));
    const bytes = await this.#inTime(body);
    return new Response(bytes.byteLength > 0 ? bytes : null, login);
  }

  async #inTime<T>(work: Promise<T>): Promise<T> {
    const result = await within(work, AUTHORIZE_MS, this.#options.clock);
    if (result === LATE) throw new Error("authorize has not answered in time.");
    return result;
  }
}

/**
 * Returns the user that `authorize` has returned. Throws for anything else: an error that was returned in place of thrown, and a function that
 * was not called, have a name too. A field of another name may have been meant to keep its user from changes.
 */
function userOf(login: unknown): AdminUser {
  const isObject = typeof login === "object" && login !== null && !Array.isArray(login);
  if (!isObject || !isPlain(login)) {
    const given = isObject ? "an object of a class, such as an error" : (givenInstead(login) ?? shown(login));
    throw new TypeError(`authorize must return { name }, a response, or undefined, not ${given}.`);
  }
  assertOptions<AdminUser>("the user of authorize", login, { name: "string", readOnly: "boolean?" });
  const { name, readOnly = false } = login as AdminUser;
  if (name === "") throw new TypeError("the user of authorize has an empty name.");
  // A client may choose its name where the login asks for nothing but a password.
  if (name.length > LONGEST_NAME)
    throw refused(400, `The name of your login must have at most ${LONGEST_NAME} characters.`);
  if (HIDDEN.test(name))
    throw refused(400, "The name of your login must have no invisible characters, and no space at its ends.");
  if (OF_COMMAND_LINE.test(name.normalize("NFKD").replaceAll(INVISIBLE, "")))
    throw refused(400, "The name of your login must not end in (command line), as the users of commands do.");
  return { name, readOnly };
}

/**
 * Characters that make a name look like another one. Logs write another character for half of a surrogate pair. Persian and Indian names have
 * joiners behind their letters.
 */
const HIDDEN =
  /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}\u2800]|(?!(?<=[\p{L}--\p{Script=Latin}]\p{M}*)[\u200c\u200d])[\p{Cf}\p{Default_Ignorable_Code_Point}]|^\s|\s$/v;

/** Characters that may stand between others unseen, and marks at letters. */
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}\p{M}]/gu;

/** The end of the names that the log of changes gives to users of the command line. */
const OF_COMMAND_LINE = /\(\W*command\W*line\W*\)\W*$/iu;

/**
 * Returns the request, without its body, at the address that the client asked for.
 *
 * @param removed The beginning of the path that the host's framework has removed.
 */
function asSent(request: Request, removed: string): Request {
  const origin = originOf(request.url);
  const url = `${origin}${removed}${request.url.slice(origin.length)}`;
  // The class of the web platform takes neither an address without a host nor these methods.
  if (removed === "" || !URL.canParse(url) || /^(?:connect|trace|track)$/i.test(request.method)) return request;
  const { method, headers, signal } = request;
  return new Request(url, { method, headers, signal });
}

/** The paths that a browser opens, below the mount: the page, and reports that it saves as a file. */
const OPENED = new RegExp(
  `^(?:${OPERATIONS.flatMap(({ asCsv, path }) => (asCsv ? path.replace(":id", "[^/]+") : [])).join("|")})?/?$`,
);

/** True for a browser that opens the page, or the link of a report. Scripts and the page's own requests ask for no HTML. */
const isNavigation = ({ method, url, headers }: Request, root: string): boolean =>
  (method === "GET" || method === "HEAD") &&
  OPENED.test(pathOf(url).slice(root.length)) &&
  /\btext\/html\b/i.test(headers.get("accept") ?? "");

/** Returns the address of the login, which leads back to the path of an address. A host may name its own way back. */
function loginTo(loginUrl: string, url: string): string {
  if (/[?&]next=/.test(loginUrl)) return loginUrl;
  const path = url.slice(originOf(url).length);
  return `${loginUrl}${loginUrl.includes("?") ? "&" : "?"}next=${encodeURIComponent(path)}`;
}
