// haiku.ts
import { chatKind, type EndpointOf, type FormatModule, GatewayError } from "polygate/core";

/** `POST /v1/haiku` with `{ model, about }` answers `{ verse }`. */
const endpoint: EndpointOf<typeof chatKind> = {
  format: "haiku",
  kind: chatKind,
  method: "POST",
  path: "/v1/haiku",
  maxOutputTokensPaths: [],
  credential: ({ headers }) => headers.get("poet") ?? undefined,
  encodeError: ({ code, message }) => ({
    status: code === "invalid_api_key" ? 401 : 400,
    body: { refusal: message },
  }),
  decode(body) {
    const { model, about } = Object(body) as Readonly<Record<string, unknown>>;
    if (typeof model !== "string" || typeof about !== "string")
      throw new GatewayError("invalid_request", "about: must be a text", { path: ["about"] });
    return {
      model,
      messages: [{ role: "user", parts: [{ type: "text", text: about }] }],
      system: [],
      tools: [],
      stopSequences: [],
      maxOutputTokens: 100,
      stream: false,
    };
  },
  conversionsOfEvent: () => [],
  complete() {
    let verse = "";
    return {
      add: (event) => void (event.type === "text-delta" && (verse += event.text)),
      body: () => ({ verse }),
    };
  },
  stream() {
    throw new GatewayError("invalid_request", "stream: a poem comes at once", { path: ["stream"] });
  },
};

export const haiku: FormatModule<"haiku"> = {
  name: "haiku",
  serve: () => ({
    name: "haiku",
    make: () => ({
      name: "haiku",
      telemetry: { provider: "example" },
      endpoints: [endpoint],
    }),
  }),
};
