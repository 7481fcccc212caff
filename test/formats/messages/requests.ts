/** Sends the accepted and the refused messages requests, and checks the field that each refusal names. */

import { describe, expect, it } from "vitest";
import { type Mount, sharedStage, type Stage } from "../../hosts/stage.ts";
import { ACCEPTED, ACCEPTED_IN_VENDOR_RANGES, ACCEPTED_VENDOR_SOURCES, type Accepted } from "./accepted.ts";
import { having } from "./bodies.ts";
import { invalidField, refusalOf, requestIdOf } from "./refusal.ts";
import { REFUSED, REFUSED_IN_VENDOR_RANGES, REFUSED_VENDOR_SOURCES, type Refused } from "./refused.ts";

export function requestsSuite(mount: Mount): void {
  describe("as the spec has it", () => {
    const stage = sharedStage(mount);
    accepts(stage, ACCEPTED);
    refuses(stage, REFUSED);
  });

  describe("with the official service's ranges", () => {
    const stage = sharedStage(mount, { messages: { ranges: "vendor" } });
    accepts(stage, ACCEPTED_IN_VENDOR_RANGES);
    refuses(stage, REFUSED_IN_VENDOR_RANGES);

    it("carries no number that is not set", async () => {
      const { backend, send } = stage();
      await send(having({ top_k: -1, top_p: -1 }));
      expect(backend.asked).not.toHaveProperty("topK");
      expect(backend.asked).not.toHaveProperty("topP");
    });
  });

  describe("with the official service's image sources", () => {
    const stage = sharedStage(mount, { messages: { imageSources: "vendor" } });
    accepts(stage, ACCEPTED_VENDOR_SOURCES);
    refuses(stage, REFUSED_VENDOR_SOURCES);
  });
}

function accepts(stage: () => Stage, cases: readonly Accepted[]): void {
  it.each(cases)("answers %s", async (_name, body) => {
    const { backend, send } = stage();
    const response = await send(body);
    requestIdOf(response);
    expect(await response.json()).toMatchObject({ type: "message", content: [{ type: "text", text: "Hello." }] });
    expect(response.status).toBe(200);
    // A backend that speaks the format gets the request as it came, unknown fields included.
    expect(backend.asked.native?.body).toEqual(JSON.parse(JSON.stringify(body)));
  });
}

function refuses(stage: () => Stage, cases: readonly Refused[]): void {
  it.each(cases)("refuses %s", async (_name, body, path) => {
    const { backend, send } = stage();
    const before = backend.received.length;
    expect(await refusalOf(await send(body))).toEqual(invalidField(path));
    expect(backend.received).toHaveLength(before);
  });
}
