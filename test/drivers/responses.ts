/** How Responses ask, answer and refuse. Their errors are those of chat completions: the same clients read both. */

import { chatPlays, COST, promptOfChat } from "./chat.ts";
import type { Driver, Told } from "./driver.ts";
import { eventFraming, type Framing, streamed } from "./frames.ts";
import { images } from "./images.ts";

interface Frame {
  readonly type: string;
  readonly delta?: string;
  readonly error?: object;
}

const COMMENT: Frame = { type: "" };

const FRAME = /^event: ([\w.]+)\ndata: (\{[^\n\r\u0085\u2028\u2029]*\})$/;

const framing: Framing<Frame> = eventFraming((text) => {
  if (/^:[^\n\r]*$/.test(text)) return COMMENT;
  const [, event, json] = FRAME.exec(text) ?? [];
  const frame = json === undefined ? undefined : (JSON.parse(json) as Frame);
  if (!frame || frame.type !== event) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  return frame;
});

function tell(frame: Frame): Told | undefined {
  if (frame === COMMENT) return { type: "keep-alive" };
  const { type, delta } = frame;
  if (type === "response.output_text.delta") return { type: "piece", text: delta ?? "" };
  return type === "error" ? { type: "error", error: frame.error ?? {} } : undefined;
}

interface Answer {
  readonly output: readonly { readonly content: readonly { readonly text: string }[] }[];
}

const path = (): string => "/v1/responses";

export const responses: Driver = {
  name: "responses",
  forms: [
    {
      name: "complete",
      stream: false,
      path,
      fields: {},
      textOf: async (response) =>
        ((await response.json()) as Answer).output
          .flatMap(({ content }) => content)
          .map(({ text }) => text)
          .join(""),
    },
    {
      name: "streamed",
      path,
      fields: { stream: true },
      // Only the last event has counts.
      last: /"total_tokens":\d+\}[^\n]*\}\n/,
      ...streamed(framing, tell),
    },
  ],
  models: { one: "model-a", other: "model-b", unknown: "model-z" },
  credential: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  headers: {},
  body: (prompt, model) => ({ model, max_output_tokens: 100_000_000, input: prompt }),
  plays: chatPlays,
  promptOf: promptOfChat,
  cost: COST,
  estimates: true,
  endless: true,
  paths: [path(), "/v1/responses/input_tokens"],
  otherPaths: [],
  notOwned: ["/v1/response", "/v2/responses", "/v1/responses/a/b"],
  refusal: (code) => images.refusal(code),
  refusalOf: (response) => images.refusalOf(response),
};
