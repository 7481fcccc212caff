/** Imports the package on the oldest and the current Node, and checks the message for an older one. */

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { expect, it } from "vitest";
import { assertNodeVersion } from "../../src/node-version.ts";
import { entriesOf, OLDEST_NODE, type PackageStage, ROOT, run } from "./stage.ts";

const REFUSED = /^polygate needs Node 22\.19 or newer; this is v(\d+)\.[\d.]+\.$/;

/** Writes a script that loads each entry, and prints `true` or the message of the error. */
const script = (entries: readonly string[], load: string): string => `
  const tell = async () => {
    for (const entry of ${JSON.stringify(entries)})
      console.log(await Promise.resolve().then(() => ${load}).then((found) => String(Object.keys(found).length > 0), (error) => error.message));
  };
  tell();
`;

/** Makes the current Node look like an older one. */
const PRETENCE = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.19.5" } });';

/** Returns a Node of this machine that is too old, or undefined. */
function olderNode(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => !folder.includes("node_modules"));
  const nodes = folders.map((folder) => join(folder, "node")).filter((node) => existsSync(node));
  return nodes.find(
    (node) => Number.parseInt(execFileSync(node, ["-p", "process.versions.node"], { encoding: "utf8" })) < 22,
  );
}

export function runtimesSuite(stage: () => PackageStage): void {
  async function ask(node: string, name: string, load: string, before = ""): Promise<string[]> {
    const { project } = stage();
    const entries = entriesOf(await readFile(join(project, "node_modules/polygate/package.json"), "utf8"));
    await writeFile(join(project, name), before + script(entries, load));
    const { code, output } = await run(node, [name], project);
    expect({ code, output }).toEqual({ code: 0, output });
    const lines = output.trim().split("\n");
    expect(lines).toHaveLength(entries.length);
    return lines;
  }

  it.each([
    ["imported", "oldest.mjs", "import(entry)"],
    // Node requires ES modules since 22.12, unless they have a top-level await.
    ["required", "oldest.cjs", "require(entry)"],
  ])("every entry can be %s on the oldest Node that is promised, and on this one", async (_how, name, load) => {
    for (const node of [OLDEST_NODE, process.execPath])
      expect(new Set(await ask(node, name, load))).toEqual(new Set(["true"]));
  });

  it("every entry says at its import that a Node is too old", async () => {
    const older = olderNode();
    const told = [
      ...(await ask(process.execPath, "pretending.mjs", "import(entry)", PRETENCE)),
      ...(older === undefined ? [] : await ask(older, "older.mjs", "import(entry)")),
    ];
    for (const line of told) expect(line).toMatch(REFUSED);
  });

  it.each([
    ["the command", () => join(stage().project, "node_modules/polygate/dist/server/cli.js"), ["demo"]],
    ["npm start in a clone", () => join(ROOT, "playground/node-version.mjs"), []],
  ])("%s says in one line that a Node is too old", async (_what, program, args) => {
    const { project } = stage();
    await writeFile(join(project, "pretence.cjs"), PRETENCE);
    const older = olderNode();
    for (const [node, ...before] of [
      [process.execPath, "--require", "./pretence.cjs"],
      ...(older === undefined ? [] : [[older]]),
    ] as [string, ...string[]][]) {
      const { code, output } = await run(node, [...before, program(), ...args], project);
      expect({ code, output: output.trimEnd() }).toEqual({ code: 1, output: expect.stringMatching(REFUSED) });
    }
    expect(JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"))).toMatchObject({
      engines: { node: ">=22.19" },
      scripts: { prestart: "node playground/node-version.mjs" },
    });
  });

  it.each<[what: string, runtime: Parameters<typeof assertNodeVersion>[0]]>([
    ["a browser", { navigator: { userAgent: "Mozilla/5.0" } }],
    ["a bundler's stand-in", { process: {} }],
    ["a polyfill", { process: { versions: { node: "18.0.0" } } }],
    ["Bun", { process: { versions: { node: "20.0.0", uv: "1.48.0", bun: "1.4.5" } } }],
    ["Deno", { process: { versions: { node: "20.0.0", uv: "1.43.0", deno: "2.9.5" } } }],
    ["workerd", { process: { versions: { node: "20.0.0", uv: "1" } }, navigator: { userAgent: "Cloudflare-Workers" } }],
    ["the oldest Node that is promised", { process: { versions: { node: "22.19.0", uv: "1.51.0" } } }],
    ["a Node to come", { process: { versions: { node: "100.0.0", uv: "1.60.0" } } }],
    ["a Node without a number", { process: { versions: { node: "nightly", uv: "1.60.0" } } }],
  ])("%s is not taken for a Node that is too old", (_what, runtime) => {
    expect(() => assertNodeVersion(runtime)).not.toThrow();
  });

  it.each(["20.19.5", "18.0.0", "0.12.18", "21.7.3", "22.18.9", "22.2.0"])("Node %s is too old", (node) => {
    expect(() => assertNodeVersion({ process: { versions: { node, uv: "1.46.0" } } })).toThrow(REFUSED);
  });
}
