/** Answers what the gateway leaves to the playground: its page at `/`, the reference, and the files of both under `/page/`. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { H3, serveStatic } from "h3";
import { toNodeHandler } from "h3/node";
import { drain, dropIdle, PATIENCE_MS } from "../../adapters/node-mount.ts";
import type { Gateway } from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { chatFormats } from "./app/formats/list.ts";
import { findPageFiles } from "./files.ts";

/**
 * The page as a handler for Node's http server. What is not the page's is a bare 404. A client that takes nothing of its answer, or sends
 * on behind it, is let go after `patienceMs` milliseconds.
 */
export function pageHandler(
  gateway: Gateway,
  patienceMs: number = PATIENCE_MS,
): (req: IncomingMessage, res: ServerResponse) => void {
  const files = findPageFiles();
  const headers = headersWith(files.importMapHash, "blob:");
  // The reference's styles bring their icons along; what it writes into the page itself has none.
  const referenceHeaders = headersWith("", "data:");
  const app = new H3({ silent: true, onError: () => new Response(null, { status: 404 }) });
  app.get("/page/formats.json", () => ownedFormats(gateway));
  // Written once: a client may ask a thousand times over one connection before it reads.
  let document: string | undefined;
  app.get("/openapi.json", ({ res }) => {
    res.headers.set("content-type", "application/json");
    return (document ??= JSON.stringify(openApiDocument(gateway, { title: "polygate playground" })));
  });
  app.all("/**", (event) =>
    serveStatic(event, {
      headers: {
        ...(event.url.pathname === "/reference" ? referenceHeaders : headers),
        "cache-control": files.isLasting(event.url.pathname) ? "max-age=31536000, immutable" : "no-cache",
      },
      indexNames: [],
      getMeta: (path) => {
        const file = files.find(path || "/");
        return file && { type: file.type, etag: file.etag, size: Buffer.byteLength(file.text) };
      },
      getContents: (path) => files.find(path || "/")?.text,
    }),
  );
  const handle = toNodeHandler(app);
  return (req, res) => {
    drain(req, patienceMs);
    dropIdle(res, patienceMs);
    void handle(req, res);
  };
}

/** The ids of the chat formats that the gateway speaks. */
function ownedFormats({ endpoints }: Gateway): string[] {
  const owned = new Set(endpoints.map(({ format }) => format));
  return chatFormats.map(({ id }) => id).filter((id) => owned.has(id));
}

/** What every file of the page is sent with: it may reach nothing but the server that it came from. */
const headersWith = (importMapHash: string, pictures: string): Record<string, string> => ({
  "content-security-policy": [
    "default-src 'none'",
    `script-src 'self' ${importMapHash}`.trim(),
    "style-src 'self'",
    // Pictures are shown from memory, too: those that were sent as base64, and the user's own files.
    `img-src 'self' ${pictures}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
});
