/**
 * The mistakes in the settings of upstreams, each in a sentence with its remedy. The sentence is the cause of an error: so the log, the record of
 * the call, the state of the upstream and its check say the same.
 */

import { changedError, type GatewayError, lackedModel, LACKS_MODEL, mistakeOf, SettingMistake } from "../errors.ts";

/** Returns an error with a mistake as its cause. An error that has one stays as it is. */
export const mistaken = (error: GatewayError, mistake: string): GatewayError =>
  mistakeOf(error) === undefined
    ? changedError(error, error.message, { cause: new SettingMistake(mistake, { cause: error.cause }) })
    : error;

/** Adds its mistake to the error of an upstream that lacks a model which the host has named. Takes the arguments of `lackedModel`. */
export const lackingModel = (error: GatewayError, ...lacked: Parameters<typeof lackedModel>): GatewayError =>
  LACKS_MODEL.has(error.code) ? mistaken(error, lackedModel(...lacked)) : error;

/**
 * Tells whether an upstream refuses the key itself, and not what the account may use. Google's Gemini refuses a key with 400.
 *
 * @param status Undefined for an error within a stream.
 */
export const refusesKey = (status: number | undefined, message?: unknown): boolean =>
  status === 401 || (status === 400 && typeof message === "string" && /\bapi key\b/i.test(message));

/**
 * The mistakes that a failed connection shows, by the codes and words of Node, Bun and Deno. The first row that matches counts. `check` stands
 * before the option with the address, for a mistake that the option may have.
 */
const OF_CONNECTION: readonly (readonly [said: RegExp, mistake: string, check?: string, isCertain?: true])[] = [
  [
    /wrong version number|speak TLS on this port|InvalidContentType/,
    "does not speak TLS. http may be meant.",
    "",
    true,
  ],
  [/ERR_TLS_CERT_ALTNAME_INVALID|not valid for name/, "has a certificate for another name.", ""],
  [/CERT_HAS_EXPIRED|peer certificate: (?:certificate )?expired/i, "has a certificate that has expired."],
  [
    /SELF_SIGNED_CERT|UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT)|invalid peer certificate/,
    "has a certificate that this process does not trust. Name its authority in NODE_EXTRA_CA_CERTS (Deno: DENO_CERT).",
  ],
  [/ENOTFOUND|Name or service not known|nodename nor servname/, "has a name that does not resolve.", ""],
  [/ECONNREFUSED|Connection ?refused/i, "takes no connections.", "that it runs, and "],
];

/** A mistake that the error of a connection shows. */
export interface ConnectionMistake {
  /** A sentence without its subject, and what to check. */
  readonly words: string;
  /** False for a connection that may soon be made: the upstream may start, or be given its certificate, at this moment. */
  readonly isCertain: boolean;
}

/**
 * Returns the mistake that the error of a connection shows. Undefined for an error that names another host or port, such as that of a proxy.
 *
 * @param url The address of the upstream.
 * @param option The option with the address.
 */
export function mistakeOfConnection(thrown: unknown, url: string, option: string): ConnectionMistake | undefined {
  const errors = [thrown, (thrown as { readonly cause?: unknown } | null | undefined)?.cause].map(
    (error) => (error ?? {}) as Readonly<Record<"code" | "message" | "hostname" | "host" | "port", unknown>>,
  );
  const { hostname = "", port = "", protocol } = URL.parse(url) ?? {};
  const [own, ownPort] = [hostname.replaceAll(/[[\]]/g, ""), Number(port || (protocol === "https:" ? 443 : 80))];
  if (errors.some(({ hostname: name, host = name }) => typeof host === "string" && host !== own)) return undefined;
  if (errors.some(({ port: other }) => typeof other === "number" && other !== ownPort)) return undefined;
  const said = errors.map(({ code, message }) => `${String(code)} ${String(message).slice(0, MAX_COMPARED_CHARS)}`);
  const [, mistake, check, isCertain = false] = OF_CONNECTION.find(([words]) => words.test(said.join(" "))) ?? [];
  if (mistake === undefined) return undefined;
  return { words: check === undefined ? mistake : `${mistake} Check ${check}the ${option}.`, isCertain };
}

/** The most characters of a message that are compared. */
const MAX_COMPARED_CHARS = 500;
