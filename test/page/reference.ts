/** The reference in a browser: it shows every operation, light or dark, and a way back. */

import { expect, it } from "vitest";
import type { OpenApiDocument } from "../../src/openapi/index.ts";
import type { Stage } from "./stage.ts";

/** True for a colour, such as `rgb(28, 32, 34)`, that is nearer to white than to black. */
const isBright = (colour = ""): boolean => {
  const parts = (colour.match(/\d+/g) ?? []).slice(0, 3).map(Number);
  expect([colour, parts.length]).toEqual([colour, 3]);
  return Math.max(...parts) > 128;
};

export function referenceSuite({ url, open }: Stage): void {
  it.each([
    ["system", true],
    ["light", false],
  ] as const)("in a dark system is as the playground's choice says (%s), and leads back", async (chosen, isDark) => {
    const page = await open("/", { colorScheme: "dark" });
    await page.evaluate((theme) => localStorage.setItem("polygate-theme", theme), chosen);
    await page.goto(`${url()}/reference`);
    await page.locator(".opblock").first().waitFor();
    const [ground, ...texts] = await page.evaluate(() => {
      const colours = [".info .title", ".opblock-tag", ".opblock-summary-description"].map((text) => {
        const shown = document.querySelector(`.swagger-ui ${text}`);
        return shown ? getComputedStyle(shown).color : "nothing";
      });
      return [getComputedStyle(document.documentElement).backgroundColor, ...colours];
    });
    expect(isBright(ground)).toBe(!isDark);
    expect(texts.map(isBright)).toEqual(texts.map(() => isDark));
    await page.getByRole("link", { name: "Playground" }).click();
    await page.waitForURL(`${url()}/`);
  });

  it("shows every operation of the document", async () => {
    const page = await open("/reference");
    const { paths } = (await (await fetch(`${url()}/openapi.json`)).json()) as OpenApiDocument;
    const operations = page.locator(".opblock");
    await operations.first().waitFor();
    expect(await operations.count()).toBeGreaterThanOrEqual(
      Object.values(paths).flatMap((item) => Object.keys(item)).length,
    );
    await page.locator("#operations-Messages-createMessage button").first().click();
    await page.getByText("compat-version").first().waitFor();
    await page.locator("#operations-Images-editImage button").first().click();
    await page.locator("#operations-Images-editImage").getByText("image[]", { exact: true }).first().waitFor();
  });
}
