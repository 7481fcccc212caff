/** How the page is served: which files, with which headers, and nothing that is not the page's. */

import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { builtFiles } from "../../playground/build.ts";
import { commandToAdd } from "../../playground/optional.ts";
import { type PageFiles, pageFiles } from "../../playground/page/files.ts";
import { pageHandler } from "../../playground/page/handler.ts";
import { createGateway, memoryQuotaStore } from "../../src/index.ts";
import { type Playground, startPlayground } from "../clients/playground.ts";
import { UNASKED } from "../pipeline/bench.ts";

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

const get = (path: string, init: RequestInit = {}): Promise<Response> => fetch(playground.url + path, init);

/** The address at which a page asks for a file. */
const lasting = (file: string): unknown => expect.stringMatching(new RegExp(`^/page/[\\da-f-]{36}/${file}$`));

const files = builtFiles();
const found = async (): Promise<PageFiles> => pageFiles(await files.page(), files.root);

/** A path as it is: fetch would take the dots out of it. */
async function statusOf(path: string, host?: string): Promise<string | undefined> {
  const { hostname, port } = new URL(playground.url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${host ?? hostname}\r\nconnection: close\r\n\r\n`);
  return /^HTTP\/1\.1 (\d+)/.exec(await text(socket))?.[1];
}

describe("the page's files", () => {
  it("come with their types, and a policy that lets nothing else in", async () => {
    const types = {
      "/": "text/html; charset=utf-8",
      "/page/app.js": "text/javascript; charset=utf-8",
      "/page/styles/base.css": "text/css; charset=utf-8",
      "/page/logo.svg": "image/svg+xml",
    };
    for (const [path, type] of Object.entries(types)) {
      const response = await get(path);
      expect([path, response.status, response.headers.get("content-type")]).toEqual([path, 200, type]);
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("content-security-policy")).toMatch(
        /^default-src 'none'; script-src 'self'; style-src 'self'; /,
      );
      await response.text();
    }
  });

  it("have one module, which imports nothing", async () => {
    const html = await (await get("/")).text();
    const modules = Array.from(html.matchAll(/<script type="module" src="([^"]+)">/g), ([, path = ""]) => path);
    expect(modules).toEqual([lasting("app.js")]);
    const code = await (await get(modules[0] ?? "")).text();
    expect(code.length).toBeGreaterThan(10_000);
    // The page writes code with imports for its users; its own imports would stand at its beginning.
    expect(code).not.toMatch(/^(?:import|export)\b/);
  });

  it("are not sent again to who has them", async () => {
    const first = await get("/page/app.js");
    const etag = first.headers.get("etag") ?? "";
    expect(etag).not.toBe("");
    expect((await get("/page/app.js", { headers: { "if-none-match": etag } })).status).toBe(304);
  });

  it.each(["/", "/reference"])("are asked for by %s once for each start of the server", async (path) => {
    const page = await get(path);
    expect(page.headers.get("cache-control")).toBe("no-cache");
    const html = await page.text();
    const files = Array.from(html.matchAll(/"(\/page\/[^"]+)"/g), ([, file = ""]) => file);
    expect(files.length).toBeGreaterThan(3);
    for (const file of files) {
      const response = await get(file, { method: "HEAD" });
      expect([file, response.headers.get("cache-control")]).toEqual([file, "max-age=31536000, immutable"]);
    }
    // A file may be another one by then.
    const [next, afterThat] = [await found(), await found()].map((files) => files.find(path)?.text);
    expect(next).not.toBe(afterThat);
  });

  it.each([
    "/page/../server.ts",
    "/page/%2e%2e/server.ts",
    "/page/..%2fserver.ts",
    "/page/..%5cserver.ts",
    "/page/%252e%252e/server.ts",
    "/page/lib/../../../package.json",
    "/page/app.licenses.txt",
    "//page/app.js",
    "/page/files.ts",
    "/page/handler.ts",
    "/page/",
    "/page",
    "/package.json",
    "/index.html",
    "/page/%",
    "/page/__proto__",
    "/page/constructor",
  ])("are all that is served: %s is not", async (path) => {
    expect(await statusOf(path)).toBe("404");
  });
});

it("answers a path that makes no URL with its host header, and lives on", async () => {
  expect(await statusOf("/..", "h:99999")).toBe("404");
  expect((await get("/")).status).toBe(200);
});

it("names the right base URLs for what is nobody's", async () => {
  for (const [method, path] of [
    ["GET", "/nowhere"],
    ["POST", "/v2/nowhere"],
    ["POST", "/nowhere"],
    ["DELETE", "/nowhere"],
  ] as const) {
    const response = await get(path, { method });
    const { error } = (await response.json()) as { error: { message: string } };
    expect([path, response.status]).toEqual([path, 404]);
    expect(error.message).toContain(`There is no route ${method} ${path}.`);
    expect(error.message).toContain("with /v1 for those of OpenAI");
  }
});

it("leads /docs to the docs of the page", async () => {
  const response = await get("/docs", { redirect: "manual" });
  expect([response.status, response.headers.get("location")]).toEqual([302, "/#docs"]);
});

it("leaves the gateway's routes to the gateway", async () => {
  const usage = await get("/api/usage/token", { headers: { authorization: "Bearer sk-demo" } });
  expect(await usage.json()).toMatchObject({ code: true });
  expect((await get("/v1/messages")).status).toBe(405);
});

describe("the reference", () => {
  it("is a page that may reach nothing but its server, and the library that it is made of", async () => {
    const page = await get("/reference");
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; /,
    );
    const html = await page.text();
    const files = Array.from(html.matchAll(/(?:src|href)="([^"]+)"/g), ([, path = ""]) => path);
    expect(files).toContainEqual(lasting("lib/swagger-ui-dist/swagger-ui-bundle.js"));
    for (const path of files) expect([path, (await get(path)).status]).toEqual([path, 200]);
    for (const path of ["/page/lib/swagger-ui-dist/package.json", "/page/lib/swagger-ui-dist/swagger-ui.css.map"])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
  });

  it("shows the document of the playground's own gateway", async () => {
    const response = await get("/openapi.json");
    expect(response.headers.get("content-type")).toMatch(/^application\/json/);
    const document = (await response.json()) as { openapi: string; paths: object };
    expect(document.openapi).toBe("3.1.1");
    expect(Object.keys(document.paths)).toEqual(expect.arrayContaining(["/v1/messages", "/v1/images/edits"]));
  });
});

it("says which chat formats the gateway has", async () => {
  const formats = (await (await get("/page/formats.json")).json()) as string[];
  expect(formats).toEqual(expect.arrayContaining(["messages", "generate-content"]));
});

describe("a client of the page", () => {
  const gateway = createGateway({ backend: UNASKED, quotas: memoryQuotaStore([]) });

  /** Sends a text to a page of its own, and reads nothing; resolves when the page's side has closed the connection. */
  async function closesFor(sent: string): Promise<void> {
    const server = createServer(pageHandler(gateway, found, 20)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const connected = once(server, "connection") as Promise<[Socket]>;
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => {});
    client.pause().write(sent);
    const [socket] = await connected;
    await once(socket, "close");
    client.destroy();
    server.close();
  }

  it("is let go where it reads nothing of what it asks for", async () => {
    const get = "GET /page/lib/swagger-ui-dist/swagger-ui-bundle.js HTTP/1.1\r\nhost: page\r\n\r\n";
    await expect(closesFor(get.repeat(20))).resolves.toBeUndefined();
  });

  it("is let go where its body never ends", async () => {
    const post = "POST / HTTP/1.1\r\nhost: page\r\ncontent-length: 1000000\r\n\r\nand so on";
    await expect(closesFor(post)).resolves.toBeUndefined();
  });

  it("is told at the reference which package is missing", async () => {
    const all = await found();
    const bare = { ...all, find: (path: string) => (path === "/reference" ? undefined : all.find(path)) };
    const server = createServer(pageHandler(gateway, async () => bare)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/reference`);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([404, "text/plain;charset=UTF-8"]);
    expect(await answer.text()).toContain("npm install swagger-ui-dist");
    // A project has polygate among its packages; npx has a copy of its own.
    const copy = "file:///home/me/.npm/_npx/1a2b/node_modules/polygate/dist/demo.js";
    expect(commandToAdd("kysely", copy)).toBe("npx -y -p polygate -p kysely polygate demo");
    server.closeAllConnections();
    server.close();
  });

  it("may ask for the document as often as it likes: it is written once", async () => {
    const server = createServer(pageHandler(gateway, found)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/openapi.json`;
    expect(await (await fetch(url)).json()).toHaveProperty("openapi");
    const stringify = vi.spyOn(JSON, "stringify");
    expect(await (await fetch(url)).json()).toHaveProperty("openapi");
    const written = stringify.mock.calls.filter(([value]) => Object(value) === value && "openapi" in (value as object));
    stringify.mockRestore();
    expect(written).toEqual([]);
    server.closeAllConnections();
    server.close();
  });
});
