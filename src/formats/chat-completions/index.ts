/** The chat-completions format: `POST /v1/chat/completions`, complete and streamed, and the list of models. */

import { JsonPieces } from "../../http/answer.ts";
import { assertValid } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import { type Clock, nextIteration } from "../../ports/clock.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { EndpointOf, WholeFormat } from "../format.ts";
import { CompleteAnswer, modelNamed } from "../shared/answer.ts";
import { assertSchemaSize } from "../shared/schema.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { CompletionBuilder } from "./answer.ts";
import { conversionsOfEvent, conversionsOfFunctions } from "./conversions.ts";
import { asksForFunctions, passedToFunctions } from "./functions.ts";
import { decodeRequest } from "./request.ts";
import { FORMAT, ROUTES } from "./routes.ts";
import { ChatCompletionsRequest } from "./schema.ts";
import { wholeCompletion } from "./stream.passed.ts";
import { CompletionStream } from "./stream.ts";

/** Returns the format with its endpoints. Its list of models also serves the callers of formats that have no such list. */
export function chatCompletions({ clock }: { readonly clock: Clock }): WholeFormat {
  const nowInSeconds = (): number => Math.floor(clock.now() / 1000);
  const query = { body: "none", expiredKeysMayAsk: false } as const;
  const generation: EndpointOf<ChatKind> = {
    ...ROUTES.generate,
    kind: chat,
    maxOutputTokensPaths: [["max_completion_tokens"], ["max_tokens"]],
    async decode(body, incoming) {
      const { limits, json } = incoming;
      if (incoming.json.isLarge) await nextIteration();
      assertSchemaSize(body, ["tools", "functions", "response_format"], incoming);
      assertValid(ChatCompletionsRequest, body);
      if (incoming.json.isLarge) await nextIteration();
      return decodeRequest(body, limits.defaultMaxOutputTokens, json);
    },
    conversionsOfEvent,
    conversionsOf: (request) => (asksForFunctions(request) ? conversionsOfFunctions() : conversionsOfEvent),
    complete(answer) {
      const isOld = asksForFunctions(answer.request);
      const passed = (body: string): string =>
        isOld ? passedToFunctions(wholeCompletion(body)) : wholeCompletion(body);
      return new CompleteAnswer(FORMAT, new CompletionBuilder(answer, nowInSeconds()), passed);
    },
    stream: (answer) => new CompletionStream(answer, nowInSeconds()),
  };

  return {
    name: FORMAT,
    telemetry: OPENAI_TELEMETRY,
    endpoints: [
      generation,
      {
        ...ROUTES.list,
        ...query,
        kind: "query",
        answer: async ({ models }) => listOf(await models()),
      },
      {
        ...ROUTES.read,
        ...query,
        kind: "query",
        answer: async (asked, { wildcardPath }) => encodeModel(await modelNamed(asked, wildcardPath)),
      },
    ],
  };
}

/** The models in a piece of a list. */
const PIECE_MODELS = 1_000;

/** Encodes a list of models, which has no pages: a long one in pieces, so that neither its text nor other calls wait for its end. */
const listOf = (models: readonly ModelInfo[]): object =>
  models.length > PIECE_MODELS
    ? new JsonPieces(piecesOf(models), 0)
    : { object: "list", data: models.map(encodeModel) };

async function* piecesOf(models: readonly ModelInfo[]): AsyncGenerator<string> {
  for (let at = 0; at < models.length; at += PIECE_MODELS) {
    const piece = JSON.stringify(models.slice(at, at + PIECE_MODELS).map(encodeModel)).slice(1, -1);
    yield `${at === 0 ? '{"object":"list","data":[' : ","}${piece}`;
  }
  yield "]}";
}

const encodeModel = ({ id, createdAt = 0, ownedBy = "polygate" }: ModelInfo): object => ({
  id,
  object: "model",
  created: createdAt,
  owned_by: ownedBy,
});
