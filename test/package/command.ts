/** Tests of the command `polygate` in an installed copy without the optional packages. */

import { readdir } from "node:fs/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { bareProject, type Ended, OLDEST_NODE, type PackageStage, run } from "./stage.ts";

export function commandSuite(stage: () => PackageStage): void {
  describe("the command, without the optional packages", () => {
    let bare: string;

    beforeAll(async () => void (bare = await bareProject(stage(), "bare")));

    const polygate = (node: string, ...args: string[]): Promise<Ended> =>
      run(node, ["node_modules/polygate/dist/server/cli.js", ...args], bare);

    it.each([
      ["the Node of this test", process.execPath],
      ["the oldest Node that is promised", OLDEST_NODE],
    ])("says how it is used, and what is wrong, on %s", async (_name, node) => {
      const help = await polygate(node, "--help");
      expect(help).toEqual({ code: 0, output: expect.stringMatching(/^polygate <command>/) });
      expect(await polygate(node, "--version")).toEqual({
        code: 0,
        output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
      });
      const wrong = await polygate(node, "keys", "lst");
      expect(wrong).toEqual({ code: 2, output: expect.stringMatching(/^There is no command "keys lst"/) });
    });

    it.each([
      ['package "kysely": npm install kysely', "sqlite:quota.db"],
      ['packages "kysely" and "pg": npm install kysely pg', "postgres://127.0.0.1:1/x"],
      ['package "redis": npm install redis', "redis://127.0.0.1:1"],
    ])("names the %s for %s", async (packages, address) => {
      expect(await polygate(process.execPath, "keys", "migrate", "--store", address)).toEqual({
        code: 2,
        output: `This store needs the ${packages}\n`,
      });
      expect(await readdir(bare)).toEqual(["node_modules"]);
    });
  });
}
