/** Counting tokens: the input alone, without an answer and at no charge. */

import { expect, it } from "vitest";
import { usageOf } from "../playground.ts";
import { png } from "../png.ts";
import { errorOf, type Stage, wireError } from "./sdk.ts";

export function countTokensSuite({ sdk, connect, playground }: Stage): void {
  const count = async (contents: Parameters<ReturnType<typeof connect>["models"]["countTokens"]>[0]["contents"]) =>
    (await connect().models.countTokens({ model: "demo-chat", contents })).totalTokens ?? 0;

  it("counts the input and says nothing else", async () => {
    const { totalTokens } = await connect().models.countTokens({ model: "demo-chat", contents: "Think of me" });
    expect(Number.isSafeInteger(totalTokens)).toBe(true);
    expect(totalTokens).toBeGreaterThan(0);
  });

  it("counts more for more", async () => {
    const plain = await count("Think of me");
    expect(await count("Think of me ".repeat(10))).toBeGreaterThan(plain);
    expect(await count(["Think of me", "and of others"])).toBeGreaterThan(plain);
    const image = { inlineData: { mimeType: "image/png", data: png(8, 8).toString("base64") } };
    expect(await count(["Think of me", image])).toBeGreaterThanOrEqual(plain + 256);
  });

  it("costs nothing", async () => {
    const before = await usageOf(playground().url, "sk-metered");
    await connect({ apiKey: "sk-metered" }).models.countTokens({ model: "demo-chat", contents: "Think of me" });
    expect(await usageOf(playground().url, "sk-metered")).toEqual(before);
  });

  it.each([
    ["sk-nobody", "demo-chat", 401, "UNAUTHENTICATED"],
    ["sk-demo", "nobody", 404, "NOT_FOUND"],
    ["sk-limited", "nobody", 403, "PERMISSION_DENIED"],
  ])("refuses %s for %s", async (apiKey, model, code, status) => {
    const error = await errorOf(connect({ apiKey }).models.countTokens({ model, contents: "Hello" }));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({ code, status });
  });
}
