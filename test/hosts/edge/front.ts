/**
 * Stands before workerd as a network stands before its workers: clients connect to it, and it tells of one that hangs up by
 * dropping its request. Left to itself workerd does not see that a client has closed its side until it writes to it.
 */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Front {
  readonly port: number;
  close(): void;
}

/** @param workerPort Where workerd listens. */
export async function openFront(workerPort: number): Promise<Front> {
  const clients = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    const worker = connect({ port: workerPort, host: "127.0.0.1", noDelay: true });
    clients.add(client);
    client.pipe(worker, { end: false });
    worker.pipe(client);
    const drop = (): void => void worker.resetAndDestroy();
    client.on("error", drop).on("end", drop);
    client.on("close", () => (drop(), clients.delete(client)));
    worker.on("error", () => {}).on("close", () => client.destroySoon());
  });
  server.listen(0, "127.0.0.1").unref();
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      for (const client of clients) client.destroy();
    },
  };
}
