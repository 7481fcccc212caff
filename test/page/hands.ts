/** What a user does with the page, and what a user sees there. */

import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";

/** The panel of a chat format. */
export const panelOf = (page: Page, format: string): Locator => page.locator(`[data-format="${format}"]`);

/** The chat formats that are shown. */
export const shownFormats = (page: Page): Promise<string[]> =>
  page.locator("[data-format]").evaluateAll((panels) => panels.map((panel) => panel.getAttribute("data-format") ?? ""));

export const send = (page: Page): Promise<void> => page.getByRole("button", { name: /^Send/ }).click();

export const say = (page: Page, prompt: string): Promise<void> =>
  page.getByLabel("Prompt", { exact: true }).fill(prompt);

/** Leaves one format to send in. */
export async function only(page: Page, format: string): Promise<Locator> {
  const switches = page.getByRole("group", { name: "Formats" }).getByRole("checkbox");
  const formats = await shownFormats(page);
  for (const [index, shown] of formats.entries()) if (shown !== format) await switches.nth(index).uncheck();
  return panelOf(page, format);
}

/** Waits until a call is in a state, which is told in a word: its status, `streaming`, `stopped`. */
export const untilState = (panel: Locator, state: string): Promise<void> =>
  panel.locator(".state", { hasText: new RegExp(`^${state}$`) }).waitFor();

export const tab = (panel: Locator, name: string): Promise<void> =>
  panel.getByRole("tab", { name, exact: true }).click();

/** The text of a listing, such as the raw response. */
export const listing = (panel: Locator, name: string): Promise<string> =>
  panel.getByRole("region", { name, exact: true }).innerText();

/** A fact at the foot of a panel. */
export const fact = (panel: Locator, name: string): Locator =>
  panel.locator(".facts div", { has: panel.page().locator("dt", { hasText: new RegExp(`^${name}$`) }) }).locator("dd");

/** Waits until a locator's text is as expected; the browser looks, which costs far less than to ask it again and again. */
export const untilText = (locator: Locator, expected: RegExp): Promise<void> =>
  locator.filter({ hasText: expected }).waitFor();

/** The button that copies a listing. */
export const copyButton = (panel: Locator, name: string): Locator =>
  panel.getByRole("button", { name: `Copy: ${name}`, exact: true });

/** Copies a listing with its button, and reads what was copied. */
export async function copied(panel: Locator, name: string): Promise<string> {
  const page = panel.page();
  // Read until it comes: what the button says of it is gone after a while.
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await copyButton(panel, name).click();
  const read = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  await expect.poll(read).not.toBe("");
  return read();
}
