/** The docs and the reference, one click away. */

import { expect, it } from "vitest";
import { untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

export function readingSuite({ visit }: Stage): void {
  it("opens the docs, follows their links, and goes back to what was written", async () => {
    const page = await visit();
    await page.getByLabel("Prompt", { exact: true }).fill("Not sent yet");
    await page.getByRole("link", { name: "Docs" }).click();
    const docs = page.getByRole("article", { name: "Docs" });
    await untilText(docs.getByRole("heading", { level: 2 }), /^Documentation$/);
    await docs.getByRole("link", { name: "Quota stores" }).click();
    await untilText(docs.getByRole("heading", { level: 2 }).first(), /^Quota/);
    expect(await docs.locator("pre .is-string").count()).toBeGreaterThan(10);
    await docs.getByRole("link", { name: "All pages" }).click();
    await untilText(docs.getByRole("heading", { level: 2 }), /^Documentation$/);
    await page.getByRole("link", { name: "Chat", exact: true }).click();
    expect(await page.getByLabel("Prompt", { exact: true }).inputValue()).toBe("Not sent yet");
  });

  it("opens a page of the docs at a heading, and says which page there is not", async () => {
    const page = await visit("/#docs/options/limits");
    const heading = page.locator("#docs-limits");
    await heading.waitFor();
    const isAtTop = async (): Promise<boolean> =>
      heading.evaluate((element) => Math.abs(element.getBoundingClientRect().top - 72) < 20);
    await expect.poll(isAtTop).toBe(true);
    await page.goto(`${page.url().split("#")[0]}#docs/none`);
    await page.getByRole("alert").getByText('The docs have no page "none".').waitFor();
  });

  it("leads to the reference", async () => {
    const page = await visit();
    expect(await page.getByRole("link", { name: "Reference" }).getAttribute("href")).toBe("/reference");
  });
}
