/** The hard cases of the chat: long, slow, silent, broken and refused answers. */

import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { fact, listing, only, panelOf, say, send, tab, untilState, untilText } from "./hands.ts";
import { type Stage, TYPED_KEY } from "./stage.ts";

const example = (page: Page, name: string): Promise<void> => page.getByRole("button", { name, exact: true }).click();

const chooseKey = (page: Page, key: string): Promise<unknown> =>
  page.getByLabel("Key", { exact: true }).selectOption(key);

export function hardCasesSuite({ visit }: Stage): void {
  it("tells 200 words", async () => {
    const page = await visit();
    await example(page, "/repeat 200");
    await untilState(panelOf(page, "messages"), "200");
    const text = await panelOf(page, "messages").locator(".prose").innerText();
    expect(text).toBe(Array.from({ length: 200 }, () => "word").join(" "));
  });

  it("stops a slow answer, and keeps what came", async () => {
    const page = await visit();
    await example(page, "/delay 50");
    const panel = panelOf(page, "generate-content");
    await untilText(panel.locator(".prose"), /word word/);
    await panel.getByRole("button", { name: "Stop" }).click();
    await untilState(panel, "stopped");
    await panel.getByText("You stopped this call.").waitFor();
    // The other goes on until both are stopped.
    expect(await panelOf(page, "messages").locator(".state").innerText()).toBe("streaming");
    await page.getByRole("form", { name: "Request" }).getByRole("button", { name: "Stop" }).click();
    await untilState(panelOf(page, "messages"), "stopped");
    await tab(panel, "Raw");
    expect(await listing(panel, "Response")).toMatch(/"text":"word"[^]*\(stopped here\)$/);
  });

  it("waits through silence, and can be stopped in it by a key", async () => {
    const page = await visit();
    await example(page, "/silent 5000");
    await untilState(panelOf(page, "messages"), "waiting");
    await page.getByLabel("Prompt", { exact: true }).press("Escape");
    await untilState(panelOf(page, "messages"), "stopped");
    expect(await panelOf(page, "messages").locator(".prose").count()).toBe(0);
  });

  it("shows an error as the client sees it: before the answer, and in the middle of it", async () => {
    const page = await visit();
    await example(page, "/fail 503");
    const panel = panelOf(page, "messages");
    await untilState(panel, "503");
    const alert = panel.getByRole("alert");
    expect(await alert.locator("h4").innerText()).toBe("Status 503");
    expect(await alert.innerText()).toMatch(/request-id\s+req_/);
    expect(JSON.parse(await alert.locator("pre").innerText())).toMatchObject({ error: { type: "server_error" } });
    await untilText(page.getByRole("status").last(), /failed, 503/);

    // The error stands below the tabs, whichever is open.
    await tab(panel, "Code");
    await say(page, "/fail 429");
    await send(page);
    await untilState(panel, "429");
    expect(await alert.innerText()).toMatch(/retry-after\s+1/);
    await tab(panel, "Answer");

    await example(page, "/break 500");
    for (const format of ["messages", "generate-content"]) {
      await untilState(panelOf(page, format), "broke off");
      expect(await panelOf(page, format).locator(".prose").innerText()).toMatch(/^You said: This/);
      expect(await panelOf(page, format).getByRole("alert").innerText()).toContain("asked to fail with 500.");
    }
  });

  it("takes a key that is typed, and shows it nowhere", async () => {
    const page = await visit();
    await chooseKey(page, "other");
    await untilText(page.locator(".quota"), /^Type a key\.$/);
    await page.getByLabel("Your key").fill(TYPED_KEY);
    await untilText(page.locator(".quota"), /^token not found$/);
    const panel = await only(page, "messages");
    const sent = page.waitForRequest("**/v1/messages");
    await send(page);
    expect(await (await sent).headerValue("x-api-key")).toBe(TYPED_KEY);
    await untilState(panel, "401");
    await tab(panel, "Raw");
    expect(await listing(panel, "Request")).toContain("x-api-key: $POLYGATE_API_KEY");
    await tab(panel, "Code");
    expect(await listing(panel, "@anthropic-ai/sdk")).toContain("apiKey: process.env.POLYGATE_API_KEY");
    expect(await page.content()).not.toContain(TYPED_KEY);
  });

  it("holds quota while a call runs, and charges what it used", async () => {
    const page = await visit();
    await chooseKey(page, "sk-limited");
    const meter = page.getByRole("meter", { name: "Quota used" });
    await meter.waitFor();
    const usedBefore = Number(await meter.getAttribute("aria-valuenow"));
    const panel = await only(page, "messages");
    await say(page, "/delay 40 /repeat 20");
    await send(page);
    await untilText(page.locator(".quota-change"), /^\$0\.004\d{3} held$/);
    expect(Number(await meter.getAttribute("aria-valuenow"))).toBeGreaterThan(usedBefore + 4_000);
    await untilState(panel, "200");
    await untilText(page.locator(".quota-change"), /^\$0\.0000\d\d? charged$/);
    const tokens = await Promise.all(["input", "output"].map((name) => fact(panel, name).innerText()));
    const charged = tokens.reduce((sum, text) => sum + Number.parseInt(text), 0);
    expect(await page.locator(".quota-change").innerText()).toBe(
      `$${(charged / 1_000_000).toFixed(6).replace(/0$/, "")} charged`,
    );
    expect(Number(await meter.getAttribute("aria-valuenow"))).toBe(usedBefore + charged);
  });

  it("tells what each key has left, and why it is refused", async () => {
    const page = await visit();
    const panel = await only(page, "messages");
    for (const [key, left, status, shown] of [
      ["sk-demo", /^Unlimited/, "200", /You said: sk-demo/],
      ["sk-empty", /^\$0\.00 left/, "429", /x-should-retry\s+false/],
      ["sk-expired", /^\$1\.00 left/, "401", /API key/],
    ] as const) {
      await chooseKey(page, key);
      await untilText(page.locator(".quota"), left);
      await say(page, key);
      await send(page);
      await untilState(panel, status);
      expect(await panel.innerText()).toMatch(shown);
    }
  });
}
