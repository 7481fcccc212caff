/** What pictures cost: all of them are held before they are drawn, and charged are those that really came (spec 8). */

import { describe, expect, it } from "vitest";
import { type ApiKeyOptions, GatewayError, type ImageKind, imagePriceTable } from "../../../src/index.ts";
import { aborted } from "../../aborted.ts";
import { Cues } from "../../hosts/cues.ts";
import { flat, imagePriceFrom } from "../../hosts/prices.ts";
import { drawn, type ImagePlay, type Mount, openStage, type Stage, type StageOptions } from "../../hosts/stage.ts";
import { CLEAR } from "./pictures.ts";
import { anyText, refusalOf } from "./refusal.ts";
import { as, edit, editing, file, generate, generating, vary, varying } from "./requests.ts";

const PRICE = 100;
const METERED = "sk-metered";
const granted = (granted: number): StageOptions => ({
  keys: [{ apiKey: METERED, granted }] satisfies ApiKeyOptions[],
  imagePrice: flat(PRICE),
});

const ask = (stage: Stage, fields: object): Promise<Response> =>
  generate(stage, generating({ ...fields }), as(METERED));

const drawsThen = (count: number, then: () => void): ImagePlay =>
  async function* () {
    for (let number = 0; number < count; number++) yield drawn(number);
    then();
  };

function fail(): never {
  throw new GatewayError("backend_unavailable", "Gone.");
}

const insufficient = {
  status: 429,
  type: "rate_limit_error",
  code: "insufficient_quota",
  param: null,
  message: anyText,
};

export function quotaSuite(mount: Mount): void {
  it.each([
    [1, 100],
    [10, 1_000],
  ])("of exactly what %i pictures cost is enough, and one unit less is not", async (n, units) => {
    await using enough = await openStage(mount, granted(units));
    expect((await ask(enough, { n })).status).toBe(200);
    expect(enough.quotas.report(METERED)).toMatchObject({ used: units, available: 0, liveHolds: 0, estimated: 0 });

    await using scarce = await openStage(mount, granted(units - 1));
    for (const stream of [false, true]) {
      const response = await ask(scarce, { n, stream });
      expect(response.headers.get("x-should-retry")).toBe("false");
      expect(await refusalOf(response)).toEqual(insufficient);
    }
    expect(scarce.backend.receivedForImages).toEqual([]);
    expect(scarce.quotas.report(METERED)).toMatchObject({ used: 0, liveHolds: 0 });
  });

  it.each([false, true])("is held for all pictures while they are drawn (stream: %s)", async (stream) => {
    const cues = new Cues();
    await using stage = await openStage(mount, {
      ...granted(1_000),
      async *imagePlay() {
        cues.give("drawing");
        yield drawn(0);
        await cues.wait("go on");
        yield drawn(1);
      },
    });
    const answer = ask(stage, { n: 7, stream });
    await cues.wait("drawing");
    expect(stage.quotas.report(METERED)).toMatchObject({ held: 700, liveHolds: 1, available: 300 });
    // What others hold is not there for this one, which may try again: some of it may come back.
    const held = await ask(stage, { n: 4 });
    expect(held.headers.get("retry-after")).toBe("1");
    expect(await refusalOf(held)).toMatchObject({ status: 429, code: "quota_held" });
    cues.give("go on");
    await (await answer).text();
    await stage.settled;
    expect(stage.quotas.report(METERED)).toMatchObject({ used: 200, held: 0, liveHolds: 0 });
  });

  it.each([
    ["as many as were asked for", 3, 3],
    ["fewer", 1, 1],
    ["more", 5, 3],
  ])("is charged for what came: %s", async (_name, count, charged) => {
    for (const stream of [false, true]) {
      await using stage = await openStage(mount, { ...granted(1_000), imagePlay: drawsThen(count, () => {}) });
      const response = await ask(stage, { n: 3, stream });
      expect(response.status).toBe(200);
      await response.text();
      await stage.settled;
      expect(stage.quotas.report(METERED)).toMatchObject({ used: charged * PRICE, liveHolds: 0, overdraft: 0 });
    }
  });

  it.each([0, 1, 2])("is charged for the %i pictures that came before a failure", async (count) => {
    for (const stream of [false, true]) {
      await using stage = await openStage(mount, { ...granted(1_000), imagePlay: drawsThen(count, fail) });
      await (await ask(stage, { n: 3, stream })).text();
      await stage.settled;
      expect(stage.quotas.report(METERED)).toMatchObject({ used: count * PRICE, liveHolds: 0 });
    }
  });

  it.each([false, true])("is charged for what came before the client hung up (stream: %s)", async (stream) => {
    const cues = new Cues();
    await using own = await openStage(mount, {
      ...granted(1_000),
      async *imagePlay(_request, { signal }) {
        try {
          yield drawn(0);
          yield drawn(1);
          cues.give("drawing");
          await aborted(signal);
        } finally {
          cues.give(`ended: ${(signal.reason as GatewayError | undefined)?.code}`);
        }
      },
    });
    const hangUp = new AbortController();
    const init = { method: "POST", headers: { "content-type": "application/json", ...as(METERED) } };
    const body = JSON.stringify(generating({ n: 3, stream }));
    const sent = own
      .request("/v1/images/generations", { ...init, body, signal: hangUp.signal })
      .then((response) => response.text());
    const outcome = Promise.allSettled([sent]);
    await cues.wait("drawing");
    hangUp.abort();
    await cues.wait("ended: client_closed");
    await own.settled;
    await outcome;
    expect(own.quotas.report(METERED)).toMatchObject({ used: 2 * PRICE, liveHolds: 0 });
    expect(own.failures).toEqual([]);
  });

  it("admits of requests at once exactly those that it affords", async () => {
    await using stage = await openStage(mount, granted(750));
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(stage, { n: 2 })));
    const served = answers.filter(({ status }) => status === 200);
    const refused = answers.filter(({ status }) => status === 429);
    expect([served.length, refused.length]).toEqual([3, 17]);
    expect(stage.quotas.report(METERED)).toMatchObject({ used: 600, liveHolds: 0, overdraft: 0 });
  });

  it("is not charged for what was refused", async () => {
    await using stage = await openStage(mount, granted(1_000));
    await (await ask(stage, { n: 0 })).text();
    await (await ask(stage, { model: "image-model-9" })).text();
    await (await edit(stage, editing({ image: file(CLEAR.slice(9)) }), as(METERED))).text();
    expect(stage.quotas.report(METERED)).toMatchObject({ used: 0, liveHolds: 0 });
  });

  describe("by the price", () => {
    it("that its host sets, which is told what is drawn", async () => {
      const asked: ImageKind[] = [];
      await using stage = await openStage(mount, {
        keys: [{ apiKey: METERED, granted: 10_000 }],
        imagePrice: imagePriceFrom({ byModel: { "image-model-3": 10.2 }, otherwise: 7 }, (image) => asked.push(image)),
      });
      await (await ask(stage, { model: "dall-e-3", size: "1792x1024", quality: "hd" })).text();
      await (await edit(stage, editing({ n: "2", quality: "low" }), as(METERED))).text();
      await (await vary(stage, varying({ size: "256x256" }), as(METERED))).text();
      expect(stage.quotas.report(METERED)).toMatchObject({ used: 11 + 14 + 7 });
      for (const image of [
        { model: "image-model-3", size: "1792x1024", quality: "hd" },
        { model: "image-model-multi", size: "auto", quality: "low" },
        { model: "image-model-2", size: "256x256", quality: undefined },
      ])
        expect(asked).toContainEqual(image);
    });

    it("of a table, where its host sets none", async () => {
      await using stage = await openStage(mount, { keys: [{ apiKey: METERED, granted: 1_000_000 }] });
      let used = 0;
      for (const [model, size, quality] of [
        ["image-model-2", "256x256", undefined],
        ["image-model-2", "1024x1024", undefined],
        ["image-model-3", "1024x1024", "standard"],
        ["image-model-3", "1024x1792", "hd"],
        ["image-model-multi", "1536x1024", "low"],
        ["image-model-multi", "1536x1024", "high"],
        ["image-model-multi", "auto", "auto"],
      ] as const) {
        await (await ask(stage, { model, size, quality })).text();
        used += imagePriceTable({ model, size, quality });
        expect(stage.quotas.report(METERED)).toMatchObject({ used });
      }
    });

    it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])(
      "of %d is the host's mistake, and costs nothing",
      async (price) => {
        await using stage = await openStage(mount, {
          keys: [{ apiKey: METERED, granted: 1_000 }],
          imagePrice: flat(price),
        });
        const refusal = await refusalOf(await ask(stage, {}));
        expect(refusal).toEqual({ ...insufficient, status: 500, type: "server_error", code: "internal_error" });
        expect(stage.failures).toHaveLength(1);
        expect(stage.quotas.report(METERED)).toMatchObject({ used: 0, liveHolds: 0 });
      },
    );

    it("of nothing is free", async () => {
      await using stage = await openStage(mount, { keys: [{ apiKey: METERED, granted: 1 }], imagePrice: flat(0) });
      expect((await ask(stage, { n: 10 })).status).toBe(200);
      expect(stage.quotas.report(METERED)).toMatchObject({ used: 0 });
    });
  });
}
