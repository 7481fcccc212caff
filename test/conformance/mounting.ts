/** What is the gateway's and what stays its host's. */

import { describe, expect, it } from "vitest";
import { ownAnswer, type TestHost } from "../hosts/host.ts";
import { KEY, type Mount, openStage, post, sharedStage } from "./stage.ts";
import { MINIMAL } from "./messages/bodies.ts";

export function mountingSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`mounted at ${prefix || "the root"}`, () => {
      suite({ host, prefix });
    });
}

function suite(mount: Mount): void {
  const { host, prefix } = mount;
  const stage = sharedStage(mount);

  const NOT_OWNED = [
    "/",
    "/v1",
    "/v1/message",
    "/v1/messages/other",
    "/v2/messages",
    "/api/usage",
    "/api/usage/token/x",
  ];

  it.each(NOT_OWNED)("leaves %s to its host", async (path) => {
    const response = await stage().request(`${path}?key=${KEY}`, post({ any: "body" }));
    const own = ownAnswer(`${prefix}${path}?key=${KEY}`, '{"any":"body"}');
    expect([response.status, await response.text()]).toEqual(host.ownRoutes ? [200, own] : [404, ""]);
  });

  const beside = host.ownRoutes && prefix !== "" ? ["/v1/messages", `${prefix}x/v1/messages`, prefix.slice(0, -1)] : [];

  it.each(beside)("leaves %s, beside its prefix, to its host", async (path) => {
    const response = await stage().host.request(path, post(MINIMAL));
    expect(await response.text()).toBe(ownAnswer(path, JSON.stringify(MINIMAL)));
  });

  it("answers requests that come at once, each with its own", async () => {
    await using own = await openStage(mount, {
      async *play({ model }) {
        yield `I am ${model}.`;
      },
    });
    const names = Array.from({ length: 20 }, (_, index) => `model-${index}`);
    const responses = await Promise.all(names.map((model) => own.send({ ...MINIMAL, model })));
    for (const [index, response] of responses.entries())
      expect(await response.json()).toMatchObject({ content: [{ text: `I am ${names[index]}.` }] });
  });
}
