/** Holds a lifeline to its word: it fires at once, once, with its reason, and never after a normal end. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { Lifeline } from "../../src/http/lifeline.ts";
import { manualClock } from "../contracts/manual-clock.ts";

const DEADLINE_MS = 5_000;

function lifeline(client = new AbortController()) {
  const clock = manualClock();
  const life = new Lifeline(client.signal, clock, DEADLINE_MS);
  const fired: unknown[] = [];
  life.signal.addEventListener("abort", () => fired.push(life.signal.reason));
  return { client, clock, life, fired };
}

const reason = (code: string): unknown => expect.objectContaining({ name: "GatewayError", code });

describe("a lifeline", () => {
  it("holds while nothing happens", async () => {
    const { clock, life } = lifeline();
    await clock.advance(DEADLINE_MS - 1);
    expect(life.signal.aborted).toBe(false);
  });

  it("ends at the deadline", async () => {
    const { clock, fired } = lifeline();
    await clock.advance(DEADLINE_MS);
    expect(fired).toEqual([reason("deadline_exceeded")]);
  });

  it("ends when the client is gone, at once", () => {
    const { client, fired } = lifeline();
    client.abort();
    expect(fired).toEqual([reason("client_closed")]);
  });

  it("has ended when the client was gone before", () => {
    const client = new AbortController();
    client.abort();
    expect(lifeline(client).life.signal).toMatchObject({ aborted: true, reason: reason("client_closed") });
  });

  it("ends when it is cut, for the reason given", () => {
    const { life, fired } = lifeline();
    const why = new GatewayError("backend_failed", "Broken.");
    life.cut(why);
    expect(fired).toEqual([why]);
  });

  it("ends once, for the first reason", async () => {
    const { client, clock, life, fired } = lifeline();
    client.abort();
    await clock.advance(DEADLINE_MS);
    life.cut(new GatewayError("internal", "Late."));
    expect(fired).toEqual([reason("client_closed")]);
    expect(life.signal.reason).toEqual(reason("client_closed"));
  });

  it("does not end after its call is over", async () => {
    const { client, clock, life, fired } = lifeline();
    life.end();
    await clock.advance(DEADLINE_MS);
    client.abort();
    expect(fired).toEqual([]);
  });
});
