/** Compiles hosts with the types of the package, in each module resolution, with the types of all libraries checked. */

import { readFile, writeFile } from "node:fs/promises";
import { basename, isAbsolute, join } from "node:path";
import { expect, it } from "vitest";
import { entriesOf, type PackageStage, ROOT, run } from "./stage.ts";

const TSC = join(ROOT, "node_modules", "typescript", "bin", "tsc");

const ALWAYS = [TSC, ..."--singleThreaded --strict --noEmit --listFiles --skipLibCheck false".split(" ")] as const;
/** Each resolution once and each library once. Both resolutions lead to the same files, so that other pairs would find no more. */
const CONSUMERS = {
  "nodenext with Node's types alone": "--types node --module nodenext --lib es2024".split(" "),
  "bundler with a browser's types as well":
    "--types node --module esnext --moduleResolution bundler --lib es2024,dom,dom.iterable".split(" "),
} as const;

/** A host without Node's types, such as a Worker. */
const NODELESS = [
  "--types",
  "",
  ..."--module nodenext --target es2024 --lib es2024,dom,dom.iterable".split(" "),
] as const;

/** The entries whose own types name types of Node: its servers, its SQLite. */
const OF_NODE = ["express", "koa", "node", "stores/sql", "websocket"].map((entry) => `polygate/${entry}`);

/** A strictly typed host. */
const HOST = `
import { createServer } from "node:http";
import { createGateway, GatewayError, memoryQuotaStore, type ModelBackend } from "polygate";
import { toBunHandler } from "polygate/bun";
import { toDenoHandler } from "polygate/deno";
import * as core from "polygate/core";
import * as edge from "polygate/edge";
import { toExpressHandler } from "polygate/express";
import { messages, messagesUpstream } from "polygate/formats/messages";
import { toKoaMiddleware } from "polygate/koa";
import { toNodeHandler } from "polygate/node";
import * as testing from "polygate/testing";

const backend: ModelBackend = {
  async *chat(request, call) {
    if (call.signal.aborted) throw new GatewayError("client_closed", "Gone.");
    yield \`You asked \${request.model} something.\`;
    yield { type: "finish", reason: "stop", usage: { outputTokens: 4 } };
  },
};
const gateway = createGateway({ backend, quotas: memoryQuotaStore([{ apiKey: "sk-1" }]) });
export const server = createServer(toNodeHandler(gateway));
export const mounts = [toBunHandler(gateway), toDenoHandler(gateway), toExpressHandler(gateway), toKoaMiddleware(gateway)];
export const koa = toKoaMiddleware(gateway, { context: (context) => context.state["user"] });
// The bundle makes the same gateways as the index.
export const worker = { fetch: edge.toEdgeHandler(edge.createGateway({ backend, quotas: edge.memoryQuotaStore([]) })) };
// A core gateway mounts everywhere, and its relay has the functions of its format.
const upstream = core.relay({ format: messagesUpstream, baseUrl: "https://api.example.com/v1" });
const small = core.createGateway({ formats: [messages({ ranges: "vendor" })], backend: upstream, quotas: memoryQuotaStore([]) });
export const smallMounts = [toNodeHandler(small), toBunHandler(small), core.toEdgeHandler(small), edge.toEdgeHandler(small)];
export const chat: NonNullable<ModelBackend["chat"]> = upstream.chat;
// @ts-expect-error: the formats are missing.
core.createGateway({ backend, quotas: memoryQuotaStore([]) });
// @ts-expect-error: a format is no name.
core.createGateway({ formats: ["messages"], backend, quotas: memoryQuotaStore([]) });
export const names: string[] = Object.keys(testing);
// @ts-expect-error: the quotas are missing. Types that fall back to any would not notice.
createGateway({ backend });
`;

export function consumersSuite(stage: () => PackageStage): void {
  it("compiles every entry and a host, libraries checked, by each way of resolving modules, with each library", async () => {
    const { project } = stage();
    const entries = entriesOf(await readFile(join(project, "node_modules/polygate/package.json"), "utf8"));
    const imports = entries.map((entry, index) => `import * as entry${index} from "${entry}";`);
    const uses = entries.map((_entry, index) => `entry${index}`).join(", ");
    const [first] = imports;
    const wrong = `// @ts-expect-error: no entry is of any type.\nentry0.nothing;`;
    expect(first).toContain('"polygate"');
    const everyEntry = [...imports, `export const entries: object[] = [${uses}];`, wrong].join("\n");
    await writeFile(join(project, "every-entry.ts"), everyEntry);
    await writeFile(join(project, "host.ts"), HOST);
    const files: string[][] = [];
    for (const [who, options] of Object.entries(CONSUMERS)) {
      const args = [...ALWAYS, ...options, "every-entry.ts", "host.ts"];
      const { code, output } = await run(process.execPath, args, project);
      const lines = output.trim().split("\n");
      expect([who, code, lines.filter((line) => !isAbsolute(line))]).toEqual([who, 0, []]);
      files.push(lines.filter((line) => !/^lib\..*\.d\.ts$/.test(basename(line))).toSorted());
    }
    const [one, other] = files;
    expect(one?.length).toBeGreaterThan(100);
    expect(one).toEqual(other);
  });

  it("compiles every entry that needs no Node, libraries checked, without Node's types", async () => {
    const { project } = stage();
    const entries = entriesOf(await readFile(join(project, "node_modules/polygate/package.json"), "utf8"));
    expect(entries).toEqual(expect.arrayContaining(OF_NODE));
    const imports = entries
      .filter((entry) => !OF_NODE.includes(entry))
      .map(
        (entry, index) =>
          `import * as entry${index} from "${entry}";\nexport const one${index}: object = entry${index};`,
      );
    const disposed = `import { testGateway } from "polygate/testing";
export async function use(): Promise<string> {
  await using gateway = testGateway();
  return gateway.apiKey;
}`;
    await writeFile(join(project, "nodeless.ts"), [...imports, disposed].join("\n"));
    const { code, output } = await run(process.execPath, [...ALWAYS, ...NODELESS, "nodeless.ts"], project);
    const lines = output.trim().split("\n");
    expect([code, lines.filter((line) => !isAbsolute(line))]).toEqual([0, []]);
    expect(lines.filter((line) => line.includes("/@types/"))).toEqual([]);
  });
}
