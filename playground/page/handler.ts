/** Serves the demo's page at `/`, the reference, and the files of both under `/page/`. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { H3, serveStatic } from "h3";
import { toNodeHandler } from "h3/node";
import { drain, dropIdle, PATIENCE_MS, requestOf } from "../../adapters/node-mount.ts";
import { type Gateway, wrongAddress } from "../../src/index.ts";
import { commandToAdd } from "../optional.ts";
import { chatFormats } from "./app/formats/list.ts";
import type { PageFiles } from "./files.ts";

/**
 * Returns a handler for Node's HTTP server. Disconnects a client that does not read its answer, or sends more data after its request,
 * after `patienceMs` milliseconds.
 *
 * @param open Finds the files with the first request.
 */
export function pageHandler(
  gateway: Gateway,
  open: () => Promise<PageFiles>,
  patienceMs: number = PATIENCE_MS,
): (req: IncomingMessage, res: ServerResponse) => void {
  let opened: Promise<PageFiles> | undefined;
  const app = new H3({ silent: true, onError: (_error, { req }) => nowhere(gateway, req) });
  app.get("/page/formats.json", () => ownedFormats(gateway));
  app.get("/docs", () => new Response(null, { status: 302, headers: { location: "/#docs" } }));
  // Build the document only once, because a client may request it a thousand times over a connection before reading.
  let document: Promise<string> | undefined;
  app.get("/openapi.json", async () => {
    const text = await (document ??= documentOf(gateway));
    return new Response(text, { headers: { "content-type": "application/json" } });
  });
  app.all("/**", async (event) => {
    const files = await (opened ??= open());
    const { pathname } = event.url;
    if (pathname === "/reference" && !files.find(pathname)) return new Response(WITHOUT_REFERENCE, { status: 404 });
    return serveStatic(event, {
      headers: {
        ...(pathname === "/reference" ? REFERENCE_HEADERS : PAGE_HEADERS),
        "cache-control": files.isLasting(pathname) ? "max-age=31536000, immutable" : "no-cache",
      },
      indexNames: [],
      getMeta: (path) => {
        const file = files.find(path || "/");
        return file && { type: file.type, etag: file.etag, size: Buffer.byteLength(file.text) };
      },
      getContents: (path) => files.find(path || "/")?.text,
    });
  });
  const handle = toNodeHandler(app);
  return (req, res) => {
    drain(req, patienceMs);
    dropIdle(res, patienceMs);
    if (requestOf(req)) void handle(req, res);
    else res.writeHead(404).end();
  };
}

/** Says which package the reference needs. */
const WITHOUT_REFERENCE = `The reference needs one more package: ${commandToAdd("swagger-ui-dist")}\n`;

const nowhere = (gateway: Gateway, request: Request): Response =>
  Response.json(wrongAddress(gateway, request.method, request.url, "", request.headers), { status: 404 });

/** Returns the OpenAPI document. */
async function documentOf(gateway: Gateway): Promise<string> {
  const { openApiDocument } = await import("../../src/openapi/index.ts");
  return JSON.stringify(openApiDocument(gateway, { title: "polygate demo" }));
}

/** Returns the ids of the gateway's chat formats. */
function ownedFormats({ endpoints }: Gateway): string[] {
  const owned = new Set(endpoints.map(({ format }) => format));
  return chatFormats.map(({ id }) => id).filter((id) => owned.has(id));
}

/** Returns the headers of all files. They allow the page to connect only to its own server. */
const headersWith = (pictures: string): Record<string, string> => ({
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    // Pictures may also come from memory, such as base64 pictures and the user's own files.
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

const PAGE_HEADERS = headersWith("blob:");
// The styles of the reference contain their icons as `data:` addresses.
const REFERENCE_HEADERS = headersWith("data:");
