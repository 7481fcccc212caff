/** A process that dies while it makes a response in the background leaves a failed response and a settled hold. */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { expect, describe, it } from "vitest";
import { createGateway, systemClock } from "../../../src/index.ts";
import { sqlResponseStore } from "../../../src/stores/sql/index.ts";
import { UNASKED } from "../../pipeline/bench.ts";
import { databases } from "./databases.ts";
import { storeAt } from "./open.ts";

const MINUTES_MS = 300_000;

const shared = databases.filter(({ name }) => /^(?:SQLite in a file|PostgreSQL)$/.test(name));

describe.each(shared)("a process on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    it("may be killed: its response has failed, with what was said, and its hold is settled by the last note", async () => {
      const place = await database.place();
      const { dialect, prefix, db } = place;
      const { store, advance, clock } = storeAt(place);
      const apiKey = `sk-${randomUUID()}`;
      const keyId = await store.add({ apiKey, granted: 1_000_000 });
      const order = JSON.stringify({ dialect, prefix, address: place.address, apiKey, keyId });
      const program = new URL("background.ts", import.meta.url).pathname;
      const child = spawn(process.execPath, [program, order], { stdio: ["ignore", "pipe", "inherit"] });
      const exit = once(child, "exit");
      const [printed] = (await once(child.stdout, "data")) as [Buffer];
      const id = printed.toString().trim();
      child.kill("SIGKILL");
      await exit;

      let ahead = 0;
      const gateway = createGateway({
        backend: UNASKED,
        quotas: store,
        responseStore: sqlResponseStore({ db, dialect, prefix, clock }),
        clock: { ...systemClock, now: () => systemClock.now() + ahead },
      });
      const ask = (path: string): Promise<Response> =>
        gateway.fetch(
          new Request(`http://gateway/v1/responses/${path}`, { headers: { authorization: `Bearer ${apiKey}` } }),
        );
      expect(await (await ask(id)).json()).toMatchObject({ status: "in_progress" });
      expect((await store.report(keyId))?.held).toBeGreaterThan(0);

      ahead = MINUTES_MS;
      advance(ahead);
      const stream = await (await ask(`${id}?stream=true`)).text();
      expect(stream).toContain('"delta":"word "');
      expect(stream.trim().split("\n").at(-1)).toMatch(/^data: \{"type":"response\.failed"/);
      const response = { id, status: "failed", error: { code: "server_error" } };
      expect(await (await ask(id)).json()).toMatchObject(response);
      expect(await (await ask(id)).json()).toMatchObject(response);

      await store.sweep();
      const report = await store.report(keyId);
      expect(report).toMatchObject({ held: 0 });
      expect(report?.used).toBeGreaterThan("ten tokens".length);
      await gateway.close();
      await place.remove();
    });
  });
});
