/** Conversations of several turns in all formats, their events, and the options of a call. */

import { expect, it } from "vitest";
import { listing, only, panelOf, say, send, shownFormats, tab, untilState, untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

export function conversationsSuite({ visit }: Stage): void {
  it("goes on in every format: with the result of a call, and with another prompt", async () => {
    const page = await visit();
    const formats = await shownFormats(page);
    const followUp = page.getByRole("button", { name: "Follow up" });
    expect(await followUp.isDisabled()).toBe(true);
    await page.getByRole("button", { name: "Call a tool" }).click();
    await page.getByLabel("The weather tool answers").fill("Hail");
    await page.getByRole("button", { name: "Send the result" }).click();
    for (const format of formats)
      await untilText(panelOf(page, format).locator(".prose"), /^The tool get_weather answered: .*Hail/);
    await page.getByRole("button", { name: "Send the result" }).waitFor({ state: "detached" });

    await say(page, "Thank you");
    await followUp.click();
    for (const format of formats) {
      const panel = panelOf(page, format);
      await untilText(panel.locator(".prose").last(), /^You said: Thank you$/);
      await untilState(panel, "200");
      expect((await panel.locator(".said").allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "))).toEqual([
        "You /delay 60 What is the weather in Paris?",
        "You Result of get_weather: Hail",
        "You Thank you",
      ]);
    }
    const responses = panelOf(page, "responses");
    await tab(responses, "Raw");
    expect(await listing(responses, "Request")).toMatch(/"previous_response_id": "resp_/);
    await tab(panelOf(page, "messages"), "Raw");
    expect(await listing(panelOf(page, "messages"), "Request")).toMatch(/"signature"[^]*"tool_use"[^]*"tool_result"/);

    await say(page, "Something else");
    await send(page);
    await untilState(panelOf(page, "chat-completions"), "200");
    expect(await panelOf(page, "chat-completions").locator(".said").count()).toBe(0);
  });

  it("goes on from the last turn that was answered", async () => {
    const page = await visit();
    const panel = await only(page, "responses");
    await say(page, "First");
    await send(page);
    await untilState(panel, "200");
    for (const [prompt, state] of [
      ["/fail 503", "503"],
      ["/break 500 This will never be told to its end.", "broke off"],
      ["Last", "200"],
    ] as const) {
      await say(page, prompt);
      await page.getByRole("button", { name: "Follow up" }).click();
      await untilState(panel, state);
    }
    expect(await panel.locator(".prose").allInnerTexts()).toEqual(["You said: First", "You said: Last"]);
    expect(await panel.locator(".said").allInnerTexts()).toHaveLength(2);
  });

  it("lists the events of a stream as they come, each to be opened", async () => {
    const page = await visit();
    const panel = await only(page, "responses");
    await say(page, "/delay 50 /repeat 100");
    await send(page);
    await tab(panel, "Events");
    const events = panel.locator(".events li");
    await untilText(events.first(), /response\.created/);
    await events
      .filter({ hasText: /response\.output_text\.delta\s*\{"delta":" word"/ })
      .first()
      .waitFor();
    await panel.getByRole("button", { name: "Stop" }).click();
    await untilState(panel, "stopped");
    await say(page, "Hello");
    await page.getByLabel("Thinking").selectOption("off");
    await send(page);
    await untilState(panel, "200");
    const names = (await events.locator("b").allInnerTexts()).filter((name, index, all) => name !== all[index - 1]);
    expect(names).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    await events.last().locator("summary").click();
    await untilText(events.last().locator("pre"), /"status": "completed"/);
  });

  it("lets model, temperature, thinking and limit be chosen, and shows why one is refused", async () => {
    const page = await visit();
    const options = page.locator("datalist").first().locator("option");
    await options.first().waitFor({ state: "attached" });
    const models = await options.evaluateAll((all) => all.map((one) => one.getAttribute("value")));
    expect(models).toEqual(["demo-chat"]);
    await page.getByLabel("Temperature").fill("0.3");
    await page.getByLabel("Max tokens").fill("5000");
    await page.getByLabel("Thinking").selectOption("high");
    for (const [format, written] of [
      ["messages", /"temperature": 0.3[^]*"budget_tokens": 3750/],
      ["generate-content", /"maxOutputTokens": 5000,\s+"temperature": 0.3[^]*"thinkingBudget": 3750/],
      ["chat-completions", /"temperature": 0.3,\s+"reasoning_effort": "high"/],
      ["responses", /"max_output_tokens": 5000,\s+"temperature": 0.3[^]*"effort": "high"/],
    ] as const)
      expect(await listing(panelOf(page, format), "What will be sent")).toMatch(written);

    await page.getByLabel("Temperature").fill("3");
    await send(page);
    for (const format of await shownFormats(page)) {
      await untilState(panelOf(page, format), "400");
      expect(await panelOf(page, format).getByRole("alert").locator("p").innerText()).toContain("temperature");
    }
    await page.getByLabel("Temperature").fill("");
    await page.getByRole("form", { name: "Request" }).getByLabel("Model").fill("no-such-model");
    await send(page);
    for (const format of await shownFormats(page))
      await panelOf(page, format).getByRole("alert").getByText('There is no model "no-such-model".').first().waitFor();
    expect(await page.getByLabel("Max tokens").inputValue()).toBe("5000");
  });

  it("shows code in lines as long as they are written, and in colour", async () => {
    const page = await visit();
    for (const format of await shownFormats(page)) {
      const panel = panelOf(page, format);
      await tab(panel, "Code");
      await tab(panel, "HTTP");
      const pre = panel.locator("pre");
      // 88 characters is what the page's own code is written to.
      expect(await pre.evaluate((element) => element.clientWidth)).toBeGreaterThan(88 * 7.3 + 24);
      const colours = await pre
        .locator("span")
        .evaluateAll((all) => all.map((span) => `${span.className} ${getComputedStyle(span).color}`));
      expect(new Set(colours).size).toBeGreaterThanOrEqual(4);
      await tab(panel, "Answer");
    }
  });
}
