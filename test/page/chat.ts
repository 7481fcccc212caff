/** The chat, as a newcomer uses it. */

import { expect, it } from "vitest";
import { fact, listing, only, panelOf, say, send, shownFormats, tab, untilState, untilText } from "./hands.ts";
import type { Stage } from "./stage.ts";

export function chatSuite({ url, visit }: Stage): void {
  it("streams a message: thoughts, words, what it used, and every frame as it came", async () => {
    const page = await visit();
    const panel = await only(page, "messages");
    await send(page);
    await untilState(panel, "streaming");
    await panel.locator(".thinking").waitFor();
    expect(await panel.locator("[aria-live]").getAttribute("aria-busy")).toBe("true");
    await untilText(panel.locator(".prose"), /^You said: Hello/);
    expect(await panel.locator(".prose").innerText()).not.toMatch(/stream\.$/);
    await untilState(panel, "200");
    await untilText(panel.locator(".prose"), /watch it stream\.$/);
    expect(await panel.locator("[aria-live]").getAttribute("aria-busy")).toBe("false");
    expect(await fact(panel, "input").innerText()).toBe("21 tokens");
    expect(await fact(panel, "output").innerText()).toBe("33 tokens");
    expect(await fact(panel, "stopped by").innerText()).toBe("end_turn");
    await untilText(page.getByRole("status").last(), /^Messages: done\.$/);

    await tab(panel, "Raw");
    expect(await listing(panel, "Request")).toMatch(
      /^POST \/v1\/messages HTTP\/1\.1\nhost: [^]*x-api-key: sk-metered\n/,
    );
    const response = await listing(panel, "Response");
    expect(response).toMatch(/^HTTP\/1\.1 200\n[^]*content-type: text\/event-stream/);
    expect(response.match(/^event: \w+$/gm)?.slice(0, 2)).toEqual([
      "event: message_start",
      "event: content_block_start",
    ]);
    expect(response).toMatch(/data: \{"type":"message_stop"\}\s*$/);
  });

  it.each(["no-preference", "reduce"] as const)(
    "brings the answers in sight of a phone, below a long form, with motion: %s",
    async (reducedMotion) => {
      const page = await visit("/", { viewport: { width: 390, height: 844 }, reducedMotion });
      const topOf = (): Promise<number> =>
        page.locator("#answers").evaluate((answers) => Math.round(answers.getBoundingClientRect().top));
      expect(await topOf()).toBeGreaterThan(844);
      await page.getByRole("button", { name: "Send in 4 formats" }).click();
      await untilState(panelOf(page, "messages"), "200");
      await expect.poll(topOf).toBeLessThan(844 / 2);
    },
  );

  it("sends one prompt in every format that the gateway has, side by side, and shows it as text", async () => {
    const routes = {
      messages: "/v1/messages",
      "generate-content": "/v1beta/models/demo-chat:generateContent",
      "chat-completions": "/v1/chat/completions",
      responses: "/v1/responses",
    };
    const asked = Object.entries(routes).map(async ([format, path]) => {
      const { status } = await fetch(url() + path, { method: "POST" });
      return status === 404 ? [] : [format];
    });
    const page = await visit();
    const formats = await shownFormats(page);
    expect(formats).toEqual((await Promise.all(asked)).flat());

    const prompt = '<img src="/nowhere" onerror="throw 1"><b id="let-in">';
    await say(page, prompt);
    await send(page);
    for (const format of formats) {
      await untilState(panelOf(page, format), "200");
      expect(await panelOf(page, format).locator(".prose").innerText()).toBe(`You said: ${prompt}`);
    }
    expect(await page.locator("#let-in").count()).toBe(0);
    const panels = page.locator("[data-format]");
    const tops = await panels.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
    expect(new Set(tops).size).toBe(formats.length / 2);
  });

  it("takes an answer whole where it is not to stream", async () => {
    const page = await visit();
    await page.getByLabel("Stream", { exact: true }).uncheck();
    await say(page, "Hello");
    await send(page);
    for (const format of await shownFormats(page)) {
      const panel = panelOf(page, format);
      await untilState(panel, "200");
      expect(await panel.locator(".prose").innerText()).toBe("You said: Hello");
      expect(await panel.locator(".thinking").innerText()).toContain("The user wrote 1 words.");
      await fact(panel, "output").waitFor();
    }
  });

  it("shows tool calls with their arguments", async () => {
    const page = await visit();
    await page.getByRole("button", { name: "Call a tool" }).click();
    for (const format of await shownFormats(page)) {
      await untilState(panelOf(page, format), "200");
      const call = panelOf(page, format).locator(".block", { hasText: "Tool call" });
      expect(await call.locator("h4").innerText()).toBe("Tool call get_weather");
      expect(JSON.parse(await call.locator("pre").innerText())).toMatchObject({ city: "Paris" });
    }
  });

  it("asks for JSON by a schema, which can be changed", async () => {
    const page = await visit();
    await page.getByRole("button", { name: "JSON by a schema" }).click();
    const panel = panelOf(page, "generate-content");
    await untilState(panel, "200");
    const first = JSON.parse(await panel.locator(".block pre").innerText()) as Record<string, unknown>;
    expect(Object.keys(first)).toEqual(["city", "inhabitants", "sights"]);

    const schema = page.getByLabel("Schema of the answer");
    await schema.fill("{ not yet");
    await page.getByText("This is not JSON yet.").waitFor();
    expect(await page.getByRole("button", { name: /^Send/ }).isDisabled()).toBe(true);
    await schema.fill('{ "type": "object", "properties": { "mood": { "enum": ["calm"] } }, "required": ["mood"] }');
    await send(page);
    await untilText(panel.locator(".block pre"), /"mood": "calm"/);
    await untilState(panel, "200");
    await tab(panel, "Raw");
    expect(await listing(panel, "Request")).toContain('"responseJsonSchema"');
  });

  it("has code run, and says where a format cannot", async () => {
    const page = await visit();
    await page.getByRole("button", { name: "Run code" }).click();
    const panel = panelOf(page, "generate-content");
    await untilState(panel, "200");
    expect(await panel.locator(".block", { hasText: "Python" }).locator("pre").innerText()).toBe(
      "print((17 + 4) * 2)\n",
    );
    expect(await panel.locator(".block", { hasText: "Result" }).innerText()).toMatch(/OUTCOME_OK\s+42/);
    await panelOf(page, "messages").getByText("This format has no code execution: it is left out.").waitFor();
  });
}
