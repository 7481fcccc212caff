/** When the mounts of Bun and Deno ask a request for its signal: not for a call that is over within its turn of the event loop. */

import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { toBunHandler } from "../../adapters/bun.ts";
import { toDenoHandler } from "../../adapters/deno.ts";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { aborted } from "../aborted.ts";
import { MINIMAL } from "../formats/messages/bodies.ts";
import { KEY, post } from "../hosts/stage.ts";

interface Asked {
  readonly request: Request;
  /** How often the signal was asked for. */
  readonly signals: () => number;
  readonly hangUp: () => void;
}

function asked(body: object): Asked {
  const client = new AbortController();
  let signals = 0;
  const request = new Request("http://host.test/v1/messages", post(body));
  Object.defineProperty(request, "signal", { get: () => (signals++, client.signal) });
  return { request, signals: () => signals, hangUp: () => client.abort() };
}

const stopped: unknown[] = [];

const backend: ModelBackend = {
  async *chat({ model }, { signal }) {
    if (model === "waits") await aborted(signal);
    signal.throwIfAborted();
    yield "Hello.";
  },
};

const gatewayOf = () => {
  const quotas = memoryQuotaStore([{ apiKey: KEY, granted: 1_000_000 }]);
  return createGateway({ backend, quotas, onCall: ({ outcome }) => void stopped.push(outcome) });
};

const MOUNTS = [
  ["Bun", (request: Request) => toBunHandler(gatewayOf())(request, { timeout: () => {} })],
  ["Deno", (request: Request) => toDenoHandler(gatewayOf())(request, undefined)],
] as const;

it.each(MOUNTS)("%s: a call that is refused at once needs no signal", async (_name, handle) => {
  const request = new Request("http://host.test/v1/messages", { method: "POST" });
  let signals = 0;
  Object.defineProperty(request, "signal", { get: () => (signals++, new AbortController().signal) });
  expect((await handle(request)).status).toBe(401);
  await turn();
  expect(signals).toBe(0);
});

it.each(MOUNTS)("%s: a call that waits hears of a hang-up through it", async (_name, handle) => {
  stopped.length = 0;
  const { request, signals, hangUp } = asked({ ...MINIMAL, model: "waits" });
  const answer = handle(request);
  await turn();
  expect(signals()).toBe(1);
  hangUp();
  expect((await answer).status).toBe(499);
  expect(stopped).toEqual(["client-closed"]);
});

it.each(MOUNTS)("%s: a client that is gone before the signal is asked for is heard of, too", async (_name, handle) => {
  stopped.length = 0;
  const { request, hangUp } = asked({ ...MINIMAL, model: "waits" });
  const answer = handle(request);
  hangUp();
  expect((await answer).status).toBe(499);
  expect(stopped).toEqual(["client-closed"]);
});
