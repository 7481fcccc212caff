/** Connects the playground to a real model if the environment names an upstream. */

import { readFileSync } from "node:fs";
import process from "node:process";
import type { ModelBackend, ModelInfo, Observer } from "../src/index.ts";
import { relay, type RelayBackend, type RelayFormat } from "../src/upstreams/relay/index.ts";
import { route, type RouteUpstream } from "../src/upstreams/route/index.ts";

/** An upstream in the file. `model` is the upstream's name of the model, and `weight` is the share of calls within a pattern. */
interface Entry {
  readonly format: RelayFormat;
  readonly url: string;
  readonly key?: string;
  readonly model?: string;
  readonly weight?: number;
}

const FIELDS = new Set(["format", "url", "key", "model", "weight"]);
const FORMATS: readonly RelayFormat[] = ["messages", "generate-content", "chat-completions", "responses", "images"];

/**
 * Returns the backend that the environment names; undefined if it names none. POLYGATE_UPSTREAM, POLYGATE_UPSTREAM_URL and
 * POLYGATE_UPSTREAM_KEY name a single upstream. POLYGATE_UPSTREAM_FILE names a JSON file with upstreams by the model's name or pattern.
 * Throws an error of a single line without keys if a variable or the file is wrong.
 */
export function upstreamBackend(
  observer: Observer | undefined,
  env: NodeJS.ProcessEnv = process.env,
): ModelBackend | undefined {
  // An empty variable counts as missing.
  const [format, url, key, file] = ["", "_URL", "_KEY", "_FILE"].map(
    (part) => env[`POLYGATE_UPSTREAM${part}`] || undefined,
  );
  try {
    if (file !== undefined) {
      if (format ?? url ?? key) throw new TypeError("POLYGATE_UPSTREAM_FILE stands alone.");
      return route({ routes: routesIn(file), ...(observer && { observer }) });
    }
    if (format === undefined && url === undefined && key === undefined) return undefined;
    if (format === undefined || url === undefined)
      throw new TypeError("POLYGATE_UPSTREAM and POLYGATE_UPSTREAM_URL belong together.");
    return listing(relayTo({ format, url, ...(key !== undefined && { key }) }, "POLYGATE_UPSTREAM"));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`The demo cannot use its upstream: ${reason}`, { cause: error });
  }
}

function routesIn(file: string): Record<string, { upstreams: RouteUpstream[] }> {
  const routes = parsed(file);
  if (!isObject(routes))
    throw new TypeError("POLYGATE_UPSTREAM_FILE must hold an object: a model's name or pattern to its upstreams.");
  return Object.fromEntries(
    Object.entries(routes).map(([pattern, to]) => {
      const upstreams = (Array.isArray(to) ? to : [to]).map((entry: unknown): RouteUpstream => {
        const where = `POLYGATE_UPSTREAM_FILE, ${JSON.stringify(pattern)}`;
        const backend = relayTo(entry, where);
        const { model, weight } = entry as Entry;
        if (model !== undefined && typeof model !== "string") throw new TypeError(`${where}: model must be a text.`);
        return { backend, ...(model !== undefined && { model }), ...(weight !== undefined && { weight }) };
      });
      return [pattern, { upstreams }];
    }),
  );
}

// Hide the parser's message, which may contain a key from the file.
function parsed(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    throw new TypeError(`POLYGATE_UPSTREAM_FILE cannot be read: ${file}`);
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new TypeError(`POLYGATE_UPSTREAM_FILE is not JSON: ${file}`);
  }
}

/** The time for which a list of models is used, and the longest wait for one, in milliseconds. */
const LIST_MS = 60_000;
const TIMEOUT_MS = 3_000;

/** Lists the models that an upstream lists: none while it does not answer. */
function listing(backend: RelayBackend): ModelBackend {
  let listed: Promise<ModelInfo[]> | undefined;
  let listedAt = 0;
  const models = (): Promise<ModelInfo[]> => {
    if (listed && Date.now() < listedAt + LIST_MS) return listed;
    listedAt = Date.now();
    listed = backend.check({ timeoutMs: TIMEOUT_MS }).then((checked) => (checked.models ?? []).map((id) => ({ id })));
    return listed;
  };
  return Object.assign(backend, { models });
}

function relayTo(entry: unknown, where: string): RelayBackend {
  if (!isObject(entry)) throw new TypeError(`${where}: an upstream must be an object.`);
  const unknown = Object.keys(entry).find((field) => !FIELDS.has(field));
  if (unknown !== undefined) throw new TypeError(`${where}: ${JSON.stringify(unknown)} is no field of an upstream.`);
  const { format, url, key } = entry;
  const known = FORMATS.find((one) => one === format);
  if (!known) throw new TypeError(`${where} must be one of ${FORMATS.join(", ")}.`);
  if (typeof url !== "string") throw new TypeError(`${where}: url must be a text.`);
  if (key !== undefined && typeof key !== "string") throw new TypeError(`${where}: key must be a text.`);
  return relay({ format: known, baseUrl: url, apiKey: key, showUpstreamMessages: true });
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
