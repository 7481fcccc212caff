/** The checks of records and charges: as matchers of Vitest, which are those of Jest and Bun, and as functions. */

import { AssertionError } from "node:assert/strict";
import { describe, expect, it } from "vitest";
import type { ModelBackend } from "../../src/index.ts";
import {
  assertCharged,
  assertRecorded,
  type ExpectedRecord,
  failure,
  type PolygateMatchers,
  polygateMatchers,
  reply,
  scriptedBackend,
  type TestGateway,
  testGateway,
} from "../../src/testing/index.ts";
import { route } from "../../src/upstreams/route/index.ts";

// The files of a run share their modules, so `expect` itself stays as it is.
const { toHaveCharged, toHaveRecorded } = polygateMatchers;

/** Makes a gateway that has charged 15 exact units and refused a call. */
async function calledGateway(): Promise<TestGateway> {
  const gateway = testGateway({
    backend: scriptedBackend([reply("Hi", { usage: { inputTokens: 12, outputTokens: 3 } })]),
  });
  const send = (path: string, apiKey: string) =>
    gateway.fetch(path, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hello" }] }),
    });
  // The bodies are not read: the checks wait for the records by themselves.
  await send("/v1/chat/completions", gateway.apiKey);
  await send("/v1/chat/completions", "sk-wrong");
  return gateway;
}

const messageOf = async (check: Promise<unknown>): Promise<string> =>
  check.then(
    () => "passed",
    (error: unknown) => (error instanceof AssertionError ? error.message : `no AssertionError: ${String(error)}`),
  );

it("gives editors and runners the values that differ", async () => {
  await using gateway = await calledGateway();
  await expect(assertCharged(gateway, 14)).rejects.toMatchObject({ actual: 15, expected: 14 });
  const wrong = { status: 200, modelAsked: "large" };
  await expect(assertRecorded(gateway, wrong)).rejects.toMatchObject({
    actual: { status: 200, modelAsked: "small" },
    expected: wrong,
  });
});

describe("a charge", () => {
  it("passes when it is the sum of all calls, and otherwise lists them", async () => {
    await using gateway = await calledGateway();
    await expect(assertCharged(gateway, 15)).resolves.toBeUndefined();
    expect(await messageOf(assertCharged(gateway, 14))).toBe(
      [
        "Expected a charge of 14 units, but it is 15:",
        "POST /v1/chat/completions by small: 15 (exact)",
        "POST /v1/chat/completions: 0 (exact)",
      ].join("\n  "),
    );
    await using idle = testGateway();
    await expect(assertCharged(idle, 0)).resolves.toBeUndefined();
    expect(await messageOf(assertCharged(idle, 1))).toBe(
      "Expected a charge of 1 units, but it is 0: no call was recorded.",
    );
  });

  it("of something else than units, or of something else than a gateway, is a mistake of the test", async () => {
    await using gateway = testGateway();
    await expect(assertCharged(gateway, undefined as unknown as number)).rejects.toThrow(
      "assertCharged: expects quota units, not undefined.",
    );
    await expect(toHaveCharged([], 1)).rejects.toThrow("toHaveCharged: expects a gateway of testGateway(), not a list");
  });
});

const calling = async (answers: ModelBackend, calls = 1): Promise<TestGateway> => {
  const gateway = testGateway({ backend: answers });
  for (let call = 0; call < calls; call++) {
    const body = JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hello" }] });
    const headers = { authorization: `Bearer ${gateway.apiKey}`, "content-type": "application/json" };
    await gateway.fetch("/v1/chat/completions", { method: "POST", headers, body });
  }
  return gateway;
};
const failuresIn = (message: string): string[] | undefined =>
  message.split("\ngateway.failures has:\n  ")[1]?.split("\n  ");

describe("the failures of the calls", () => {
  it("stand once each below a charge and a record that differ, and say why", async () => {
    const large = scriptedBackend(reply("Hi", { usage: { inputTokens: 120_000, outputTokens: 4_000 } }));
    await using gateway = await calling(large, 2);
    const told = [
      expect.stringMatching(/^The model backend reported 120000 input tokens, and at most \d+ are believed\.$/),
    ];
    expect(failuresIn(await messageOf(assertCharged(gateway, 248_000)))).toEqual(told);
    expect(failuresIn(await messageOf(assertRecorded(gateway, { units: 124_000 })))).toEqual(told);
    expect(failuresIn((await toHaveCharged(gateway, 248_000)).message())).toEqual(told);
    expect(failuresIn((await toHaveRecorded(gateway, { units: 124_000 })).message())).toEqual(told);
  });

  it("have their causes, and are few and short", async () => {
    let call = 0;
    const failing = scriptedBackend(() => {
      throw new Error(`boom ${++call} ${"x".repeat(1_000)}`);
    });
    await using gateway = await calling(failing, 7);
    const lines = failuresIn(await messageOf(assertCharged(gateway, 1))) ?? [];
    expect(lines).toHaveLength(6);
    expect(lines[0]).toMatch(/boom 1 x+$/);
    expect(lines[0]).toHaveLength(500);
    expect(lines.at(-1)).toBe("and 2 others");
    expect(failuresIn(await messageOf(assertRecorded(gateway, { units: 1 })))).toHaveLength(1);
  });

  it("of other calls, and where there are none, add nothing", async () => {
    await using gateway = await calling(scriptedBackend([failure("backend_failed", "Gone."), "Hello."]), 2);
    expect(failuresIn(await messageOf(assertRecorded(gateway, { status: 200, units: 99 })))).toBeUndefined();
    await using fine = await calledGateway();
    expect(failuresIn(await messageOf(assertCharged(fine, 14)))).toBeUndefined();
  });
});

describe("a record", () => {
  it.each<[what: string, expected: ExpectedRecord]>([
    ["one field", { status: 401 }],
    ["several fields of one record, at any depth", { status: 200, key: { id: "test" }, usage: { outputTokens: 3 } }],
    ["matchers", { requestId: expect.stringContaining("req_"), endMs: expect.any(Number) }],
    ["empty lists", { attempts: [], dropped: [] }],
    ["a field that is undefined", { modelAsked: undefined, errorCode: "invalid_api_key" }],
  ])("is found by %s", async (_what, expected) => {
    await using gateway = await calledGateway();
    await expect(assertRecorded(gateway, expected)).resolves.toBeUndefined();
  });

  it("is found by the fields of the elements of a list, of which it has as many", async () => {
    const upstreams = [failure("backend_overloaded"), reply("Hi")].map((step, at) => ({
      name: `u${at}`,
      backend: scriptedBackend([step]),
      weight: 1 - at,
    }));
    await using gateway = testGateway({ backend: route({ routes: { "*": { upstreams } } }) });
    await gateway.fetch("/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "small", messages: [{ role: "user", content: "Hello" }] }),
    });
    const [first, second] = [{ upstream: "u0", errorCode: "backend_overloaded" as const }, { upstream: "u1" }];
    await assertRecorded(gateway, { attempts: [first, second] });
    expect(await messageOf(assertRecorded(gateway, { attempts: [second, first] }))).toContain(
      "attempts[0].upstream: 'u0' instead of 'u1'",
    );
    expect(await messageOf(assertRecorded(gateway, { attempts: [first] }))).toContain("attempts: [");
  });

  it("that is missing is told by the nearest one", async () => {
    await using gateway = await calledGateway();
    const expected = { status: 200, modelAsked: "large", usage: { inputTokens: 12, outputTokens: 4 } };
    const message = await messageOf(assertRecorded(gateway, expected));
    expect(message).toContain("but the nearest of 2 records, of POST /v1/chat/completions by small, differs:\n");
    expect(message.split("\n  ").slice(-2)).toEqual([
      "modelAsked: 'small' instead of 'large'",
      "usage.outputTokens: 3 instead of 4",
    ]);
    const other = await messageOf(assertRecorded(gateway, { status: 200, endMs: expect.any(String) }));
    expect(other).toMatch(/endMs: \d+ instead of Any<String>$/);
    // Fields of different records do not add up.
    expect(await messageOf(assertRecorded(gateway, { status: 200, errorCode: "invalid_api_key" }))).toContain(
      "errorCode: undefined instead of 'invalid_api_key'",
    );
  });

  it("that is missing because no call was made is told so", async () => {
    await using gateway = testGateway();
    expect(await messageOf(assertRecorded(gateway, { status: 200 }))).toBe(
      "Expected a record with { status: 200 }, but no call was recorded.",
    );
  });

  it("with a field that records do not have names the field that was meant", async () => {
    await using gateway = await calledGateway();
    const check = assertRecorded(gateway, { model: "small" } as ExpectedRecord);
    await expect(check).rejects.toThrow(
      "assertRecorded: model does not exist; did you mean modelAsked or modelListed or modelAnswered?",
    );
    await expect(assertRecorded(gateway, "small" as ExpectedRecord)).rejects.toThrow("not a text");
  });
});

describe("as a matcher", () => {
  it("tells the same, and the opposite behind `not`", async () => {
    await using gateway = await calledGateway();
    const charged = await toHaveCharged(gateway, 15);
    expect([charged.pass, charged.message().split("\n")[0]]).toEqual([true, "Expected another charge than 15 units."]);
    const less = await toHaveCharged(gateway, 14);
    expect([less.pass, less.message().split("\n")[0]]).toEqual([false, "Expected a charge of 14 units, but it is 15:"]);
    const found = await toHaveRecorded(gateway, { status: 401 });
    expect([found.pass, found.message()]).toEqual([
      true,
      "Expected no record with { status: 401 }, but there is one of POST /v1/chat/completions.",
    ]);
    expect((await toHaveRecorded(gateway, { status: 402 })).pass).toBe(false);
  });

  it("tells to await it, if its gateway was closed before it has ended", async () => {
    const gateway = await calledGateway();
    const unawaited = [toHaveCharged(gateway, 14), toHaveRecorded(gateway, { status: 402 })];
    await gateway.close();
    const messages = (await Promise.all(unawaited)).map(({ message }) => message().split("\n").at(-1));
    expect(messages).toEqual(
      ["toHaveCharged", "toHaveRecorded"].map(
        (name) => `The gateway was closed meanwhile. Write await: await expect(gateway).${name}(…).`,
      ),
    );
    // Of a gateway that was closed before, the matchers may be asked in peace.
    expect((await toHaveCharged(gateway, 14)).message()).not.toContain("await");
  });

  it("has the name that a host's declarations have", () => {
    const names: readonly (keyof PolygateMatchers)[] = ["toHaveCharged", "toHaveRecorded"];
    expect(Object.keys(polygateMatchers)).toEqual(names);
  });
});
