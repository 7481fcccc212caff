// weather.ts
import { type ChatEvent, GatewayError, type ModelBackend } from "polygate";

export const weather: ModelBackend = {
  models: () => [{ id: "weather-1", maxOutputTokens: 4096 }],
  async *chat(request, call): AsyncGenerator<ChatEvent | string> {
    const tool = request.tools.find((candidate) => candidate.type === "function");
    if (!tool) throw new GatewayError("invalid_request", "weather-1 needs a tool to look outside.");
    yield "Let me look.";
    yield { type: "tool-call", id: `call-${call.requestId}`, name: tool.name, input: { city: "Paris" } };
    yield { type: "finish", reason: "tool-calls", usage: { inputTokens: 20, outputTokens: 9 } };
  },
};
