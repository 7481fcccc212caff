/** createGateway with every format: the gateway of `polygate`. A new format is a folder in `src/formats`, a file in `src/choices` and a line here. */

import { chatCompletions } from "./choices/chat-completions.ts";
import { embeddings } from "./choices/embeddings.ts";
import { generateContent } from "./choices/generate-content.ts";
import { images } from "./choices/images.ts";
import { messages } from "./choices/messages.ts";
import { responses } from "./choices/responses.ts";
import { tokenUsage } from "./choices/token-usage.ts";
import { withCors, withHooks, withReplays } from "./features.ts";
import { IMAGES_SHAPES } from "./formats/images/request.profiles.ts";
import { MESSAGES_SHAPES } from "./formats/messages/index.ts";
import { RESPONSES_SHAPES } from "./formats/responses/index.ts";
import { COMMON_SHAPES, type Gateway, type GatewayFormat, gatewayOf, type GatewayOptions } from "./gateway.ts";
import { h3App } from "./h3-app.ts";
import { assertOptions, fieldsOf } from "./options.ts";
import type { WireFormat } from "./ports/call.ts";

/**
 * Creates a gateway.
 *
 * @throws RangeError for a limit that is not a positive integer, and a TypeError for an option that does not exist or has a wrong shape.
 * @example const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
 */
export function createGateway<Context = unknown>(options: GatewayOptions<Context>): Gateway<Context> {
  assertOptions<GatewayOptions>("createGateway", options, {
    ...COMMON_SHAPES,
    messages: { optional: fieldsOf(MESSAGES_SHAPES) },
    images: { optional: fieldsOf(IMAGES_SHAPES) },
    responses: { optional: fieldsOf(RESPONSES_SHAPES) },
  });
  const formats = [
    messages(options.messages),
    generateContent(),
    chatCompletions(),
    responses(options.responses),
    embeddings(),
    images(options.images),
    tokenUsage(),
  ] satisfies readonly GatewayFormat<WireFormat>[];
  const { gateway, routes } = gatewayOf(options, formats, { ...withCors, ...withHooks, ...withReplays });
  const app = h3App(routes);
  return { ...gateway, app: app(""), at: (prefix) => ({ ...gateway.at(prefix), app: app(prefix) }) };
}
