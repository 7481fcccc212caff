/** The docs and the reference, one click away. */

import type { Locator } from "playwright-core";
import { expect, it } from "vitest";
import { barriers, isWiderThanScreen } from "./barriers.ts";
import { untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

/** Returns the title of a page of the docs, as its first heading shows it. */
const titleOf = (markdown: string): string | undefined => /^# (.*)$/m.exec(markdown)?.[1]?.replaceAll("`", "");

/** Opens a page of the docs, and returns its title and the elements that are wider than its card. Code and tables scroll. */
async function widthsOf(
  name: string,
): Promise<{ readonly title: string | undefined; readonly wide: readonly string[] }> {
  const changed = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
  location.hash = `#docs/${name}`;
  await changed;
  await new Promise(requestAnimationFrame);
  const card = document.querySelector(".docs");
  const right = card ? card.getBoundingClientRect().right - Number.parseFloat(getComputedStyle(card).paddingRight) : 0;
  const wide = [...document.querySelectorAll(".docs :not(pre *, .table *)")]
    .filter((one) => one.getBoundingClientRect().right > right)
    .map((one) => `${one.getBoundingClientRect().right} > ${right}: ${one.outerHTML.slice(0, 200)}`);
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) wide.push(`The page is ${scrollWidth} wide.`);
  return { title: card?.querySelector("h2")?.textContent, wide };
}

/** Tells whether an element is on the screen, with nothing above it. */
const isWhole = async (what: Locator): Promise<boolean> =>
  what.evaluate((element) => {
    const { left, top, width: wide, bottom } = element.getBoundingClientRect();
    const tops = [top + 2, bottom - 2].map((y) => document.elementFromPoint(left + Math.min(wide / 2, 20), y));
    return top >= 0 && bottom <= innerHeight && tops.every((found) => element.contains(found));
  });

export function readingSuite({ visit }: Stage): void {
  it("opens the docs, follows their links, and goes back to what was written", async () => {
    const page = await visit();
    await page.getByLabel("Prompt", { exact: true }).fill("Not sent yet");
    await page.getByRole("link", { name: "Docs" }).click();
    const docs = page.getByRole("article", { name: "Docs" });
    await untilText(docs.getByRole("heading", { level: 2 }), /^Documentation$/);
    await docs.getByRole("link", { name: "Quota stores" }).click();
    await untilText(docs.getByRole("heading", { level: 2 }).first(), /^Quota/);
    expect(await docs.locator("pre .is-string").count()).toBeGreaterThan(3);
    await page.getByRole("link", { name: "All pages" }).click();
    await untilText(docs.getByRole("heading", { level: 2 }), /^Documentation$/);
    await page.getByRole("link", { name: "Chat", exact: true }).click();
    expect(await page.getByLabel("Prompt", { exact: true }).inputValue()).toBe("Not sent yet");
  });

  it("names the page of the docs in the tab, and the playground elsewhere", async () => {
    const page = await visit("/#docs/budgets");
    const title = async (expected: string): Promise<void> => {
      await expect.poll(() => page.title()).toBe(expected);
    };
    await title("Budgets – polygate");
    await page.getByRole("navigation", { name: "Pages of the docs" }).getByRole("link", { name: "Prices" }).click();
    await title("Prices – polygate");
    await page.getByRole("link", { name: "Chat", exact: true }).click();
    await title("polygate playground");
    await page.goBack();
    await title("Prices – polygate");
    await page.evaluate(() => (location.hash = "#docs/none"));
    await title("polygate playground");
  });

  it.each([390, 1280])("copies each code block of the docs by keyboard, beside its text, %i wide", async (width) => {
    const page = await visit("/#docs/getting-started", {
      viewport: { width, height: 844 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.locator(".docs h2").waitFor();
    const response = await page.request.get(new URL("/page/docs/pages.json", page.url()).href);
    const { pages } = (await response.json()) as { readonly pages: Readonly<Record<string, string>> };
    const codes = Array.from(
      (pages["getting-started"] ?? "").matchAll(/^```.*\n([^]*?)\n```$/gm),
      ([, code = ""]) => code,
    );
    expect(codes.length).toBeGreaterThan(2);
    const listings = page.locator(".docs .listing");
    expect(await listings.count()).toBe(codes.length);
    for (const [index, code] of codes.entries()) {
      const listing = listings.nth(index);
      const button = listing.getByRole("button", { name: "Copy", exact: true });
      const box = await button.boundingBox();
      const text = await listing.locator("pre").boundingBox();
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(text?.y ?? 0);
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await button.focus();
      await page.keyboard.press("Enter");
      await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(code);
    }
    expect(await barriers(page)).toEqual([]);
  });

  it("opens a page of the docs at a heading, and says which page there is not", async () => {
    const page = await visit("/#docs/responses/kept-responses");
    const heading = page.locator("#docs-kept-responses");
    await heading.waitFor();
    const isAtTop = async (): Promise<boolean> =>
      heading.evaluate((element) => Math.abs(element.getBoundingClientRect().top - 72) < 20);
    await expect.poll(isAtTop).toBe(true);
    await page.goto(`${page.url().split("#")[0]}#docs/none`);
    await page.getByRole("alert").getByText('The docs have no page "none".').waitFor();
  });

  it("has a side bar with all pages by group, and the headings of the present one", async () => {
    const page = await visit("/#docs");
    const pages = page.getByRole("navigation", { name: "Pages of the docs" });
    await pages.getByRole("link", { name: "Budgets", exact: true }).click();
    const docs = page.getByRole("article", { name: "Docs" });
    await untilText(docs.getByRole("heading", { level: 2 }), /^Budgets: spend limits of teams$/);
    const present = pages.locator('[aria-current="page"]');
    await untilText(present, /^Budgets$/);
    await pages.getByRole("link", { name: "Alerts and webhooks" }).click();
    await untilText(pages.locator('[aria-current="location"]'), /^Alerts and webhooks$/);
    // The reader goes on where the link leads.
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("docs-alerts-and-webhooks");
    await page.goBack();
    await expect.poll(() => page.evaluate(() => location.hash)).toBe("#docs/budgets");
    // Headings below others are there, too, and stand further to the right.
    const leftOf = async (name: string): Promise<number> =>
      pages.getByRole("link", { name, exact: true }).evaluate((link) => {
        const text = document.createRange();
        text.selectNodeContents(link);
        return text.getBoundingClientRect().left;
      });
    expect(await leftOf("Words")).toBeGreaterThan(await leftOf("Ended periods"));
    await pages.getByRole("link", { name: "Words", exact: true }).click();
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("docs-words");
  });

  it("shows the place of the present heading in the side bar, wherever the address leads", async () => {
    const page = await visit("/#docs/telemetry/spend-by-team");
    const link = page.locator('.docs-side [aria-current="location"]');
    await untilText(link, /^Spend by team$/);
    const isVisible = async (): Promise<boolean> =>
      link.evaluate((element) => {
        const { top, bottom } = element.getBoundingClientRect();
        const side = element.closest(".docs-side")?.getBoundingClientRect();
        return side !== undefined && top >= side.top && bottom <= side.bottom;
      });
    await expect.poll(isVisible).toBe(true);
    await page.evaluate(() => (location.hash = "#docs/getting-started/a-first-request"));
    await untilText(link, /^A first request$/);
    await expect.poll(isVisible).toBe(true);
  });

  it("searches headings and texts by keyboard alone", async () => {
    const page = await visit("/#docs");
    await page.getByRole("link", { name: "All pages" }).waitFor();
    await page.keyboard.press("/");
    const field = page.getByRole("searchbox", { name: "Search the docs" });
    await page.keyboard.type("second charge idempotancy");
    await untilText(page.getByRole("search").getByRole("status"), /^\d+ sections\. None has “idempotancy”\.$/);
    await page.keyboard.press("ArrowDown");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("href"))).toMatch(/^#docs\/retries/);
    expect(await barriers(page)).toEqual([]);
    await page.keyboard.press("ArrowUp");
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.press("Enter");
    const docs = page.getByRole("article", { name: "Docs" });
    await untilText(docs.getByRole("heading", { level: 2 }), /^Retries without a second charge$/);
    expect(await field.inputValue()).toBe("second charge idempotancy");
    await field.fill("zzzz qqqq");
    await untilText(page.getByRole("search").getByRole("status"), /^No section has these words\.$/);
    await field.press("Escape");
    expect(await field.inputValue()).toBe("");
  });

  it.each(["light", "dark"] as const)("folds the pages away on a narrow screen, %s", async (colorScheme) => {
    const page = await visit("/#docs/errors", { viewport: { width: 390, height: 844 }, colorScheme });
    const pages = page.getByRole("navigation", { name: "Pages of the docs" });
    await page.locator("#docs-codes").waitFor();
    expect(await pages.isVisible()).toBe(false);
    await page.getByRole("button", { name: "Pages", expanded: false }).click();
    expect(await barriers(page)).toEqual([]);
    expect(await isWiderThanScreen(page)).toBe(false);
    await pages.getByRole("link", { name: "Prices", exact: true }).click();
    await untilText(page.getByRole("article", { name: "Docs" }).getByRole("heading", { level: 2 }), /^Prices$/);
    await expect.poll(() => pages.isVisible()).toBe(false);
    expect(await isWiderThanScreen(page)).toBe(false);
  });

  it.each([390, 800, 1280])(
    "keeps the search in reach deep in a page, and covers no heading with it, %i wide",
    async (width) => {
      const page = await visit("/#docs/errors/messages-of-an-upstream", { viewport: { width, height: 844 } });
      const heading = page.locator("#docs-messages-of-an-upstream");
      const search = page.getByRole("search");
      const field = page.getByRole("searchbox", { name: "Search the docs" });
      await heading.waitFor();
      await expect.poll(() => page.evaluate(() => scrollY)).toBeGreaterThan(1_000);
      await expect.poll(() => isWhole(heading)).toBe(true);
      expect(await isWhole(field)).toBe(true);
      await page.keyboard.press("/");
      await page.keyboard.type("nginx");
      const first = search.getByRole("link").first();
      await first.waitFor();
      expect(await isWhole(first)).toBe(true);
      expect(await isWiderThanScreen(page)).toBe(false);
      // On a narrow screen, the results have its whole width, also below the button beside the field.
      const [results, side] = await Promise.all(
        [page.getByRole("list", { name: "Results" }), page.getByRole("complementary", { name: "Contents" })].map(
          async (part) => (await part.boundingBox())?.width ?? 0,
        ),
      );
      expect((side ?? 0) - (results ?? 0)).toBeLessThan(40);
      // The last of the results scrolls into sight by keyboard, too.
      await page.keyboard.press("ArrowDown");
      for (let left = (await search.getByRole("link").count()) - 1; left > 0; left--)
        await page.keyboard.press("ArrowDown");
      expect(await isWhole(search.getByRole("link").last())).toBe(true);
      expect(await barriers(page)).toEqual([]);
      await page.keyboard.press("Enter");
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toMatch(/^docs-/);
      await expect.poll(() => isWhole(page.locator(":focus"))).toBe(true);
    },
  );

  it.each([390, 1280])("closes the results when the address changes, and keeps the query, %i wide", async (width) => {
    const page = await visit("/#docs/errors", { viewport: { width, height: 844 } });
    const results = page.getByRole("list", { name: "Results" });
    const field = page.getByRole("searchbox", { name: "Search the docs" });
    const end = async (change: () => unknown): Promise<void> => {
      await field.fill("nginx");
      await results.waitFor();
      await change();
      await expect.poll(() => results.count()).toBe(0);
      expect(await field.inputValue()).toBe("nginx");
    };
    await end(() => page.evaluate(() => (location.hash = "#docs/errors/codes")));
    await expect.poll(() => page.locator("#docs-codes").isVisible()).toBe(true);
    await end(() => page.goBack());
    await page.getByRole("button", { name: "Show the results" }).click();
    await results.waitFor();
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.getByRole("button", { name: "Clear the search" }).click();
    expect(await field.inputValue()).toBe("");
    expect(await results.count()).toBe(0);
    expect(await field.evaluate((element) => element === document.activeElement)).toBe(true);
    expect(await page.getByRole("button", { name: "Clear the search" }).count()).toBe(0);
  });

  it.each([
    [390, "light"],
    [390, "dark"],
    [1280, "light"],
    [1280, "dark"],
  ] as const)("leads from one result to the next, with the words marked, %i wide, %s", async (width, colorScheme) => {
    const page = await visit("/#docs", { viewport: { width, height: 844 }, colorScheme });
    const results = page.getByRole("list", { name: "Results" });
    const field = page.getByRole("searchbox", { name: "Search the docs" });
    await field.fill("budgets of a team");
    await results.waitFor();
    const marks = await results.locator("mark").allTextContents();
    expect(marks).toEqual(expect.arrayContaining(["Budgets", "budget", "teams"]));
    expect(marks.filter((mark) => !/^(?:budget|team)/i.test(mark))).toEqual([]);
    expect(await barriers(page)).toEqual([]);
    for (const at of [0, 2, 2]) {
      if (width < 900 && !(await results.isVisible()))
        await page.getByRole("button", { name: "Show the results" }).click();
      const link = results.getByRole("link").nth(at);
      const href = await link.getAttribute("href");
      await page.evaluate(() => scrollTo(0, 0));
      await link.click();
      await expect.poll(() => page.evaluate(() => location.hash)).toBe(href);
      // The section is in sight, also when the address was there already, and the next result is one step away.
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toMatch(/^docs-/);
      await expect.poll(() => isWhole(page.locator(":focus"))).toBe(true);
      expect(await field.inputValue()).toBe("budgets of a team");
      expect(await results.isVisible()).toBe(width > 900);
      expect(
        await page
          .locator(".docs-search [aria-current]")
          .evaluateAll((all) => all.map((one) => one.getAttribute("href"))),
      ).toEqual([href]);
      expect(await barriers(page)).toEqual([]);
      expect(await isWiderThanScreen(page)).toBe(false);
    }
    await page.keyboard.press("/");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Escape");
    expect(await field.inputValue()).toBe("");
    expect(await results.count()).toBe(0);
  });

  it.each([390, 1280])(
    "lists the pages of the reference, and the names of the present one with a filter, %i wide",
    async (width) => {
      const page = await visit("/#docs/polygate/limits", { viewport: { width, height: 844 } });
      await page.locator("#docs-limits").waitFor();
      const pages = page.getByRole("navigation", { name: "Pages of the docs" });
      if (width < 900) await page.getByRole("button", { name: "Pages" }).click();
      await untilText(pages.locator('[aria-current="page"]'), /^polygate$/);
      const present = pages.locator('[aria-current="location"]');
      await untilText(present, /^Limits$/);
      await expect.poll(() => isWhole(present)).toBe(true);
      const filter = pages.getByRole("searchbox", { name: "Filter the headings of this page" });
      await filter.fill("corsop");
      expect(await pages.locator("li li a").allTextContents()).toEqual(["CorsOptions"]);
      expect(await barriers(page)).toEqual([]);
      expect(await isWiderThanScreen(page)).toBe(false);
      await filter.fill("zzzz");
      await pages.getByText("No heading has this text.").waitFor();
      await filter.fill("corsop");
      await pages.getByRole("link", { name: "CorsOptions" }).click();
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("docs-corsoptions");
      // A guide folds the reference away; its headings need no filter.
      await page.evaluate(() => (location.hash = "#docs/prices"));
      if (width < 900) await page.getByRole("button", { name: "Pages" }).click();
      await untilText(pages.locator('[aria-current="page"]'), /^Prices$/);
      expect(await filter.count()).toBe(0);
      const relay = pages.getByRole("link", { name: "polygate/backends/relay", exact: true });
      expect(await relay.isVisible()).toBe(false);
      await pages.getByText("Pages of the reference").click();
      await relay.click();
      await expect.poll(() => page.evaluate(() => location.hash)).toBe("#docs/polygate-backends-relay");
      await page.goto(`${page.url().split("#")[0]}#docs/polygate/limits/maxjsonbytes-number`);
      await untilText(page.locator(".docs .is-named code").first(), /^maxJsonBytes: number$/);
    },
  );

  it.each([
    [390, "429 The quota of this API key is used up.", "errors", /^The quota of … is used up\.$/],
    [1280, "429 The quota of this API key is used up.", "errors", /^The quota of … is used up\.$/],
    [
      390,
      "The upstream refuses the relay's account.",
      "error-messages",
      /^The upstream refuses the relay's account\.$/,
    ],
  ])(
    "leads to the row of a pasted error and marks it, and back to the query, %i wide: %s",
    async (width, error, name, text) => {
      const page = await visit("/#docs", { viewport: { width, height: 844 } });
      const field = page.getByRole("searchbox", { name: "Search the docs" });
      const results = page.getByRole("list", { name: "Results" });
      await field.fill(error);
      await results.getByRole("link").first().click();
      const named = page.locator(".docs .is-named");
      await untilText(named.locator("code").first(), text);
      expect(await named.count()).toBe(1);
      expect(await page.evaluate(() => location.hash.split("/")[1])).toBe(name);
      await expect.poll(() => named.evaluate((element) => element === document.activeElement)).toBe(true);
      await expect.poll(() => named.evaluate((element) => element.getBoundingClientRect().top)).toBeLessThan(200);
      expect(await isWhole(named.locator("code").first())).toBe(true);
      expect(await isWiderThanScreen(page)).toBe(false);
      expect(await barriers(page)).toEqual([]);
      await page.goBack();
      await results.waitFor();
      expect(await field.inputValue()).toBe(error);
      await expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);
      // A query that was given up does not come back.
      await field.press("Escape");
      await page.reload();
      await page.locator(".docs h2").first().waitFor();
      expect(await field.inputValue()).toBe("");
    },
  );

  it.each([390, 1280])("has no page with text beside its card, %i wide", async (width) => {
    const page = await visit("/#docs", { viewport: { width, height: 844 } });
    await page.locator(".docs h2").waitFor();
    const response = await page.request.get(new URL("/page/docs/pages.json", page.url()).href);
    const { pages } = (await response.json()) as { readonly pages: Readonly<Record<string, string>> };
    const texts = Object.entries(pages);
    expect(texts.length).toBeGreaterThan(60);
    for (const [name, markdown] of texts)
      expect([name, await page.evaluate(widthsOf, name)]).toEqual([name, { title: titleOf(markdown), wide: [] }]);
  });

  it("leads to the reference", async () => {
    const page = await visit();
    expect(await page.getByRole("link", { name: "Reference" }).getAttribute("href")).toBe("/reference");
    expect(await page.getByRole("link", { name: "Admin" }).getAttribute("href")).toBe("/admin");
  });
}
