/** The generate-content dialect: content as a whole and as a stream, and its token count (spec 2.8, 2.9, 6.2, 7.3). */

import { GatewayError } from "../../errors.ts";
import { queryOf } from "../../http/address.ts";
import { bearerToken } from "../../http/credential.ts";
import { shown } from "../../http/validation.ts";
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
import { assertSchemaSize } from "../shared/schema-size.ts";
import { WholeAnswer } from "../shared/whole-answer.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { lossesOf } from "./fates.answer.ts";
import { modelEndpoints } from "./models.ts";
import { type BodyReader, COUNT, decodeRequest, type Framing, type GenerateContentNative, REQUEST } from "./request.ts";
import { AnswerCollector } from "./response.ts";
import { DIALECT } from "./schema.base.ts";
import { arrayFramer, sseFramer } from "./stream.framing.ts";
import { StreamWriter } from "./stream.native.ts";
import { StreamEncoder } from "./stream.ts";

/** Where models are: the spec's version and the one that newer official clients default to; tuned models beside the others. */
const COLLECTIONS = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

export const generateContent = (): Dialect => ({
  name: DIALECT,
  endpoints: [...COLLECTIONS.flatMap(endpointsOf), ...modelEndpoints(FORMAT)],
});

/** How the format reads a credential, and tells an error. */
const FORMAT = {
  dialect: DIALECT,
  credential: (request: Request) => credential(request),
  encodeError: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
} as const;

function endpointsOf(collection: string): Endpoint[] {
  const tuned = collection.endsWith("/tunedModels/");
  const route = (method: string) =>
    ({
      method: "POST",
      path: `${collection}**`,
      owns: (tail: string) => withColon(tail).endsWith(`:${method}`),
      ...FORMAT,
    }) as const;
  const chat = {
    kind: "chat",
    maxOutputTokensPath: ["generationConfig", "maxOutputTokens"],
    lossesOf,
    complete,
    stream,
  } as const;
  return [
    { ...route("generateContent"), ...chat, decode: (body, incoming) => decode(body, incoming, tuned, false) },
    { ...route("streamGenerateContent"), ...chat, decode: (body, incoming) => decode(body, incoming, tuned, true) },
    {
      ...route("countTokens"),
      kind: "query",
      expiredKeysMayAsk: false,
      body: "json",
      answer: async ({ body, authorize, countInput }, incoming) => {
        const counted = await decode(body, incoming, tuned, false, COUNT);
        await authorize(counted.model);
        return { totalTokens: await countInput(counted) };
      },
    },
    {
      ...route("*"),
      owns: isOtherMethod,
      kind: "query",
      expiredKeysMayAsk: false,
      body: "none",
      answer(_query, { tail }) {
        const method = tail.slice(tail.lastIndexOf(":") + 1);
        throw new GatewayError("not_found", `A model has no method ${shown(method)}.`);
      },
    },
  ];
}

const METHODS: ReadonlySet<string> = new Set(["generateContent", "streamGenerateContent", "countTokens"]);

/** The colon before a method may come percent-encoded, like any other character. */
const withColon = (tail: string): string => tail.replace(/%3A(?=[A-Za-z]+$)/i, ":");

/** Whether an address asks for a method of a model that there is none of; one without a method is another format's, or the host's. */
function isOtherMethod(escaped: string): boolean {
  const tail = withColon(escaped);
  const colon = tail.lastIndexOf(":");
  return colon > tail.lastIndexOf("/") && !METHODS.has(tail.slice(colon + 1));
}

async function decode(
  raw: unknown,
  incoming: Incoming,
  tuned: boolean,
  stream: boolean,
  body: BodyReader = REQUEST,
): Promise<ChatRequest> {
  const { request, tail, limits } = incoming;
  const model = modelOf(tail, tuned);
  const parsed = incoming.turn();
  if (parsed) await parsed;
  assertSchemaSize(raw, WITH_SCHEMAS, incoming);
  const spelled = body.spell(raw);
  const alike = incoming.turn();
  if (alike) await alike;
  const read = body.read(raw, spelled);
  const valid = incoming.turn();
  if (valid) await valid;
  return decodeRequest(read, {
    model,
    stream,
    defaultMaxOutputTokens: limits.defaultMaxOutputTokens,
    ...(stream && { framing: framingOf(request) }),
    raw,
  });
}

/** The fields of a body, in both spellings, that hold tools and schemas; a token count has the whole request in a field of its own. */
const WITH_SCHEMAS = ["", "generateContentRequest.", "generate_content_request."].flatMap((request) =>
  ["tools", "generationConfig", "generation_config"].map((field) => `${request}${field}`),
);

/** The model's id, which may hold slashes and colons: all that stands before the last colon (spec 4, note 4). */
function modelOf(tail: string, tuned: boolean): string {
  const prefix = tuned ? "tunedModels/" : "models/";
  const address = withColon(tail);
  const id = decoded(address.slice(0, address.lastIndexOf(":")));
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

/** `alt` may come with the dollar of a system parameter. */
function framingOf(request: Request): Framing {
  const query = queryOf(request.url);
  return (query.get("alt") ?? query.get("$alt")) === "sse" ? "sse" : "array";
}

/** The official clients' header, the spec's query parameter, or a Bearer token; an empty one is none. */
const credential = (request: Request): string | undefined =>
  request.headers.get("x-goog-api-key") ||
  queryOf(request.url)
    .getAll("key")
    .find((key) => key !== "") ||
  bearerToken(request.headers);

function complete(answer: AnswerContext): Collector<AnswerEvent> {
  const encoder = new StreamEncoder(answer);
  return new WholeAnswer(DIALECT, (event) => encoder.chunks(event), new AnswerCollector());
}

function stream(answer: AnswerContext): AnswerStream<AnswerEvent> {
  // The request is of this dialect: its own `decode` has made it.
  const { framing } = answer.request.native as GenerateContentNative;
  const framer = framing === "sse" ? sseFramer() : arrayFramer();
  const writer = new StreamWriter(answer, framer);
  return {
    contentType: framer.contentType,
    keepAlive: framer.keepAlive,
    encode: (event) => writer.write(event),
    error: (error) => framer.error(encodeError(error)),
  };
}
