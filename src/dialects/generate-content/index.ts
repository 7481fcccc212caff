/** The generate-content dialect: content as a whole and as a stream, and its token count (spec 2.8, 2.9, 6.2, 7.3). */

import { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { readJson } from "../../http/json-body.ts";
import { estimateInputTokens } from "../../metering/estimate.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { AnswerEvent } from "../../model/event.ts";
import type {
  AnswerCollector as Collector,
  AnswerContext,
  AnswerStream,
  Dialect,
  Endpoint,
  Incoming,
} from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { decodeRequest, type Framing, type GenerateContentNative, readBody, readCountBody } from "./request.ts";
import { AnswerCollector } from "./response.ts";
import { DIALECT } from "./schema.base.ts";
import { arrayFramer, sseFramer, StreamEncoder } from "./stream.ts";

/** Where models are: the spec's version and the one that newer official clients default to; tuned models beside the others. */
const COLLECTIONS = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

export const generateContent = (): Dialect => ({ name: DIALECT, endpoints: COLLECTIONS.flatMap(endpointsOf) });

function endpointsOf(collection: string): Endpoint[] {
  const tuned = collection.endsWith("/tunedModels/");
  const route = (method: string) =>
    ({
      method: "POST",
      path: `${collection}**`,
      owns: (tail: string) => tail.endsWith(`:${method}`),
      credential,
      dress: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
    }) as const;
  const chat = {
    kind: "chat",
    maxOutputTokensPath: ["generationConfig", "maxOutputTokens"],
    complete,
    stream,
  } as const;
  return [
    { ...route("generateContent"), ...chat, parse: (incoming) => parse(incoming, tuned, false) },
    { ...route("streamGenerateContent"), ...chat, parse: (incoming) => parse(incoming, tuned, true) },
    {
      ...route("countTokens"),
      kind: "query",
      expiredKeysMayAsk: false,
      answer: async ({ authorize, countTokens, ...incoming }) => {
        const counted = await parse(incoming, tuned, false, readCountBody);
        await authorize(counted);
        return { totalTokens: estimateInputTokens(counted, countTokens) };
      },
    },
  ];
}

async function parse(
  { request, tail, limits }: Incoming,
  tuned: boolean,
  stream: boolean,
  read = readBody,
): Promise<ChatRequest> {
  const model = modelOf(tail, tuned);
  const raw = await readJson(request, limits);
  return decodeRequest(read(raw), {
    model,
    stream,
    defaultMaxOutputTokens: limits.defaultMaxOutputTokens,
    ...(stream && { framing: framingOf(request) }),
    raw,
  });
}

/** The model's id, which may hold slashes and colons: all that stands before the last colon (spec 4, note 4). */
function modelOf(tail: string, tuned: boolean): string {
  const prefix = tuned ? "tunedModels/" : "models/";
  const id = decoded(tail.slice(0, tail.lastIndexOf(":")));
  const name = id.startsWith(prefix) ? id.slice(prefix.length) : id;
  if (name === "") throw invalidModel("must not be empty");
  return tuned ? prefix + name : name;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw invalidModel("must be percent-encoded UTF-8");
  }
}

const invalidModel = (message: string): GatewayError =>
  new GatewayError("invalid_request", `model: ${message}`, { path: ["model"] });

const queryOf = (request: Request): URLSearchParams => new URL(request.url).searchParams;

/** `alt` may come with the dollar of a system parameter. */
function framingOf(request: Request): Framing {
  const query = queryOf(request);
  return (query.get("alt") ?? query.get("$alt")) === "sse" ? "sse" : "array";
}

/** The official clients' header, the spec's query parameter, or a Bearer token; an empty one is none. */
const credential = (request: Request): string | undefined =>
  request.headers.get("x-goog-api-key") ||
  queryOf(request)
    .getAll("key")
    .find((key) => key !== "") ||
  bearerToken(request.headers);

function complete(answer: AnswerContext): Collector<AnswerEvent> {
  const [encoder, collector] = [new StreamEncoder(answer), new AnswerCollector()];
  return {
    add: (event) => encoder.chunks(event).forEach((chunk) => collector.add(chunk)),
    body: () => collector.body,
  };
}

function stream(answer: AnswerContext): AnswerStream<AnswerEvent> {
  const encoder = new StreamEncoder(answer);
  // The request is of this dialect: its own `parse` has made it.
  const { framing } = answer.request.native as GenerateContentNative;
  const framer = framing === "sse" ? sseFramer() : arrayFramer();
  return {
    contentType: framer.contentType,
    keepAlive: framer.keepAlive,
    encode(event) {
      const chunks = encoder.chunks(event).map((chunk) => framer.chunk(chunk));
      return chunks.join("") + (event.type === "finish" ? framer.end() : "");
    },
    error: (error) => framer.chunk(encodeError(error)) + framer.end(),
  };
}
