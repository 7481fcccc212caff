/** A strict upstream: a server of one format that refuses each wrong request as the vendor does, and keeps a list of the wrong ones. */

import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { toNodeHandler } from "srvx/node";
import * as v from "valibot";
import type { JsonObject } from "../../src/model/json.ts";
import type { RelayFormat } from "../../src/upstreams/relay/index.ts";
import { type Heard, type Script, sixTurns, type Turn } from "./script.ts";

/** The key that every strict upstream demands. */
export const UPSTREAM_KEY = "sk-strict-0123456789";

/** The beginning of each seal that the gateway has wrapped. No upstream may see one. */
const WRAPPED = Buffer.from("polygate:").toString("base64");

/** Makes signatures that only their maker can check, each for exactly one content. */
export class Vault {
  readonly #secret: Buffer = randomBytes(32);
  /** All signatures so far. */
  readonly made: Set<string> = new Set();
  /** The ids of the calls that were made with a thought before them. */
  readonly calls: Set<string> = new Set();

  seal(kind: string, content: string): string {
    const made = this.#sealed(kind, content, randomBytes(12));
    this.made.add(made);
    return made;
  }

  holds(kind: string, content: string, seal: string): boolean {
    return seal === this.#sealed(kind, content, Buffer.from(seal, "base64").subarray(0, 12));
  }

  /** Seals are about as long as those of the vendors, so that no format takes them for an id. */
  #sealed(kind: string, content: string, nonce: Buffer): string {
    const seal = createHash("shake256", { outputLength: 192 });
    seal.update(this.#secret).update(nonce).update(`\0${kind}\0${content}`);
    return Buffer.concat([nonce, seal.digest()]).toString("base64");
  }
}

/** A refusal of a request. Its body is made by the format. */
export class Refused extends Error {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;

  constructor(message: string, { status = 400, param = null, code = null }: Partial<Details> = {}) {
    super(message);
    this.status = status;
    this.param = param;
    this.code = code;
  }
}

interface Details {
  readonly status: number;
  readonly param: string | null;
  readonly code: string | null;
}

/** A request, parsed. */
export interface Received {
  /** The path below the version. */
  readonly path: string;
  readonly model: string;
  readonly streamed: boolean;
  readonly body: JsonObject;
}

/** A format of strict upstreams. */
export interface StrictFormat {
  readonly format: RelayFormat | "bedrock-converse";
  /** The version in the address. */
  readonly version: string;
  credential(headers: Headers): string | null;
  /** Finds the model and the form of the answer. Throws `Refused` for a path that the vendor does not have. */
  route(path: string, body: JsonObject): Pick<Received, "model" | "streamed">;
  /** Reads a request. Throws `Refused` for the first rule that it breaks. */
  validate(received: Received, vault: Vault): Heard;
  /** Returns the body of the complete answer. */
  complete(turn: Turn, received: Received, vault: Vault): object;
  /** Returns the text or the bytes of the stream. */
  stream(turn: Turn, received: Received, vault: Vault): string | Uint8Array;
  /** The content type of the stream. Default: that of an event stream of HTTP. */
  readonly streamType?: string;
  /** Returns the body of the answer to a request for a count; undefined for any other path. */
  count?(path: string): object | undefined;
  error(refused: Refused): object;
  /** Returns further headers of an error. */
  errorHeaders?(refused: Refused): Readonly<Record<string, string>>;
}

export interface StrictUpstream {
  readonly format: StrictFormat["format"];
  readonly version: string;
  readonly vault: Vault;
  /** Each rule that a request has broken. */
  readonly violations: string[];
  /** The requests for an answer, as they came. */
  readonly requests: Received[];
  /** The thoughts that were answered, by maker. */
  readonly thoughts: string[];
  readonly fetch: (request: Request) => Promise<Response>;
}

/** @param name Distinguishes the thoughts of this upstream from those of others. */
export function strictUpstream(format: StrictFormat, name: string, script: Script = sixTurns): StrictUpstream {
  const upstream: Omit<StrictUpstream, "fetch"> = {
    format: format.format,
    version: format.version,
    vault: new Vault(),
    violations: [],
    requests: [],
    thoughts: [],
  };
  const answer = (request: Request, text: string): Response => {
    const { pathname } = new URL(request.url);
    const path = pathname.slice(format.version.length);
    if (!pathname.startsWith(`${format.version}/`) || request.method !== "POST")
      throw new Refused(`There is no ${request.method} ${pathname}.`, { status: 404 });
    if (format.credential(request.headers) !== UPSTREAM_KEY)
      throw new Refused("The key is not right.", { status: 401 });
    if (text.includes(WRAPPED)) throw new Refused("A wrapped seal came to an upstream.");
    const body = JSON.parse(text) as JsonObject;
    const count = format.count?.(path);
    if (count) return Response.json(count);
    const received: Received = { path, body, ...format.route(path, body) };
    upstream.requests.push(received);
    const heard = format.validate(received, upstream.vault);
    const next = script(heard);
    const turn = { ...next, thought: `${name}: ${next.thought}` };
    upstream.thoughts.push(turn.thought);
    if (!received.streamed) return Response.json(format.complete(turn, received, upstream.vault));
    const stream = inPieces(format.stream(turn, received, upstream.vault));
    return new Response(stream, { headers: { "content-type": format.streamType ?? "text/event-stream" } });
  };
  return {
    ...upstream,
    async fetch(request) {
      try {
        return answer(request, await request.text());
      } catch (error) {
        const refused = error instanceof Refused ? error : new Refused(String(error));
        upstream.violations.push(`${name}, request ${upstream.requests.length}: ${refused.message}`);
        const headers = format.errorHeaders?.(refused) ?? {};
        return Response.json(format.error(refused), { status: refused.status, headers });
      }
    },
  };
}

/** Returns the bytes in pieces that end in the middle of lines and of characters. */
function inPieces(stream: string | Uint8Array): ReadableStream<Uint8Array> {
  const bytes = typeof stream === "string" ? new TextEncoder().encode(stream) : stream;
  let from = 0;
  return new ReadableStream({
    pull(controller) {
      if (from >= bytes.length) return controller.close();
      controller.enqueue(bytes.subarray(from, from + 211));
      from += 211;
    },
  });
}

/** Cuts a text into pieces for the deltas of a stream. An empty text is one piece. */
export const pieces = (text: string): string[] => text.match(/[^]{1,9}/gu) ?? [text];

/** Returns a random id with a prefix. */
export const newId = (prefix: string, length = 24): string =>
  prefix + randomUUID().replaceAll("-", "").repeat(2).slice(0, length);

/** A field that breaks a schema. */
export interface Breach {
  readonly path: readonly (string | number)[];
  readonly kind: "extra" | "missing" | "wrong";
  readonly expected: string;
}

/** Returns the first field of a body that breaks a schema. */
export function breachOf(schema: v.GenericSchema, body: unknown): Breach | undefined {
  const [issue] = v.safeParse(schema, body, { abortEarly: true }).issues ?? [];
  return issue && breachIn(issue);
}

/** Of the forms that a value may have, the one that fits furthest is the one that was meant. */
function breachIn({ path, issues, expected, received, message }: v.BaseIssue<unknown>): Breach {
  const keys = (path ?? []).map(({ key }) => key as string | number);
  const [inner] = (issues ?? []).map(breachIn).toSorted((one, other) => other.path.length - one.path.length);
  if (inner && inner.path.length > 0) return { ...inner, path: [...keys, ...inner.path] };
  const kind = expected === "never" ? "extra" : received === "undefined" ? "missing" : "wrong";
  return { path: keys, kind, expected: expected ?? message };
}

export interface Served extends AsyncDisposable {
  readonly url: string;
}

/** Serves an upstream on a loopback socket. */
export async function serveUpstream({ fetch }: Pick<StrictUpstream, "fetch">, port = 0): Promise<Served> {
  const server = createServer(toNodeHandler(fetch) as RequestListener).listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}
