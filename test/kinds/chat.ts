/** Chat for tests of formats: the endpoint of a format that chats, and a call as its meter sees it. */

import type { Endpoint, EndpointOf, WholeFormat } from "../../src/formats/format.ts";
import { countTokensByScript } from "../../src/index.ts";
import { chat, type ChatKind } from "../../src/kinds/chat/index.ts";
import type { KindCall } from "../../src/kinds/kind.ts";
import { DEFAULT_JSON_LIMITS } from "../../src/model/json.ts";

const isChat = (endpoint: Endpoint): endpoint is EndpointOf<ChatKind> => endpoint.kind === chat;

/** Returns the first endpoint of a format that chats. */
export function chatOf({ name, endpoints }: WholeFormat): EndpointOf<ChatKind> {
  const found = endpoints.find(isChat);
  if (!found) throw new Error(`The format ${name} has no chat.`);
  return found;
}

type MeteredCall = Pick<
  KindCall,
  "answeringUpstream" | "countTokens" | "doubt" | "jsonLimits" | "leavesOut" | "noteConversion" | "prices"
>;

export const meteredCall = (changes: Partial<MeteredCall> = {}): MeteredCall => ({
  answeringUpstream: () => undefined,
  countTokens: countTokensByScript,
  doubt: () => {},
  jsonLimits: DEFAULT_JSON_LIMITS,
  leavesOut: () => false,
  noteConversion: () => {},
  prices: {},
  ...changes,
});
