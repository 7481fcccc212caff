/** Where generate-content is asked (spec 4): which paths are the gateway's, and which model each of them names. */

import { describe, expect, it } from "vitest";
import { MINIMAL } from "../formats/generate-content/bodies.ts";
import { METHODS, posting } from "../formats/generate-content/calls.ts";
import { refusalOf } from "../formats/generate-content/refusal.ts";
import { ownAnswer } from "../hosts/host.ts";
import { KEY, type Mount, sharedStage } from "../hosts/stage.ts";
import { NOWHERE } from "./mounting.ts";

const MODELS: readonly (readonly [name: string, tail: string, model: string])[] = [
  ["a plain id", "models/model-a", "model-a"],
  ["an id with a version", "models/model-1.5-pro-002", "model-1.5-pro-002"],
  ["an id with slashes", "models/org/team/model", "org/team/model"],
  ["an id with a colon", "models/model:free", "model:free"],
  ["an id with several colons", "models/a:b:c", "a:b:c"],
  ["an id with what stands for a method", "models/model:generateContent", "model:generateContent"],
  ["an id with escapes", "models/org%2Fmodel%3A1%20x%C3%A9", "org/model:1 xé"],
  ["an id with everything", "models/org/gem:1%20x", "org/gem:1 x"],
  ["an id with an escaped percent", "models/a%2525", "a%25"],
  ["an id with a plus", "models/a+b", "a+b"],
  ["an id in its resource form", "models/models/model-a", "model-a"],
  ["an id in its resource form, escaped", "models/models%2Fmodel-a", "model-a"],
  ["a tuned model", "tunedModels/my-model-1", "tunedModels/my-model-1"],
  ["a tuned model with a colon", "tunedModels/my:model", "tunedModels/my:model"],
];

/** Addresses of models, which can only be read. */
const ONLY_READ: readonly string[] = ["/v1beta/models/model-a", "/v1beta/models/generateContent"];

const NOT_OWNED: readonly string[] = [
  "/v1beta/model-a:generateContent",
  "/v1alpha/models/model-a:generateContent",
  "/v2/models/model-a:generateContent",
  "/v1beta/files",
  "/v1beta/cachedContents",
];

/** Addresses of methods that no model has. */
const NO_METHODS: readonly (readonly [path: string, meant: string | undefined])[] = [
  ["/v1beta/tunedModels/model-a:embedContent", undefined],
  ["/v1beta/models/model-a:asyncBatchEmbedContent", "batchEmbedContents"],
  ["/v1beta/models/model-a:predict", undefined],
  ["/v1beta/models/model-a:GenerateContent", "generateContent"],
  ["/v1beta/models/model-a:generateContents", "generateContent"],
  ["/v1beta/models/model-a:generateContentNow", "generateContent"],
];

const MALFORMED: readonly string[] = ["%", "%zz", "model%", "%E0%A4%A", "a%2"];

export function modelAddressesSuite(mount: Mount): void {
  const { host, prefix } = mount;
  const stage = sharedStage(mount);

  describe.each(["v1beta", "v1"])("under %s", (version) => {
    it.each(MODELS)("%s", async (_name, tail, model) => {
      const { request, backend } = stage();
      for (const method of ["generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent"]) {
        const response = await request(`/${version}/${tail}:${method}`, posting(MINIMAL));
        expect(response.status).toBe(200);
        await response.text();
        expect(backend.asked.model).toBe(model);
      }
    });

    it("counts tokens", async () => {
      for (const [, tail] of MODELS) {
        const response = await stage().request(`/${version}/${tail}:countTokens`, posting(MINIMAL));
        expect(await response.json()).toEqual({ totalTokens: 1 });
      }
    });
  });

  it.each(MALFORMED)("refuses the malformed id %s", async (id) => {
    for (const method of ["generateContent", "streamGenerateContent", "countTokens"]) {
      const response = await stage().request(`/v1beta/models/${id}:${method}`, posting(MINIMAL));
      expect(await refusalOf(response)).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    }
  });

  it("refuses an empty id", async () => {
    for (const tail of ["models/:generateContent", "models/models/:generateContent", "tunedModels/:generateContent"]) {
      const response = await stage().request(`/v1beta/${tail}`, posting(MINIMAL));
      expect(await refusalOf(response)).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    }
  });

  it.each(NOT_OWNED)("leaves %s to its host", async (path) => {
    const response = await stage().request(`${path}?key=${KEY}`, posting(MINIMAL));
    const own = ownAnswer(`${prefix}${path}?key=${KEY}`, JSON.stringify(MINIMAL));
    expect([response.status, await response.text()]).toEqual(host.ownRoutes ? [200, own] : [404, NOWHERE]);
  });

  it.each(ONLY_READ)("refuses to post to %s", async (path) => {
    const response = await stage().request(path, posting(MINIMAL));
    expect(response.status).toBe(405);
    expect(await response.json()).toMatchObject({ error: { code: 405 } });
  });

  it.each(NO_METHODS)("has no method %s, and names %s", async (path, meant) => {
    const response = await stage().request(`${path}?key=${KEY}`, posting(MINIMAL));
    expect(response.status).toBe(404);
    const refusal = await refusalOf(response);
    expect(refusal).toMatchObject({ code: 404, status: "NOT_FOUND" });
    const { message } = refusal as { message: string };
    const [, named] = /^A model has no method "\w+"\.(?: Did you mean (\w+)\?)?$/.exec(message) ?? [message, message];
    expect(named).toBe(meant);
  });

  describe("the form of a stream", () => {
    it.each([
      ["alt=sse", "?alt=sse", "text/event-stream"],
      ["alt=sse after a key", `?key=${KEY}&alt=sse`, "text/event-stream"],
      ["no alt", "", "application/json"],
      ["alt=json", "?alt=json", "application/json"],
    ])("by %s", async (_name, query, type) => {
      const response = await stage().request(`/v1beta/models/model-a:streamGenerateContent${query}`, posting(MINIMAL));
      expect(response.headers.get("content-type")?.split(";")[0]).toBe(type);
      await response.text();
    });

    it("is not asked of a complete answer", async () => {
      const response = await stage().request("/v1beta/models/model-a:generateContent?alt=sse", posting(MINIMAL));
      expect(response.headers.get("content-type")).toBe("application/json");
      expect(await response.json()).toMatchObject({ candidates: [{ finishReason: "STOP" }] });
    });
  });

  it.each(METHODS)("takes no word of the body for how the answer is asked for: %s", async (name, path) => {
    const response = await stage().request(path, posting({ ...MINIMAL, stream: name === "complete", model: "other" }));
    await response.text();
    expect(stage().backend.asked).toMatchObject({ stream: name !== "complete", model: "model-a" });
  });
}
