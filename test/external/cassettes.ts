/**
 * Recorded traffic of real upstreams, in the YAML cassettes of pydantic-ai's tests. Each recorded request goes through a gateway to an upstream
 * that gives the recorded answer: in the recorded format, request and answer must pass as they were; in each other format, the text of the
 * answer must arrive.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { parse } from "yaml";
import { createGateway, type Gateway, memoryQuotaStore } from "../../src/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";
import { CALLERS, eventsOf, type Json, textOf } from "./callers.ts";

/** A recorded request to a model, and its answer. */
export interface Exchange {
  readonly name: string;
  readonly format: RelayFormat;
  /** The path and query below the gateway. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly request: Json;
  readonly status: number;
  readonly answer: string;
  readonly isStream: boolean;
}

/** The end of an upstream's path, and the path below the gateway. */
const ROUTES: readonly (readonly [RegExp, RelayFormat, (match: RegExpMatchArray) => string])[] = [
  [/api\.anthropic\.com(\/v1\/messages)(\?|$)/, "messages", ([, path]) => `${path}`],
  [
    /googleapis\.com(\/v1beta\/models\/[^/]+:(?:stream)?[gG]enerateContent(?:\?alt=sse)?)$/,
    "generate-content",
    ([, path]) => `${path}`,
  ],
  [/\/chat\/completions$/, "chat-completions", () => "/v1/chat/completions"],
  [/\/responses$/, "responses", () => "/v1/responses"],
];

interface Recorded {
  readonly uri: string;
  readonly method: string;
  readonly headers?: Readonly<Record<string, readonly string[]>>;
  readonly parsed_body?: Json;
  readonly body?: { readonly string?: unknown } | string;
}

interface Cassette {
  readonly interactions?: readonly {
    readonly request: Recorded;
    readonly response: Recorded & { readonly status: { readonly code: number } };
  }[];
}

/** Reads the exchanges of all cassettes below a folder that are in a format of chat. */
export function* exchangesOf(folder: string): Generator<Exchange> {
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted()) {
    if (!file.endsWith(".yaml") || !/cassettes(?!.*_ws\/)/.test(file)) continue;
    const cassette = parse(readFileSync(join(folder, file), "utf8")) as Cassette | null;
    for (const [index, { request, response }] of (cassette?.interactions ?? []).entries()) {
      if (!request || !response?.status) continue; // WebSockets
      const route = ROUTES.find(([pattern]) => pattern.test(request.uri));
      const match = route && request.uri.match(route[0]);
      const answer = textOfBody(response);
      const body = request.parsed_body ?? jsonOf(textOfBody(request));
      if (!route || !match || request.method !== "POST" || body === undefined || answer === undefined) continue;
      yield {
        name: `${file.replace(/^.*cassettes\/|\.yaml$/g, "")} ${index}`,
        format: route[1],
        path: route[2](match),
        headers: Object.fromEntries(
          ["anthropic-beta", "anthropic-version"].flatMap((name) => {
            const values = request.headers?.[name];
            return values ? [[name, values.join(",")]] : [];
          }),
        ),
        request: body,
        status: response.status.code,
        answer,
        isStream: body["stream"] === true || match[0].includes(":stream"),
      };
    }
  }
}

function textOfBody({ parsed_body: parsed, body }: Recorded): string | undefined {
  if (parsed !== undefined) return JSON.stringify(parsed);
  const text = typeof body === "string" ? body : body?.string;
  return typeof text === "string" ? text : undefined;
}

function jsonOf(text: string | undefined): Json | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  } catch {
    return undefined;
  }
}

/** A gateway before one upstream that gives recorded answers, and notes the request that reaches it. */
export class Replay {
  sent: Json | undefined;
  readonly #exchange: Exchange;
  readonly #gateway: Gateway;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    const { format, status, answer, isStream } = exchange;
    const quotas = memoryQuotaStore([{ apiKey: "sk-recorded" }]);
    this.#gateway = createGateway({
      quotas,
      onFailure: () => {},
      messages: { ranges: "vendor", imageSources: "vendor" },
      backend: relay({
        format,
        baseUrl: "http://upstream.test",
        apiKey: "sk-upstream",
        fetch: async (_url: string | URL | Request, init?: RequestInit) => {
          this.sent = JSON.parse(await new Response(init?.body).text()) as Json;
          const type = isStream && status === 200 ? "text/event-stream" : "application/json";
          return new Response(answer, { status, headers: { "content-type": type } });
        },
      }),
    });
  }

  /** Sends the recorded request as it was. */
  async same(): Promise<Response> {
    const { path, headers, request } = this.#exchange;
    return this.#post(path, headers, request);
  }

  /** Asks in another format for the same recorded answer. */
  async translated(format: keyof typeof CALLERS): Promise<Response> {
    const { path, request } = CALLERS[format](this.#exchange.isStream);
    return this.#post(path, {}, request);
  }

  #post(path: string, headers: Readonly<Record<string, string>>, body: Json): Promise<Response> {
    return this.#gateway.fetch(
      new Request(`http://gateway.test${path}`, {
        method: "POST",
        headers: {
          "anthropic-version": "2023-06-01",
          ...headers,
          "content-type": "application/json",
          authorization: "Bearer sk-recorded",
        },
        body: JSON.stringify(body),
      }),
    );
  }
}

/** The differences that are decisions of the gateway, by the beginning of a problem, with their reasons. */
const DECISIONS: readonly (readonly [RegExp, string])[] = [
  [
    /fileUri: is not supported|file_uri: is not supported/,
    "The specification takes sound, video and PDF inline alone (4).",
  ],
  [/^request\.input\.\d+\.id: .* undefined$/, "The upstream keeps nothing, so ids of its items lead nowhere."],
  [
    /^refused: 404 .*(response|Conversation|picture)|keeps no responses/,
    "The gateway keeps responses, not the upstream.",
  ],
  [/^event \d+\.error\./, "An error in mid-stream has the gateway's own codes."],
  [/^event \d+\.usage: null/, "A caller that asks for no usage gets none."],
  [/^events: 4 became 3/, "A caller that asks for no usage gets no chunk of it."],
  [/answer (holds no choice|is not valid JSON)/, "The recorded server gave no answer in the format."],
  [/^text: .*```python/, "Text stands beside code that other formats show as text."],
];

const undecided = (problem: string): boolean => !DECISIONS.some(([pattern]) => pattern.test(problem));

/** Returns what was lost or changed in the same format: in the request, the status and the answer. */
export async function sameProblems(exchange: Exchange): Promise<string[]> {
  const replay = new Replay(exchange);
  const response = await replay.same();
  const text = await response.text();
  // A request that the upstream refused may be refused before.
  const isRefused = response.status >= 400 && exchange.status >= 400;
  if (replay.sent === undefined)
    return isRefused ? [] : [`refused: ${response.status} ${text.slice(0, 300)}`].filter(undecided);
  const problems = missing(exchange.request, replay.sent, "request");
  if (response.status !== exchange.status && !isRefused)
    problems.push(`status: ${exchange.status} became ${response.status} ${text.slice(0, 200)}`);
  else if (exchange.status === 200) {
    if (!exchange.isStream) problems.push(...missing(JSON.parse(exchange.answer), JSON.parse(text), "answer"));
    else {
      const [recorded, given] = [eventsOf(exchange.answer), eventsOf(text)];
      // Events of Responses without sequence numbers, as they once were, are written anew.
      if (exchange.format === "responses" && recorded[0]?.["sequence_number"] === undefined) return [];
      if (recorded.length !== given.length) problems.push(`events: ${recorded.length} became ${given.length}`);
      else recorded.forEach((event, index) => problems.push(...missing(event, given[index], `event ${index}`)));
    }
  }
  return problems.filter(undecided);
}

/** Returns the problem of the recorded answer in another format. */
export async function translatedProblems(exchange: Exchange, format: keyof typeof CALLERS): Promise<string[]> {
  if (exchange.status !== 200) return [];
  const replay = new Replay(exchange);
  const response = await replay.translated(format);
  const text = await response.text();
  if (response.status !== 200) return [`status ${response.status} ${text.slice(0, 300)}`].filter(undecided);
  const [recorded, given] = [
    textOf(exchange.format, exchange.answer, exchange.isStream),
    textOf(format, text, exchange.isStream),
  ];
  const [expected, became] = [recorded, given].map((shown) => JSON.stringify(shown.slice(0, 150)));
  return given.includes(recorded) ? [] : [`text: ${expected} became ${became}`].filter(undecided);
}

/** Returns the paths at which a value differs from the recorded one. Members that the gateway adds count as no difference. */
function missing(recorded: unknown, given: unknown, path: string): string[] {
  // The gateway leaves null out.
  if (isDeepStrictEqual(recorded ?? undefined, given ?? undefined)) return [];
  if (isObject(recorded) && isObject(given))
    return Object.entries(recorded)
      .filter(([key]) => key !== "store")
      .flatMap(([key, value]) => missing(value, given[key], `${path}.${key}`));
  if (Array.isArray(recorded) && Array.isArray(given) && recorded.length === given.length)
    return recorded.flatMap((value, index) => missing(value, given[index], `${path}.${index}`));
  return [`${path}: ${JSON.stringify(recorded)?.slice(0, 120)} became ${JSON.stringify(given)?.slice(0, 120)}`];
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
