/** The reference in a browser: it shows every operation. */

import { expect, it } from "vitest";
import type { OpenApiDocument } from "../../src/openapi/index.ts";
import type { Stage } from "./stage.ts";

export function referenceSuite({ url, open }: Stage): void {
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
