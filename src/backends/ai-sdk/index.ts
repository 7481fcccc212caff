/** aiSdk: the models of any AI SDK provider as a backend. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { type ImageRequest, saidModel } from "../../model/image.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { assertHangUp } from "../hang-up.ts";
import { askChat } from "./chat.ts";
import { askImage } from "./image.ts";
import { listOf, Models } from "./models.ts";
import type { AiSdkOptions } from "./options.ts";
import { settingsOf } from "./settings.ts";

export {
  type AiSdkChatModel,
  type AiSdkImageModel,
  type AiSdkModels,
  type AiSdkOptions,
  type AiSdkTimeouts,
  DEFAULT_AI_SDK_TIMEOUTS,
  type ProviderOptions,
} from "./options.ts";

/**
 * A backend of models that the AI SDK's providers make, called through their published interface (`@ai-sdk/provider`, versions 2 to 4
 * of it), so that neither the `ai` package nor a server of it is needed. What a provider notes on its answer (signatures of thoughts,
 * ids of its own) goes to callers as signatures, and comes back to it with the next turn. What the model cannot be asked is told in the
 * headers `polygate-dropped` and `polygate-approximated`, its own warnings included. Throws a TypeError for options that are
 * wrong, and a RangeError for a time that is.
 *
 * @example
 * const backend = aiSdk({ chat: { sonnet: anthropic("claude-sonnet-4-5") }, images: { "image-model-multi": openai.image("gpt-image-1") } });
 */
export function aiSdk(options: AiSdkOptions): ModelBackend {
  assertHangUp("aiSdk: hangUp", options.hangUp);
  const settings = settingsOf(options);
  const chat = options.chat && new Models(options.chat);
  const images = options.images && new Models(options.images);
  if (!chat && !images) throw new TypeError("aiSdk: there is neither a chat model nor an image model.");
  const list = listOf(
    [
      ["chat", chat],
      ["image", images],
    ],
    options.info,
  );
  return {
    ...(options.hangUp && { hangUp: options.hangUp }),
    ...(list && { models: () => list }),
    ...(chat && { chat: (request, call) => askChat(chat.find(request.model), request, call, settings) }),
    ...(images && {
      image: (request, call) => askImage(images.find(...imageNames(request)), request, call, settings),
    }),
  };
}

/** The gateway's own name of an image model, and the one of its aliases that the caller used. */
function imageNames(request: ImageRequest): readonly [string, ...string[]] {
  const said = saidModel(request);
  return said === undefined ? [request.model] : [request.model, said];
}
