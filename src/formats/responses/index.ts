/** The Responses format: `POST /v1/responses`, complete and streamed, token counts, and the codec for upstreams. */

import { GatewayError } from "../../errors.ts";
import { assertKnown, assertValid, unknownIn } from "../../http/validation.ts";
import { inTwoSteps } from "../../kinds/chat/compaction.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject } from "../../model/json.ts";
import { type Clock, nextIteration } from "../../ports/clock.ts";
import type { EndpointOf, WholeFormat, Incoming, Query } from "../format.ts";
import { assertSchemaSize } from "../shared/schema.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { BackgroundResponse } from "./background.ts";
import type { Compactions } from "./compaction.keys.ts";
import {
  AutomaticCompaction,
  compactEndpoint,
  decodesTriggers,
  isTriggered,
  opened,
  thresholdIn,
  TriggeredCollector,
  TriggeredStream,
} from "./compaction.ts";
import { conversionsOfAnswer, conversionsOfEvent } from "./conversions.ts";
import { itemsOf, resolve, type ResolvedRequest } from "./kept.ts";
import { queries } from "./queries.ts";
import { decodeRequest } from "./request.ts";
import { FORMAT, ROUTES } from "./routes.ts";
import { additionalTools, hasInput, InputItem, ResponsesRequest } from "./schema.ts";
import { type Decode, socketEndpoint } from "./socket.ts";
import { CompleteResponse, ResponseStream } from "./stream.ts";

/**
 * Returns the format with its endpoints.
 *
 * @param compactions Undefined for a gateway whose callers cannot compact.
 */
export function responses({ clock }: { readonly clock: Clock }, compactions?: Compactions): WholeFormat {
  const nowInSeconds = (): number => Math.floor(clock.now() / 1000);
  const decode: Decode = (body, incoming) => decodeBody(body, incoming, compactions);
  const decodeCreate = compactions ? decodesTriggers(decode, compactions) : decode;
  const create: EndpointOf<ChatKind> = {
    ...ROUTES.create,
    kind: chat,
    maxOutputTokensPaths: [["max_output_tokens"]],
    inTwoSteps,
    decode: decodeCreate,
    conversionsOfEvent,
    conversionsOf: conversionsOfAnswer,
    complete(answer) {
      const collector = new CompleteResponse(answer, nowInSeconds);
      return compactions && isTriggered(answer) ? new TriggeredCollector(collector, answer, compactions) : collector;
    },
    stream(answer) {
      const stream = new ResponseStream(answer, nowInSeconds);
      return compactions && isTriggered(answer) ? new TriggeredStream(stream, answer, compactions) : stream;
    },
    background: (answer) =>
      answer.kept && answer.request.native?.body["background"] === true
        ? new BackgroundResponse(answer, answer.kept, clock)
        : undefined,
  };
  return {
    name: FORMAT,
    telemetry: OPENAI_TELEMETRY,
    endpoints: [
      create,
      ...(compactions ? [compactEndpoint(create, decode, compactions, nowInSeconds)] : []),
      socketEndpoint(create, decodeCreate),
      {
        ...ROUTES.count,
        kind: "query",
        expiredKeysMayAsk: false,
        body: "json",
        answer: async (query, incoming) => ({
          object: "response.input_tokens",
          input_tokens: await countTokens(query, incoming, decode),
        }),
      },
      ...queries(clock),
    ],
  };
}

/** Counts the input of a request. Without a model, which may be missing here, the count is the gateway's own estimate. */
async function countTokens(
  { body, authorize, countInput, estimateInput }: Query,
  incoming: Incoming,
  decode: Decode,
): Promise<number> {
  if (isJsonObject(body) && body["model"] == null)
    return estimateInput(chat, await decode({ ...body, model: NO_MODEL }, incoming));
  const counted = await decode(body, incoming);
  await authorize(chat, counted.model);
  return countInput(chat, counted);
}

/** Stands for a missing model, which the schema of a request demands. No backend is asked for it. */
const NO_MODEL = "none";

/** The fields that have tools and schemas. */
const SCHEMAS: readonly string[] = ["tools", "text"];

async function decodeBody(
  body: unknown,
  incoming: Incoming,
  compactions: Compactions | undefined,
): Promise<ChatRequest> {
  const { limits, json } = incoming;
  if (incoming.json.isLarge) await nextIteration();
  assertSchemaSize(body, SCHEMAS, incoming);
  assertValid(ResponsesRequest, body);
  if (incoming.json.isLarge) await nextIteration();
  const { kept } = incoming;
  if (body.background && !kept)
    throw new GatewayError("failed_precondition", "background: this service keeps no responses", {
      path: ["background"],
    });
  const request = hasInput(body.input) ? body : { ...body, input: [] };
  const resolved = await resolve(request, incoming);
  const added = additionalTools(resolved.body.input);
  // Earlier requests may have added some of them, so the size of this body says nothing.
  if (added.length > 0) assertSchemaSize({ ...body, input: added }, [...SCHEMAS, "input"], { limits });
  const known = unknownIn(body);
  const assertAllKnown = (): void => {
    known?.();
    assertKnownItems(resolved, body.previous_response_id == null ? "conversation" : "previous_response_id");
  };
  const isWhole = resolved.body === request;
  const items = itemsOf(resolved.body.input);
  const readable = await opened(items, compactions, incoming, items.length - itemsOf(request.input).length);
  // The cast is safe: a message stands in place of each compaction.
  const whole =
    readable === items
      ? resolved
      : { ...resolved, body: { ...resolved.body, input: readable as unknown as InputItem[] } };
  const decoded = decodeRequest(whole, limits.defaultMaxOutputTokens, json, isWhole ? known : assertAllKnown);
  const threshold = compactions && thresholdIn(body);
  if (!compactions || threshold === null) return decoded;
  const { native } = decoded;
  const compaction = new AutomaticCompaction(threshold, compactions, incoming, readable);
  const unsupported = (): readonly string[] =>
    (native.unsupported?.() ?? []).filter((field) => !field.startsWith("context_management"));
  return { ...decoded, native: { ...native, unsupported, compaction } };
}

/** Refuses the unknown types of items that earlier requests have left, as those of the body. */
function assertKnownItems({ body, own }: ResolvedRequest, earlier: string): void {
  const items = itemsOf(body.input);
  const count = items.length - own.items.length;
  for (const [index, item] of items.entries())
    assertKnown(InputItem, item, index < count ? [earlier, index] : ["input", index - count]);
}
