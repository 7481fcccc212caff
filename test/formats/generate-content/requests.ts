/** Which generate-content requests are answered and which are refused, with the field that is at fault. */

import { expect, it } from "vitest";
import { type Mount, sharedStage } from "../../hosts/stage.ts";
import { ACCEPTED } from "./accepted.ts";
import { GENERATE, send } from "./calls.ts";
import { invalidField, refusalOf, requestIdOf } from "./refusal.ts";
import { CONTRADICTIONS } from "./refused-config.ts";
import { REFUSED } from "./refused.ts";

export function requestsSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  it.each(ACCEPTED)("answers %s", async (_name, body) => {
    const response = await send(stage(), GENERATE, body);
    requestIdOf(response);
    expect(await response.json()).toMatchObject({ candidates: [{ content: { parts: [{ text: "Hello." }] } }] });
    expect(response.status).toBe(200);
    // Whatever the gateway understood of it, a backend that speaks the format gets the request as it came.
    expect(stage().backend.asked.native?.body).toEqual(JSON.parse(JSON.stringify(body)));
  });

  it.each(REFUSED)("refuses %s", async (_name, body, path) => {
    const before = stage().backend.received.length;
    expect(await refusalOf(await send(stage(), GENERATE, body))).toEqual(invalidField(path));
    expect(stage().backend.received).toHaveLength(before);
  });

  it.each(CONTRADICTIONS)("refuses %s, and names both", async (_name, body, field, other) => {
    const refusal = await refusalOf(await send(stage(), GENERATE, body));
    expect(refusal).toEqual(invalidField(field));
    expect(refusal.message.slice(field.length)).toContain(other);
  });
}
