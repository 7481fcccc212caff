/** The reference in a browser: it shows every operation, within its policy, and asks nobody but its own server. */

import { describe, expect, it } from "vitest";
import type { OpenApiDocument } from "../../src/openapi/index.ts";
import { startPlayground } from "../clients/playground.ts";
import { hasBrowser, launchBrowser } from "./stage.ts";

describe.skipIf(!hasBrowser)("the reference", () => {
  it("shows every operation of the document", async () => {
    await using stack = new AsyncDisposableStack();
    const playground = await startPlayground();
    stack.defer(() => playground.stop());
    const browser = await launchBrowser();
    stack.defer(() => browser.close());
    const page = await browser.newPage();
    const problems: string[] = [];
    page.on("pageerror", ({ message }) => problems.push(message));
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) problems.push(message.text());
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(`${playground.url}/`) && !request.url().startsWith("data:"))
        problems.push(`asked ${request.url()}`);
    });

    const { paths } = (await (await fetch(`${playground.url}/openapi.json`)).json()) as OpenApiDocument;
    await page.goto(`${playground.url}/reference`);
    const operations = page.locator(".opblock");
    await operations.first().waitFor();
    expect(await operations.count()).toBeGreaterThanOrEqual(
      Object.values(paths).flatMap((item) => Object.keys(item)).length,
    );
    await page.locator("#operations-Messages-createMessage button").first().click();
    await page.getByText("compat-version").first().waitFor();
    await page.locator("#operations-Images-editImage button").first().click();
    await page.locator("#operations-Images-editImage").getByText("image[]", { exact: true }).first().waitFor();
    expect(problems).toEqual([]);
  });
});
