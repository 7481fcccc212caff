/** A mock of Converse on Amazon Bedrock. It checks signatures as AWS does, and holds each request to AWS's schema and to Bedrock's rules. */

import type { ConverseResponse } from "@aws-sdk/client-bedrock-runtime";
import type { AwsCredentials } from "../../src/clouds/aws.ts";
import type { JsonObject } from "../../src/model/json.ts";
import { checkConverse } from "../agents/converse.rules.ts";
import { type Bedrock, type Refusal, refuse, wrongIn } from "./aws-mock.ts";
import { answerBody, countBreach, eventBytes, eventsOf } from "./converse-wire.ts";
import { cloud, json, TEXT } from "./stage.ts";

/** An answer: the content, an exception with its status, or the bytes of a stream. */
export type Answer = Partial<ConverseResponse> | { readonly refusal: Refusal } | { readonly bytes: Uint8Array };

/** The counts of an answer that has none of its own. */
export const USAGE = { inputTokens: 12, outputTokens: 5, totalTokens: 17 } as const;

export const answered = (answer: Partial<ConverseResponse> = {}): ConverseResponse => ({
  output: { message: { role: "assistant", content: [{ text: TEXT }] } },
  stopReason: "end_turn",
  usage: USAGE,
  metrics: { latencyMs: 400 },
  ...answer,
});

/**
 * Serves Converse in `us-east-1`.
 *
 * @param now The time of its clock.
 * @param answer Chooses the answer to a request, by its number from 0.
 */
export async function converse(
  known: AwsCredentials[],
  now: () => number,
  answer: (body: JsonObject, model: string, number: number) => Answer = () => ({}),
): Promise<Bedrock> {
  let number = 0;
  const served = await cloud(async (request, res) => {
    const wrong = await wrongIn(request, { region: "us-east-1", service: "bedrock", now }, known);
    if (wrong !== undefined) return refuse(res, 403, wrong, "The signature is not right.");
    const [, name = "", route] = /^\/model\/([^/]+)\/([a-z-]+)$/.exec(request.path) ?? [];
    const model = decodeURIComponent(name);
    const body = request.body as JsonObject;
    if (route === "count-tokens") {
      const breach = countBreach(body);
      return breach === undefined
        ? json(res, 200, { inputTokens: 42 })
        : refuse(res, 400, "ValidationException", breach);
    }
    if (request.method !== "POST" || (route !== "converse" && route !== "converse-stream"))
      return refuse(res, 404, "UnknownOperationException", "There is no such operation.");
    try {
      checkConverse({ body, model, streamed: route === "converse-stream" });
    } catch (error) {
      return refuse(res, 400, "ValidationException", (error as Error).message);
    }
    const chosen = answer(body, model, number++);
    if ("refusal" in chosen) return refuse(res, ...chosen.refusal);
    const isStream = route === "converse-stream";
    res.writeHead(200, { "content-type": isStream ? "application/vnd.amazon.eventstream" : "application/json" });
    if ("bytes" in chosen) res.end(chosen.bytes);
    else res.end(isStream ? eventBytes(eventsOf(answered(chosen))) : answerBody(answered(chosen)));
  });
  return { ...served, known };
}
