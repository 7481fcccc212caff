/** The clients on the playground, over a real socket. Hosts have suites of their own: no byte depends on a host. */

import { agentsClient } from "./agents.ts";
import { anthropicProvider } from "./ai/anthropic/client.ts";
import { googleProvider } from "./ai/google/client.ts";
import { openaiProvider } from "./ai/openai/client.ts";
import { anthropicClient } from "./anthropic/client.ts";
import { genaiClient } from "./genai/client.ts";
import { langchainClient } from "./langchain.ts";
import { openaiClient } from "./openai/client.ts";
import { tryOnPlayground } from "./servers.ts";

tryOnPlayground({
  "@anthropic-ai/sdk": anthropicClient,
  "ai with @ai-sdk/anthropic": anthropicProvider,
  "@google/genai": genaiClient,
  "ai with @ai-sdk/google": googleProvider,
  openai: openaiClient,
  "ai with @ai-sdk/openai": openaiProvider,
  "@openai/agents": agentsClient,
  "@langchain/openai": langchainClient,
});
