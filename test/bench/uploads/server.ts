/** The server of the uploads benchmark: it reads multipart forms, and reports its memory. */

import { serve } from "srvx/node";
import { readMultipart } from "../../../src/http/form.ts";
import { systemClock } from "../../../src/ports/clock.ts";
import { BodyRoom } from "../../../src/ports/shared-room.ts";
import { answerParent } from "../../trial/child.ts";

const MIB = 1024 * 1024;

export interface UploadServerState {
  readonly port: number;
  /** The resident memory of the process now, and at its peak, in bytes. */
  readonly residentBytes: number;
  readonly peakResidentBytes: number;
  readonly takenBytes: number;
}

const room = new BodyRoom(1024 * MIB);
const limits = {
  maxUploadBytes: 410 * MIB,
  maxFormBytes: MIB,
  maxFieldBytes: 256 * 1024,
  maxFields: 64,
  maxFiles: 17,
};

async function receive(request: Request): Promise<Response> {
  const lease = room.lease("key");
  try {
    const { files } = await readMultipart(
      request,
      { limits, maxFileBytes: () => 25 * MIB },
      {
        lease,
        call: {
          clock: systemClock,
          limits: { bodyStallMs: 30_000, minBodyBytesPerSecond: 16 * 1024 },
          signal: request.signal,
          defer: () => {},
        },
      },
    );
    return Response.json({ sizes: files.map(({ bytes }) => bytes.length) });
  } finally {
    lease[Symbol.dispose]();
  }
}

const server = serve({ port: 0, hostname: "127.0.0.1", silent: true, fetch: receive });
await server.ready();

answerParent(async (): Promise<UploadServerState> => {
  const { port } = new URL(server.url ?? "");
  const peakResidentBytes = process.resourceUsage().maxRSS * 1024;
  return {
    port: Number(port),
    residentBytes: process.memoryUsage.rss(),
    peakResidentBytes,
    takenBytes: room.takenBytes,
  };
});
