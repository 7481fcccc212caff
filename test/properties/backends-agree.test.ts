/** One neutral backend answers clients of the messages and of the generate-content format alike. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, GatewayError, type GatewayErrorCode, type ModelBackend } from "../../src/index.ts";
import { CASES } from "./backends-agree/backends.ts";
import { clientsOf, type Seen } from "./backends-agree/clients.ts";
import type { Question } from "./backends-agree/questions.ts";

const QUESTION: Question = { turns: [{ text: "Hi" }] };

const NOTHING: Omit<Seen, "tokens"> = { text: "", thoughts: "", seals: [], calls: [], end: "done" };

const yielding = (events: (stream: boolean) => Iterable<ChatEvent | string>): ModelBackend => ({
  async *chat({ stream }) {
    yield* events(stream);
  },
});

describe.each(Object.entries(CASES))("%s", (_name, { question, answers, seen, pieces }) => {
  const asked = { ...QUESTION, ...question };
  const clients = clientsOf({
    async *chat(request) {
      yield* answers(request);
    },
  });
  const expected = { ...NOTHING, tokens: { input: 11, output: 1, cached: 0 }, ...seen };

  it.each(clients)("complete, to a client of $name", async ({ complete }) => {
    expect(await complete(asked)).toEqual(expected);
  });

  it.each(clients)("streamed, to a client of $name", async ({ stream }) => {
    const { pieces: came, ...whole } = await stream(asked);
    expect(whole).toEqual(expected);
    expect(came).toEqual(pieces ?? came);
  });
});

const THROWN: readonly (readonly [code: GatewayErrorCode, status: number])[] = [
  ["invalid_request", 400],
  ["rate_limited", 429],
  ["backend_failed", 500],
  ["backend_unavailable", 503],
  ["deadline_exceeded", 504],
];

describe("a failure", () => {
  it.each(THROWN)("%s has the same status for both", async (code, status) => {
    const fails = yielding(() => {
      throw new GatewayError(code, "For the caller.");
    });
    for (const { complete, stream, statusOf } of clientsOf(fails))
      for (const ask of [complete, stream]) {
        const error: unknown = await ask(QUESTION).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(Error);
        expect(statusOf(error)).toBe(status);
        expect(String(error)).toContain("For the caller.");
      }
  });

  it("in the middle of a stream comes after the same text for both", async () => {
    const breaks = yielding(function* () {
      yield "Hel";
      yield "lo";
      throw new GatewayError("backend_unavailable", "Gone.");
    });
    for (const { stream } of clientsOf(breaks)) {
      const came: string[] = [];
      const error: unknown = await stream(QUESTION, (text) => void came.push(text)).catch((thrown: unknown) => thrown);
      expect(String(error)).toContain("Gone.");
      expect(came).toEqual(["Hel", "lo"]);
    }
  });
});
