/** CORS: answers preflights, and lets the pages of other origins read answers. */

import { H3Event, handleCors } from "h3";
import { assertOptions, type Check, fieldsOf, listOf } from "../options.ts";
import type { Answer, CorsOptions } from "./answer.ts";

/** The answer to a preflight, and the headers for any other request. */
export type Cors = (request: Request) => { preflight?: Answer; headers: Record<string, string> };

/**
 * Makes h3's CORS rules. Throws a TypeError for options that are wrong, or that would let more pages read answers than they seem to, because
 * h3 lets every page read where it finds no origin.
 */
export function corsOf(options: CorsOptions): Cors {
  assertOptions<CorsOptions>("createGateway: cors", options, {
    origin: assertOrigins,
    methods: { optional: allOr(listOf("string")) },
    allowHeaders: { optional: allOr(assertSomeHeaders) },
    exposeHeaders: { optional: allOr(listOf("string")) },
    credentials: "boolean?",
    maxAge: { optional: assertSeconds },
    preflight: {
      optional: fieldsOf<NonNullable<CorsOptions["preflight"]>>({ statusCode: { optional: assertStatus } }),
    },
  });
  // Each by its name, because an object of a class has fields that a copy would not have.
  const { origin, methods = "*", allowHeaders = "*", exposeHeaders = "*" } = options;
  const { credentials = false, maxAge = false, preflight = {} } = options;
  if (credentials && (typeof origin === "string" || (Array.isArray(origin) && origin.includes("null"))))
    throw new TypeError(
      "createGateway: cors: credentials needs an origin that is a list of known pages, or a function.",
    );
  const rules = { origin: rulesOf(origin), methods, allowHeaders, exposeHeaders, credentials, maxAge, preflight };
  return (request) => {
    // A client chooses the host header, which may make no URL with the path. The rules need only what is left here.
    const method = request.method === "OPTIONS" ? "OPTIONS" : "GET";
    const asked = URL.canParse(request.url)
      ? request
      : new Request("http://host", { method, headers: request.headers });
    const event = new H3Event(asked);
    const preflight = handleCors(event, rules);
    const headers = Object.fromEntries(event.res.headers);
    return preflight ? { preflight: { status: preflight.status ?? 204, headers, body: null }, headers } : { headers };
  };
}

function rulesOf(origin: CorsOptions["origin"]): CorsOptions["origin"] {
  if (typeof origin === "function") return (page) => decided(origin(page));
  return Array.isArray(origin) ? origin.map((one) => (typeof one === "string" ? one : wholly(one))) : origin;
}

/** Throws a TypeError for a decision that h3 would take for a yes, such as a promise or the place in a list. */
function decided(told: unknown): boolean {
  if (told === undefined || typeof told === "boolean") return told ?? false;
  // An unhandled rejection would end the process.
  if (told instanceof Promise) told.catch(() => {});
  throw new TypeError("createGateway: cors: the function origin must return true or false, and no promise.");
}

const allOr =
  (check: Check): Check =>
  (path, value) =>
    value === "*" || check(path, value);

function assertOrigins(path: string, origin: unknown): void {
  if (origin === "*" || origin === "null" || typeof origin === "function") return;
  if (!Array.isArray(origin) || origin.length === 0)
    throw new TypeError(
      `${path} must be a list of pages such as ["https://app.example"], a function, "null", or "*" for every page.`,
    );
  listOf(assertOrigin)(path, origin);
}

/** Throws a TypeError for a text that no browser sends as an origin, and for a pattern that other origins may contain. */
function assertOrigin(path: string, origin: unknown): void {
  if (origin instanceof RegExp) {
    if (origin.source.startsWith("^") && origin.source.endsWith("$")) return;
    throw new TypeError(`${path} must begin with ^ and end with $: other pages may have such a part in their names.`);
  }
  if (origin === "null") return;
  const url = typeof origin === "string" && URL.canParse(origin) ? new URL(origin) : undefined;
  const meant = url?.host ? `${url.protocol}//${url.host}` : undefined;
  if (meant !== undefined && meant === origin) return;
  throw new TypeError(
    `${path} must be an origin such as "${meant ?? "https://app.example"}", or a regular expression.`,
  );
}

/** Returns the pattern for the whole of a text, without the flags that make a pattern remember its last match. */
const wholly = ({ source, flags }: RegExp): RegExp => new RegExp(`^(?:${source})$`, flags.replace(/[gmy]/g, ""));

/** Throws a TypeError for a list without headers: h3 would allow every header. */
function assertSomeHeaders(path: string, headers: unknown): void {
  listOf("string")(path, headers);
  if ((headers as unknown[]).length === 0)
    throw new TypeError(`${path} must name a header: a page sends its key in one.`);
}

function assertSeconds(path: string, value: unknown): void {
  if (value !== false && !(typeof value === "string" && /^\d+$/.test(value)))
    throw new TypeError(`${path} must be seconds as a text, such as "600", or false.`);
}

function assertStatus(path: string, value: unknown): void {
  if (!Number.isInteger(value) || (value as number) < 200 || (value as number) > 299)
    throw new TypeError(`${path} must be a status from 200 to 299.`);
}
