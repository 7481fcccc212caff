/** The sources are in order: their format, the linter's rules, their types. */

import { expect, it } from "vitest";
import { ROOT, run } from "./package/stage.ts";

it.each(["format:check", "lint", "types"])("npm run %s finds nothing", { timeout: 240_000 }, async (script) => {
  const { code, output } = await run("npm", ["run", "--silent", script], ROOT);
  expect(code, `npm run ${script}\n${output}`).toBe(0);
});
