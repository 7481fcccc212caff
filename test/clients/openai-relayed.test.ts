/** The official OpenAI SDK against a playground that relays pictures to a second one: all that it can do there, it can do here. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Sdk, sdks, stageOf } from "./openai/sdk.ts";
import { suites } from "./openai/suites.ts";
import { type Playground, startPlayground, usageOf } from "./playground.ts";

describe("through a relay", () => {
  let upstream: Playground;
  let front: Playground;

  beforeAll(async () => {
    upstream = await startPlayground();
    front = await startPlayground({
      POLYGATE_UPSTREAM: "images",
      POLYGATE_UPSTREAM_URL: `${upstream.url}/v1`,
      POLYGATE_UPSTREAM_KEY: "sk-metered",
    });
  });

  afterAll(async () => {
    await front.stop();
    await upstream.stop();
  });

  // The playground itself answers all else here: its upstream only draws.
  describe.each(suites.filter(([name]) => !["embedding", "responses"].includes(name)))("%s", (_name, suite) => {
    suite(stageOf(sdks[0] as Sdk, () => front));
  });

  it("was all drawn by the upstream", async () => {
    expect((await usageOf(upstream.url, "sk-metered")).total_used).toBeGreaterThan(10_000);
  });
});
