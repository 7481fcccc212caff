/** The tools of Responses that a provider runs itself. Most exist only there; web search is a tool of other providers too. */

import type { ProviderTool } from "../../kinds/chat/request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";

const HOSTED_FORMAT = "responses";

/** The name by which a request chooses the tool that runs code. The neutral tool has none. */
export const CODE_TOOL = "code_interpreter";

export const isHosted = ({ format }: ProviderTool): boolean => format === HOSTED_FORMAT;

/** Tells whether a tool is a search of the web as it is now. A search of the provider's own copies has no like elsewhere. */
export const isWebSearch = ({ format, definition }: ProviderTool): boolean =>
  format === HOSTED_FORMAT &&
  String(definition["type"]).startsWith("web_search") &&
  definition["external_web_access"] !== false;

/** Returns the limits of a web search: the domains that it may read, and the place of its user. */
export function webSearchLimits({ definition }: ProviderTool): {
  readonly allowedDomains: readonly string[];
  readonly userLocation: JsonObject | undefined;
} {
  const { filters, user_location } = definition;
  const domains = isJsonObject(filters) ? filters["allowed_domains"] : undefined;
  return {
    allowedDomains: Array.isArray(domains) ? domains.filter((domain) => typeof domain === "string") : [],
    userLocation: isJsonObject(user_location) ? user_location : undefined,
  };
}
