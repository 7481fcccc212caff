// stop.ts
import { createServer } from "node:http";
import { createGateway } from "polygate";
import { relay } from "polygate/backends/relay";
import { toNodeHandler } from "polygate/node";
import { openStores } from "polygate/stores";

const stores = await openStores(process.env["POLYGATE_STORE"] ?? "sqlite::memory:");
const backend = relay({ format: "messages", baseUrl: process.env["UPSTREAM_URL"] ?? "https://api.anthropic.com/v1" });
const gateway = createGateway({ backend, ...stores.ports });
const server = createServer(toNodeHandler(gateway)).listen(3000);

process.once("SIGTERM", async () => {
  await gateway.close({ deadlineMs: 10_000 }); // Refuses new calls, and settles the others.
  await new Promise((resolve) => server.close(resolve)); // Clients receive their last answers.
  await backend.close(); // Closes the connections of a relay, or of all relays of a route.
  await stores.close(); // Stops the sweeps, and closes the connections to the database.
});
