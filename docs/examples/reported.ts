// reported.ts
import { GatewayError, type ModelBackend } from "polygate";

export const reported: ModelBackend = {
  async *chat({ model, messages }, call) {
    const beganAt = Date.now();
    const asked = { name: "my-server", format: "own", address: "127.0.0.1", port: 8080, model };
    const attempt = call.observeUpstream?.({ ...asked, modelListed: false, stream: false });
    try {
      const response = await fetch("http://127.0.0.1:8080/", {
        method: "POST",
        headers: attempt?.headers ?? {},
        body: JSON.stringify(messages),
        signal: call.signal,
      });
      yield await response.text();
      attempt?.end({ status: response.status, endMs: Date.now() - beganAt });
    } catch (cause) {
      const error = new GatewayError("backend_unavailable", "The model is away.", { port: "model-backend", cause });
      attempt?.end({ errorCode: error.code, error, endMs: Date.now() - beganAt });
      throw error;
    }
  },
};
