/** The nearness of sentences, as a user edits them. */

import { expect, it } from "vitest";
import { fact, listing, tab, untilState, untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

export function nearnessSuite({ visit }: Stage): void {
  it("shows how near sentences are to one another, and again when they are edited", async () => {
    const page = await visit("/#nearness");
    const panel = page.getByRole("article", { name: "Embeddings" });
    const compare = page.getByRole("button", { name: "Compare" });
    const near = async (row: number, column: number): Promise<number> =>
      Number(await panel.locator("tbody tr").nth(row).locator("td").nth(column).innerText());
    await compare.click();
    await untilState(panel, "200");
    await panel.locator("tbody tr").nth(4).waitFor();
    expect(await near(0, 0)).toBe(1);
    expect(await near(0, 1)).toBe(await near(1, 0));
    expect(await near(0, 1)).toBeGreaterThan((await near(0, 3)) + 0.2);
    expect(await near(3, 4)).toBeGreaterThan((await near(1, 4)) + 0.2);
    await fact(panel, "input").waitFor();

    await page.getByLabel("Sentences, one on each line").fill("a quiet sea\n\n  a quiet sea  \nten invoices");
    await page.getByLabel("Dimensions").fill("64");
    await compare.click();
    await untilText(panel.locator(".note"), /of 64 numbers each/);
    expect(await panel.locator("tbody tr").count()).toBe(3);
    expect([await near(0, 1), (await near(0, 2)) < 0.5]).toEqual([1, true]);
    await tab(panel, "Raw");
    expect(await listing(panel, "Request")).toMatch(/^POST \/v1\/embeddings [^]*"dimensions": 64/);
  });

  it("says how many sentences can be compared, and why they cannot", async () => {
    const page = await visit("/#nearness");
    const panel = page.getByRole("article", { name: "Embeddings" });
    const sentences = page.getByLabel("Sentences, one on each line");
    const compare = page.getByRole("button", { name: "Compare" });
    for (const [text, count] of [
      ["One alone", 1],
      ["line\n".repeat(13), 13],
    ] as const) {
      await sentences.fill(text);
      await page.getByText(`Write 2 to 12 sentences. These are ${count}.`).waitFor();
      expect(await compare.isDisabled()).toBe(true);
    }
    await sentences.fill("/fail 503\nTwo");
    await compare.click();
    await untilState(panel, "503");
    await panel.getByRole("alert").getByText("The demo was asked to fail with 503.").first().waitFor();
    await sentences.fill("One\nTwo");
    await page.getByLabel("Key", { exact: true }).selectOption("sk-limited");
    await compare.click();
    await untilState(panel, "403");
    expect(await sentences.inputValue()).toBe("One\nTwo");
  });
}
