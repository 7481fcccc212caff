/** The client of a life: it sends, reads what comes, or hangs up in the middle. */

import { type Answer, isStream } from "../../../src/http/answer.ts";
import { DRAINING, LETTER } from "./backend.ts";
import type { Life } from "./life.ts";
import type { Process } from "./process.ts";
import type { WorldParts } from "./world-parts.ts";

/** Sends a life's request to a process. */
export function send(parts: WorldParts, life: Life, process: Process): void {
  const { breaches, trace, timeline } = parts;
  life.process = process;
  trace(() => `a client sends ${life.id} to ${process.name}: ${JSON.stringify(life.plan)}`);
  const mounted = { context: life, onDisconnect: (listener: () => void) => void (life.disconnect = listener) };
  const answering = process.gateway?.answer(requestOf(life), mounted);
  answering?.then(
    (answer) => void (process.effect() && read(parts, life, process, answer)),
    (error: unknown) => breaches.broken("each call ends, and is recorded once", `${life.id} rejects: ${String(error)}`),
  );
  const { hangUpMs } = life.plan;
  if (hangUpMs === undefined) return;
  timeline.after(hangUpMs, () => {
    if (!process.alive || life.isDelivered) return;
    trace(() => `the client of ${life.id} hangs up`);
    life.clientGone = true;
    life.disconnect?.();
  });
}

function read(parts: WorldParts, life: Life, process: Process, { status, body }: Answer): void {
  life.status = status;
  if (isStream(body)) return readStream(parts, life, process, body);
  // A client that has left receives nothing.
  if (life.clientGone || typeof body !== "string") return;
  receive(life, body);
  if (status === 200) delivered(parts, life);
}

/** The end of a complete answer, by format. */
const LAST: Readonly<Record<Life["plan"]["format"], string>> = {
  messages: "message_stop",
  "chat-completions": "[DONE]",
  "generate-content": "finishReason",
  "token-usage": "",
};

function readStream(parts: WorldParts, life: Life, process: Process, body: AsyncIterableIterator<unknown>): void {
  const { timeline, breaches } = parts;
  let last = "";
  const readOn = (): void => {
    if (life.clientGone || !process.alive) return;
    body.next().then(
      (step) => {
        if (!process.effect() || life.clientGone) return;
        if (step.done) {
          if (last.includes(LAST[life.plan.format]) && !last.includes('"error"')) delivered(parts, life);
          return;
        }
        last = String(step.value);
        receive(life, last);
        if (life.plan.readMs === 0) readOn();
        else timeline.after(life.plan.readMs, readOn);
      },
      (error: unknown) =>
        breaches.broken("each call ends, and is recorded once", `${life.id} breaks: ${String(error)}`),
    );
  };
  readOn();
}

function receive(life: Life, text: string): void {
  life.received += text.split(LETTER).length - 1;
}

function delivered({ lifeLaws, trace }: WorldParts, life: Life): void {
  trace(() => `${life.id} is delivered`);
  life.isDelivered = true;
  lifeLaws.delivered(life);
}

/** The smallest request of each format. */
function requestOf({ id, key, plan }: Life): Request {
  const { format, stream, stranger } = plan;
  const apiKey = stranger ? "sk-stranger" : key.apiKey;
  const headers = { authorization: `Bearer ${apiKey}`, "x-life": id };
  if (format === "token-usage") return new Request("http://host/api/usage/token", { headers });
  const model = plan.drains ? DRAINING : "any";
  const content = "i".repeat(plan.input);
  switch (format) {
    case "messages":
      return post(
        plan,
        "/v1/messages",
        { ...headers, "compat-version": "2023-06-01" },
        {
          model,
          max_tokens: plan.maxTokens,
          stream,
          messages: [{ role: "user", content }],
        },
      );
    case "chat-completions":
      return post(plan, "/v1/chat/completions", headers, {
        model,
        max_completion_tokens: plan.maxTokens,
        stream,
        messages: [{ role: "user", content }],
      });
    case "generate-content":
      return post(
        plan,
        `/v1beta/models/${model}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
        { "x-goog-api-key": apiKey },
        {
          contents: [{ role: "user", parts: [{ text: content }] }],
          generationConfig: { maxOutputTokens: plan.maxTokens },
        },
      );
  }
}

function post(plan: Life["plan"], path: string, headers: Record<string, string>, wire: object): Request {
  const body = plan.malformed ? "{" : JSON.stringify(wire);
  return new Request(`http://host${path}`, {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/json",
      ...(plan.tellsLength && { "content-length": String(body.length) }),
    },
    body,
  });
}
