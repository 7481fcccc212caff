/** The gateway among the middleware that an Express server has: before it, behind it, and around its own routes. */

import { once } from "node:events";
import { createServer, type IncomingMessage, request as httpRequest } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import compression from "compression";
import express, { type Express, type NextFunction, type Request, type Response } from "express";
import helmet from "helmet";
import morgan from "morgan";
import { afterEach, describe, expect, it } from "vitest";
import { toExpressHandler } from "../../adapters/express.ts";
import { createGateway, type Gateway, memoryQuotaStore, type ModelBackend } from "../../src/index.ts";
import { FrameReader } from "../drivers/frames.ts";
import { CLEAR } from "../formats/images/pictures.ts";
import { having, MINIMAL } from "../formats/messages/bodies.ts";
import { framing } from "../formats/messages/frames.ts";
import { drawn, KEY, post } from "./stage.ts";

const VERSIONS: readonly (readonly [name: string, framework: typeof express])[] = [
  // Typed as the other: what a mount touches is the same in both.
  ["express 4", createRequire(import.meta.url)("express-4") as typeof express],
  ["express 5", express],
];

const LONG = "A long answer, well beyond what is too small to be compressed. ".repeat(50);

let stop: (() => void) | undefined;
afterEach(() => stop?.());

async function listen(app: Express): Promise<string> {
  const server = createServer((req, res) => void app(req, res)).listen(0, "127.0.0.1");
  stop = () => server.close().closeAllConnections();
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.each(VERSIONS)("in %s", (_name, framework) => {
  const goOn = Promise.withResolvers<void>();
  const backend: ModelBackend = {
    async *chat({ stream }) {
      yield LONG;
      if (stream) await goOn.promise;
      yield "The end.";
    },
  };
  const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: KEY }]) });
  const heard: string[] = [];
  const drawing = createGateway({
    backend: {
      async *image() {
        yield drawn(0);
      },
    },
    quotas: memoryQuotaStore([{ apiKey: KEY }]),
    onFailure: ({ text }) => heard.push(text),
  });

  it("answers behind helmet and compression, which hold no stream back, and morgan sees it", async () => {
    const app = framework();
    const lines: string[] = [];
    app.use(morgan(":method :url :status", { stream: { write: (line) => void lines.push(line.trim()) } }));
    app.use(helmet());
    app.use(compression());
    app.use("/ai", toExpressHandler(gateway));
    const url = await listen(app);

    const complete = await fetch(`${url}/ai/v1/messages`, post(MINIMAL));
    expect(complete.headers.get("content-encoding")).toMatch(/^(?:gzip|br)$/);
    expect(complete.headers.get("x-content-type-options")).toBe("nosniff");
    expect(await complete.json()).toMatchObject({ type: "message" });

    const streamed = await fetch(`${url}/ai/v1/messages`, post(having({ stream: true })));
    expect(streamed.headers.has("content-encoding")).toBe(false);
    expect(streamed.headers.get("x-content-type-options")).toBe("nosniff");
    const reader = new FrameReader(streamed, framing);
    for (const type of ["message_start", "content_block_start", "content_block_delta"])
      expect(await reader.next()).toMatchObject({ type });
    // What has come until here came while the backend was still waiting.
    goOn.resolve();
    while (await reader.next());
    await expect.poll(() => lines).toEqual(["POST /ai/v1/messages 200", "POST /ai/v1/messages 200"]);
  });

  it("leaves the host's routes and its 404 alone, with their bodies", async () => {
    const app = framework();
    app.use("/ai", toExpressHandler(gateway));
    app.post("/ai/other", express.json(), (req: Request, res: Response) => void res.json({ got: req.body as unknown }));
    app.use(express.json());
    app.post(
      "/echo",
      (req: Request, res: Response) => void res.json({ url: req.originalUrl, got: req.body as unknown }),
    );
    const url = await listen(app);
    expect(await (await fetch(`${url}/ai/other`, post({ a: 1 }))).json()).toEqual({ got: { a: 1 } });
    expect(await (await fetch(`${url}/echo`, post({ a: 2 }))).json()).toEqual({ url: "/echo", got: { a: 2 } });
    expect((await fetch(`${url}/ai/nothing`, post({}))).status).toBe(404);
  });

  it("finds the gateway in a router within a router", async () => {
    const [app, outer, inner] = [framework(), framework.Router(), framework.Router()];
    inner.use("/models", toExpressHandler(gateway));
    outer.use("/:tenant", inner);
    app.use("/api", outer);
    const response = await fetch(`${await listen(app)}/api/acme/models/v1/messages?beta=true`, post(MINIMAL));
    expect(await response.json()).toMatchObject({ type: "message" });
  });

  it("answers no path below a parameter of dots, which a URL would remove", async () => {
    const app = framework();
    app.use("/:tenant/ai", toExpressHandler(gateway));
    const url = new URL(await listen(app));
    const statusOf = async (tenant: string): Promise<number | undefined> => {
      const asked = httpRequest({
        port: url.port,
        path: `/${tenant}/ai/v1/models`,
        headers: { authorization: "Bearer none" },
      });
      const [answer] = (await once(asked.end(), "response")) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    };
    expect([await statusOf("acme"), await statusOf(".."), await statusOf("%2e%2e")]).toEqual([401, 404, 404]);
  });

  it.each([null, false, 0, "", []])(
    "refuses the JSON %j behind all parsers as the mistake of the caller",
    async (body) => {
      const app = framework();
      app.use(
        framework.json({ strict: false }),
        framework.urlencoded({ extended: true }),
        framework.text(),
        framework.raw(),
      );
      app.use("/ai", toExpressHandler(gateway));
      const response = await fetch(`${await listen(app)}/ai/v1/messages`, post(body));
      expect([response.status, await response.json()]).toMatchObject([
        400,
        { error: { type: "invalid_request_error" } },
      ]);
    },
  );

  it("reads a form that was kept as it came, and tells the host what to mount first where one was not", async () => {
    const app = framework();
    const raw = framework.raw({ type: "multipart/form-data", limit: "1mb" });
    app.use("/kept", raw, toExpressHandler(drawing));
    app.use("/parsed", raw, (req: Request, _res: Response, next: NextFunction) => {
      req.body = { prompt: "A cat" };
      next();
    });
    app.use("/parsed", toExpressHandler(drawing));
    app.use("/drained", (req: Request, _res: Response, next: NextFunction) => void req.resume().once("end", next));
    app.use("/drained", toExpressHandler(drawing));
    const url = await listen(app);
    const edit = (path: string): Promise<globalThis.Response> => {
      const body = new FormData();
      body.append("image", new File([CLEAR], "clear.png", { type: "image/png" }));
      body.append("prompt", "A cat");
      return fetch(`${url}${path}/v1/images/edits`, {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}` },
        body,
      });
    };
    expect((await edit("/kept")).status).toBe(200);
    for (const path of ["/parsed", "/drained"]) {
      const response = await edit(path);
      expect(response.status).toBe(500);
      expect(await response.text()).not.toContain("middleware");
    }
    const told: unknown = expect.stringContaining("Mount the gateway before that middleware");
    expect(heard).toEqual([told, told]);
  });

  it("holds what a body parser has read to its limit in bytes", async () => {
    const app = framework();
    const limits = { maxJsonBytes: 1_000 };
    app.use(
      framework.json(),
      toExpressHandler(createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: KEY }]), limits })),
    );
    const { headers, body } = post(having({ messages: [{ role: "user", content: "愛".repeat(400) }] }));
    const init = { method: "POST", headers, body: new Blob([body]).stream(), duplex: "half" as const };
    expect((await fetch(`${await listen(app)}/v1/messages`, init)).status).toBe(413);
  });

  it("gives what fails in the mount to the error handler behind it", async () => {
    const app = framework();
    const at: Gateway["at"] = (prefix) => ({
      ...gateway.at(prefix),
      answer: () => Promise.reject(new Error("The mount is broken.")),
    });
    const broken = { ...gateway, at };
    app.use("/ai", toExpressHandler(broken));
    app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
      res.status(599).send(error.message);
    });
    const response = await fetch(`${await listen(app)}/ai/v1/messages`, post(MINIMAL));
    expect([response.status, await response.text()]).toEqual([599, "The mount is broken."]);
  });
});
