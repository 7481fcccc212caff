/** The side of the runtime: a gateway's options, whose functions live in the process of the tests. */

import type { CallContext, GatewayOptions, ModelBackend, QuotaStore } from "../../../src/index.ts";
import type { Generator, Opening, PlainOptions } from "./opening.ts";
import { type FunctionAt, unpack } from "./pack.ts";
import type { Call } from "./peer.ts";

/** @param functionAtOnce What stands for a function that is to answer at once. */
export function remoteOptions(call: Call, functionAtOnce: FunctionAt, id: number, opening: Opening): GatewayOptions {
  const { models, generators, hangUp, options } = opening;
  // What stands alone among the options is called at once, what belongs to a port is waited for.
  const functionAt: FunctionAt = (path, fields) =>
    path.includes(".") ? (...args: unknown[]) => call("option", id, path, args) : functionAtOnce(path, fields);
  const generatorsOf = generators.map((generator) => [
    generator,
    (request: unknown, context: CallContext) => remoteAnswer(call, id, generator, request, context),
  ]);
  const backend: ModelBackend = {
    hangUp,
    ...(models && { models: () => call("models", id) }),
    ...Object.fromEntries(generatorsOf),
  };
  const quotas: QuotaStore = {
    find: (apiKey) => call("find", id, apiKey),
    reserve: (hold) => call("reserve", id, hold),
    balance: (keyId) => call("balance", id, keyId),
    renew: (hold, renewal) => call("renew", id, hold, renewal),
    settle: (hold, outcome) => call("settle", id, hold, outcome),
  };
  return {
    ...(unpack(JSON.parse(options), functionAt) as PlainOptions),
    backend,
    quotas,
    onFailure: (failure) => void call("failed", id, failure),
  };
}

type Step = IteratorResult<unknown, void>;

let answers = 0;

/** Each event is asked for when the gateway wants it, so its back-pressure reaches the play. */
async function* remoteAnswer(
  call: Call,
  id: number,
  generator: Generator,
  request: unknown,
  { signal, requestId, key }: CallContext,
): AsyncGenerator {
  const answer = ++answers;
  const abort = (): void => void call("abort", answer, signal.reason);
  signal.addEventListener("abort", abort);
  let isLeft = false;
  try {
    let step = await call<Step>("begin", id, answer, generator, request, { requestId, key });
    while (!step.done) {
      isLeft = true;
      yield step.value;
      isLeft = false;
      step = await call<Step>("next", answer);
    }
  } finally {
    // One that has ended or failed is over there as well.
    if (isLeft) await call("return", answer);
  }
}
