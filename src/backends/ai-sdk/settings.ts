/** A host's options as they apply to every call. */

import { overridden } from "../../overrides.ts";
import { type Clock, systemClock } from "../../ports/clock.ts";
import { type AiSdkOptions, type AiSdkTimeouts, DEFAULT_AI_SDK_TIMEOUTS, type ProviderOptions } from "./options.ts";

export interface Settings {
  readonly providerOptions: ProviderOptions;
  readonly timeouts: AiSdkTimeouts;
  readonly strict: boolean;
  readonly showMessages: boolean;
  readonly showModel: boolean;
  readonly clock: Clock;
}

export const settingsOf = (options: AiSdkOptions): Settings => ({
  providerOptions: options.providerOptions ?? {},
  timeouts: overridden("aiSdk: timeouts", DEFAULT_AI_SDK_TIMEOUTS, options.timeouts),
  strict: options.strict ?? false,
  showMessages: options.showUpstreamMessages ?? false,
  showModel: options.showUpstreamModel ?? false,
  clock: options.clock ?? systemClock,
});
