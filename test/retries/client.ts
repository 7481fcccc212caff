/** A client that loses its connection while it sends a request or reads the answer. */

import { type Agent, type ClientRequest, type IncomingMessage, request } from "node:http";

/** The moment at which an attempt breaks off. */
export type Cut =
  | { readonly after: "ms"; readonly ms: number }
  | { readonly after: "sent"; readonly bytes: number }
  | { readonly after: "received"; readonly bytes: number };

export interface Attempt {
  readonly port: number;
  readonly agent: Agent;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Undefined when the connection holds. */
  readonly cut: Cut | undefined;
}

export interface Received {
  /** Undefined when no head arrived. */
  readonly status: number | undefined;
  readonly replayed: boolean;
  readonly text: string;
  /** True when the answer arrived to its end. */
  readonly isWhole: boolean;
}

/** Makes one attempt. Never rejects: a broken connection is a result. */
export function attempt({ port, agent, path, headers, body, cut }: Attempt): Promise<Received> {
  return new Promise((resolve) => {
    const bytes = Buffer.from(body);
    const chunks: Buffer[] = [];
    let head: IncomingMessage | undefined;
    let isCut = false;
    let timer: NodeJS.Timeout | undefined;
    const end = (isWhole: boolean): void => {
      clearTimeout(timer);
      const text = Buffer.concat(chunks).toString();
      resolve({ status: head?.statusCode, replayed: head?.headers["polygate-replayed"] !== undefined, text, isWhole });
    };
    const breakOff = (): void => {
      isCut = true;
      sent.destroy();
    };
    const sent: ClientRequest = request({
      host: "127.0.0.1",
      port,
      agent,
      path,
      method: "POST",
      headers: { ...headers, "content-type": "application/json", "content-length": String(bytes.length) },
    });
    sent.on("error", () => end(false));
    sent.on("response", (response) => {
      head = response;
      let received = 0;
      response.on("data", (chunk: Buffer) => {
        const room = cut?.after === "received" ? cut.bytes - received : chunk.length;
        chunks.push(chunk.subarray(0, Math.max(0, room)));
        received += chunk.length;
        if (room <= chunk.length && cut?.after === "received") breakOff();
      });
      response.on("end", () => end(response.complete && !isCut));
      response.on("error", () => end(false));
      response.on("close", () => end(false));
    });
    if (cut?.after === "sent") {
      sent.write(bytes.subarray(0, cut.bytes), breakOff);
      return;
    }
    sent.end(bytes);
    if (cut?.after === "ms") timer = setTimeout(breakOff, cut.ms);
  });
}
