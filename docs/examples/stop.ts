// stop.ts
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { createGateway } from "polygate";
import { relay } from "polygate/backends/relay";
import { toNodeHandler } from "polygate/node";
import { openStores } from "polygate/stores";

const stores = await openStores(process.env["POLYGATE_STORE"] ?? "sqlite::memory:");
const backend = relay({ format: "messages", baseUrl: process.env["UPSTREAM_URL"] ?? "https://api.anthropic.com/v1" });
const gateway = createGateway({ backend, ...stores.ports });
const serve = toNodeHandler(gateway);
let isLeaving = false;
const server = createServer(async (req, res) => {
  if (req.url !== "/readyz") return serve(req, res);
  const ready = !isLeaving && (await gateway.health()).ready;
  res.writeHead(ready ? 200 : 503).end();
}).listen(3000);

process.once("SIGTERM", async () => {
  isLeaving = true; // Tells the load balancer to send its calls elsewhere.
  await setTimeout(Number(process.env["CLOSE_DELAY_MS"] ?? 0)); // Serves calls until the balancer has asked.
  await gateway.close({ deadlineMs: 10_000 }); // Refuses new calls, and settles the others.
  await new Promise((resolve) => server.close(resolve)); // Clients receive their last answers.
  await backend.close(); // Closes the connections of a relay, or of all relays of a route.
  await stores.close(); // Stops the sweeps, and closes the connections to the database.
});
