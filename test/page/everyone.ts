/** The page for everyone: by keyboard, by ear, in the dark, on a phone, without motion. */

import type { BrowserContextOptions, Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { barriers, isWiderThanScreen } from "./barriers.ts";
import { panelOf, say, send, tab, untilState } from "./hands.ts";
import type { Stage } from "./stage.ts";

const LOOKS: readonly (readonly [string, BrowserContextOptions])[] = [
  ["in the light", { colorScheme: "light" }],
  ["in the dark", { colorScheme: "dark" }],
  ["on a narrow screen", { viewport: { width: 360, height: 740 } }],
  ["on a wide screen", { viewport: { width: 1920, height: 1080 } }],
];

/** Goes through all that can have focus, and hands back what does not show it. */
async function unseenStops(page: Page): Promise<string[]> {
  const stops: { readonly name: string; readonly isSeen: boolean }[] = [];
  for (;;) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const now = document.activeElement;
      if (!now || now === document.body) return undefined;
      // A switch shows it beside itself.
      const shown = now.matches(".switch input") ? now.nextElementSibling : now;
      return { name: now.outerHTML.slice(0, 200), isSeen: getComputedStyle(shown ?? now).outlineStyle !== "none" };
    });
    const isRound = stops.length > 0 && stop?.name === stops[0]?.name;
    if (isRound) return stops.filter(({ isSeen }) => !isSeen).map(({ name }) => name);
    // Between the last and the first the focus leaves the page.
    if (stop) stops.push(stop);
  }
}

export function everyoneSuite({ visit }: Stage): void {
  describe.each(LOOKS)("%s", (_look, options) => {
    it("keeps nobody out", async () => {
      const page = await visit("/", options);
      const [first, second] = [panelOf(page, "messages"), panelOf(page, "generate-content")];
      await say(page, "/break 500 This sentence will never be told to its end.");
      await page.getByLabel("JSON Schema").check();
      await send(page);
      await untilState(first, "broke off");
      await untilState(second, "broke off");
      await tab(second, "Raw");
      await tab(panelOf(page, "responses"), "Events");
      expect(await barriers(page)).toEqual([]);
      await tab(second, "Code");
      expect(await isWiderThanScreen(page)).toBe(false);

      await page.getByRole("link", { name: "Embeddings" }).click();
      await page.getByRole("button", { name: "Compare" }).click();
      await page.locator(".nearness").waitFor();
      expect(await barriers(page)).toEqual([]);
      expect(await isWiderThanScreen(page)).toBe(false);

      await page.getByRole("link", { name: "Docs" }).click();
      await page.locator(".docs h2").waitFor();
      expect(await barriers(page)).toEqual([]);
      expect(await isWiderThanScreen(page)).toBe(false);

      await page.getByRole("link", { name: "Pictures" }).click();
      await page.getByRole("button", { name: "Draw", exact: true }).click();
      await page.locator(".easel").waitFor();
      await page.getByText("Add a rectangle by numbers").click();
      await page.getByRole("button", { name: "Add", exact: true }).click();
      await page.getByText(/^The mask covers/).waitFor();
      await tab(page.locator(".studio .panel"), "Code");
      expect(await barriers(page)).toEqual([]);
      expect(await isWiderThanScreen(page)).toBe(false);
    });
  });

  it("can be used by keyboard alone, and shows where it is", async () => {
    const page = await visit();
    const focused = (): Promise<string> =>
      page.evaluate(
        () => document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent?.trim() ?? "",
      );
    await page.keyboard.press("Tab");
    expect(await focused()).toBe("Skip to the content");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await page.keyboard.press("ControlOrMeta+A");
    await page.keyboard.type("Typed");
    await page.keyboard.press("Control+Enter");
    const panel = panelOf(page, "messages");
    await untilState(panel, "200");
    expect(await panel.locator(".prose").innerText()).toBe("You said: Typed");

    await panel.getByRole("tab", { name: "Answer" }).focus();
    await page.keyboard.press("ArrowRight");
    expect(await focused()).toBe("Events");
    await page.keyboard.press("End");
    expect(await focused()).toBe("Code");
    await page.keyboard.press("ArrowRight");
    expect(await focused()).toBe("Answer");
    expect(await unseenStops(page)).toEqual([]);
  });

  it("follows the system's theme until the user chooses, and remembers that", async () => {
    const page = await visit("/", { colorScheme: "dark" });
    const ground = (): Promise<string> =>
      page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await ground();
    const toggle = page.getByRole("button", { name: /^Theme/ });
    await toggle.click();
    expect(await toggle.getAttribute("aria-label")).toBe("Theme: light. Change to dark.");
    const light = await ground();
    expect(light).not.toBe(dark);
    await page.reload();
    await toggle.waitFor();
    expect(await ground()).toBe(light);
    await toggle.click();
    expect(await ground()).toBe(dark);
  });

  it("does not move for those who want no motion", async () => {
    const page = await visit("/", { reducedMotion: "reduce" });
    await say(page, "/delay 50 /repeat 100");
    await send(page);
    const cursor = panelOf(page, "messages").locator(".cursor");
    await cursor.waitFor();
    expect(await cursor.evaluate((element) => getComputedStyle(element).animationName)).toBe("none");
  });
}
