/** Each format's table of fates is complete; and a request of an upstream's own format is its own body. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FATES as CHAT_COMPLETIONS_FATES } from "../../src/dialects/chat-completions/fates.ts";
import { FATES as GENERATE_CONTENT_FATES } from "../../src/dialects/generate-content/fates.ts";
import { FATES as MESSAGES_FATES } from "../../src/dialects/messages/fates.ts";
import { CODECS, requestOf } from "./upstream-answers.ts";

/** The names of the fields of an interface of the neutral model, or the `type`s of a union of it. */
const MODEL = readFileSync(join(import.meta.dirname, "../../src/model/chat.ts"), "utf8");
const fieldsOf = (name: string): string[] => {
  const [, body = ""] = new RegExp(`export interface ${name} \\{\\n([\\s\\S]*?)\\n\\}`).exec(MODEL) ?? [];
  return Array.from(body.matchAll(/^ {2}readonly (\w+)\??:/gm), ([, field = ""]) => field);
};
const kindsOf = (name: string): string[] => {
  const [, union = ""] = new RegExp(`export type ${name} =([^;]*);`).exec(MODEL) ?? [];
  return Array.from(union.matchAll(/\w+/g), ([member]) => {
    const [, kind = ""] =
      new RegExp(`export interface ${member} [^{]*\\{\\n {2}readonly type: "([^"]+)"`).exec(MODEL) ?? [];
    return kind;
  });
};

describe.each([
  ["messages", MESSAGES_FATES],
  ["generate-content", GENERATE_CONTENT_FATES],
  ["chat-completions", CHAT_COMPLETIONS_FATES],
])("the fates of %s", (_name, fates) => {
  const declared = Object.keys(fates);

  it("are decided for every field of a request", () => {
    const fields = fieldsOf("ChatRequest").filter((field) => field !== "native");
    expect(fields.length).toBeGreaterThan(20);
    expect(fields.filter((field) => !declared.includes(field))).toEqual([]);
  });

  it.each([
    ["messages", "Part"],
    ["tools", "Tool"],
  ])("are decided for every kind in %s", (field, union) => {
    const kinds = kindsOf(union);
    expect(kinds.length).toBeGreaterThan(2);
    expect(kinds).not.toContain("");
    expect(kinds.filter((kind) => !declared.includes(`${field}.${kind}`))).toEqual([]);
  });

  it("say why in a sentence", () => {
    for (const fate of Object.values(fates)) expect("why" in fate ? fate.why : "Nothing.").toMatch(/^\w.*\.$/);
  });
});

describe("a request of the same format", () => {
  it("is its own body with the gateway's decisions laid over it (messages)", () => {
    const body = {
      model: "alias",
      max_tokens: 9_000,
      messages: [{ role: "user", content: "Hi" }],
      moon: { full: true },
    };
    const native = { dialect: "messages", body, betas: ["a-1", "b-2"], version: "2026-10-21" };
    const given = requestOf("messages", { model: "real", maxOutputTokens: 500, stream: false, native });
    expect(CODECS.messages.encodeRequest(given)).toEqual({
      body: { ...body, model: "real", max_tokens: 500 },
      path: "/messages",
      headers: { "anthropic-version": "2026-10-21", "anthropic-beta": "a-1,b-2" },
      fates: [],
    });
    expect(CODECS.messages.encodeRequest({ ...given, stream: true }).body).toMatchObject({ stream: true });
  });

  it.each([
    ["generationConfig", "maxOutputTokens"],
    ["generation_config", "max_output_tokens"],
  ])("is its own body with the limit laid over it, in its own spelling (%s)", (config, limit) => {
    const body = { contents: "Hi", [config]: { [limit]: 9_000, moon: 1 }, safety_settings: [] };
    const native = { dialect: "generate-content", body, betas: [] };
    const given = requestOf("generate-content", { model: "org/gem:1 x", maxOutputTokens: 500, native });
    expect(CODECS["generate-content"].encodeRequest(given)).toEqual({
      body: { ...body, [config]: { [limit]: 500, moon: 1 } },
      path: "/models/org/gem%3A1%20x:streamGenerateContent?alt=sse",
      headers: {},
      fates: [],
    });
  });

  it("names a limit where its caller named none", () => {
    const native = { dialect: "generate-content", body: { contents: "Hi" }, betas: [] };
    const given = requestOf("generate-content", { model: "tunedModels/t", stream: false, maxOutputTokens: 7, native });
    expect(CODECS["generate-content"].encodeRequest(given)).toMatchObject({
      body: { generationConfig: { maxOutputTokens: 7 } },
      path: "/tunedModels/t:generateContent",
    });
  });
});
