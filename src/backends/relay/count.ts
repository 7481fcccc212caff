/** Asks an upstream for the tokens of a request that it is not to answer. */

import type { ChatCodec } from "../../dialects/codec.ts";
import { parseAnswerObject, upstreamFailed } from "../../dialects/shared/upstream.ts";
import type { GatewayError } from "../../errors.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { readText } from "./body.ts";
import { isOfType, JSON_TYPE } from "./content-type.ts";
import { Exchange, LEFT } from "./exchange.ts";
import type { UpstreamResponse } from "./transport.ts";
import type { Upstream } from "./upstream.ts";

/** The statuses of a server that has no such route. */
const NO_ROUTE: ReadonlySet<number> = new Set([404, 405, 501]);

/** The upstream's count; undefined where it has no route for that, as many servers that only speak the format. */
export async function countedBy(
  upstream: Upstream,
  codec: ChatCodec,
  request: ChatRequest,
  call: CallContext,
): Promise<number | undefined> {
  if (!codec.count) return undefined;
  const exchange = new Exchange(upstream.clock, call.signal);
  try {
    const { body, ...encoded } = codec.count.encode(request);
    const response = await upstream.send({ ...encoded, body: JSON.stringify(body), stream: false }, exchange);
    if (response.status < 200 || response.status > 299) {
      const error = await upstream.failures.ofResponse(response, codec, exchange);
      if (isWithoutRoute(response, error)) return undefined;
      throw error;
    }
    if (!isOfType(response, JSON_TYPE)) throw await upstream.failures.ofWrongType(response, exchange);
    const answer = parseAnswerObject(
      await readText(response, upstream.limits.maxBodyBytes, () => exchange.touch()),
      upstream.json,
    );
    const tokens = codec.count.decode(answer);
    if (typeof tokens === "number") return tokens;
    throw upstreamFailed("The model backend's answer holds no count of tokens.");
  } catch (error) {
    throw upstream.failures.told(error);
  } finally {
    exchange.cut(LEFT);
  }
}

/** A model that is not there has the same status, but an error in the format. */
const isWithoutRoute = ({ status }: UpstreamResponse, { code }: GatewayError): boolean =>
  NO_ROUTE.has(status) && code === "backend_failed";
