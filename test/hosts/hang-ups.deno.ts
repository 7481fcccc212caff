/** A gateway in Deno whose backend tells on standard output when it is asked to wait, and when its signal fires. */

import { toDenoHandler } from "../../adapters/deno.ts";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { KEY } from "./stage.ts";

const backend: ModelBackend = {
  async *chat({ model }, { signal }) {
    if (model === "waits") {
      console.log("waits");
      await new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          console.log("stopped");
          reject(signal.reason);
        });
      });
    }
    // A turn of the event loop, as a model takes at least: the mount listens for hang-ups by then.
    await new Promise((resolve) => setTimeout(resolve));
    yield "Hello.";
  },
};

const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: KEY, granted: 1_000_000 }]) });
const { addr } = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, toDenoHandler(gateway));
console.log(addr.port);
