/** How chat completions ask, answer and refuse. Their errors are those of the image endpoints: the same clients read both. */

import { chatPlays, COST, promptOfChat } from "./chat.ts";
import type { Driver, Told } from "./driver.ts";
import { eventFraming, type Framing, streamed } from "./frames.ts";
import { images } from "./images.ts";

interface Frame {
  readonly choices?: readonly { readonly delta: { readonly content?: string | null } }[];
  readonly error?: object;
}

/** What the stream's last frame and its comments are read as: neither is JSON. */
const DONE: Frame = {};
const COMMENT: Frame = {};

const FRAME = /^data: (\{[^\n\r\u0085\u2028\u2029]*\})$/;

const framing: Framing<Frame> = eventFraming((text) => {
  if (text === "data: [DONE]") return DONE;
  if (/^:[^\n\r]*$/.test(text)) return COMMENT;
  const json = FRAME.exec(text)?.[1];
  if (json === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  return JSON.parse(json) as Frame;
});

function tell(frame: Frame): Told | undefined {
  if (frame === COMMENT) return { type: "keep-alive" };
  if (frame.error) return { type: "error", error: frame.error };
  const text = (frame.choices ?? []).map(({ delta }) => delta.content ?? "").join("");
  return text === "" ? undefined : { type: "piece", text };
}

interface Answer {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
}

const path = (): string => "/v1/chat/completions";

export const chatCompletions: Driver = {
  name: "chat-completions",
  forms: [
    {
      name: "complete",
      stream: false,
      path,
      fields: {},
      textOf: async (response) => ((await response.json()) as Answer).choices[0]?.message.content ?? "",
    },
    { name: "streamed", path, fields: { stream: true }, last: /data: \[DONE\]\n/, ...streamed(framing, tell) },
  ],
  models: { one: "model-a", other: "model-b", unknown: "model-z" },
  credential: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  headers: {},
  body: (prompt, model) => ({
    model,
    max_completion_tokens: 100_000_000,
    messages: [{ role: "user", content: prompt }],
  }),
  plays: chatPlays,
  promptOf: promptOfChat,
  cost: COST,
  estimates: true,
  endless: true,
  paths: [path()],
  otherPaths: [],
  notOwned: ["/v1/chat/completion", "/v1/completions", "/v2/chat/completions"],
  refusal: (code) => images.refusal(code),
  refusalOf: (response) => images.refusalOf(response),
};
