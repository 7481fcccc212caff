/** The pictures, as a newcomer makes them: drawn, painted on, edited, varied. */

import { randomBytes } from "node:crypto";
import type { Locator, Page } from "playwright-core";
import sharp from "sharp";
import { expect, it, onTestFinished } from "vitest";
import { listing, tab, untilState } from "./hands.ts";
import type { Stage } from "./stage.ts";

const button = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true });

const gallery = (page: Page): Locator => page.getByRole("list", { name: "Pictures so far" }).getByRole("button");

const maskOf = (page: Page): Locator => page.locator(".easel canvas");

const panelOf = (page: Page): Locator => page.locator(".studio .panel");

const drawn = async (page: Page): Promise<void> => {
  await button(page, "Draw").click();
  await gallery(page).first().waitFor();
};

/** Draws with the mouse, from and to a place in shares of the picture. */
async function paint(
  page: Page,
  [x1, y1]: readonly [number, number],
  [x2, y2]: readonly [number, number],
): Promise<void> {
  const box = await maskOf(page).boundingBox();
  if (!box) throw new Error("There is nothing to paint on.");
  await page.mouse.move(box.x + x1 * box.width, box.y + y1 * box.height);
  await page.mouse.down();
  await page.mouse.move(box.x + x2 * box.width, box.y + y2 * box.height, { steps: 5 });
  await page.mouse.up();
}

/** The pixels of a picture in the gallery. */
async function pixelsOf(page: Page, index: number): Promise<{ data: Buffer; width: number }> {
  const url = await gallery(page)
    .nth(index)
    .locator("img")
    .evaluate((image: HTMLImageElement) => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
      canvas.getContext("2d")?.drawImage(image, 0, 0);
      return canvas.toDataURL("image/png");
    });
  const picture = sharp(Buffer.from(url.slice(url.indexOf(",")), "base64"));
  const { data, info } = await picture.ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  return { data, width: info.width };
}

/** Where two pictures differ: the box around it, in shares of the picture; undefined where they are the same. */
async function difference(page: Page, first: number, second: number): Promise<number[] | undefined> {
  const [before, after] = [await pixelsOf(page, first), await pixelsOf(page, second)];
  const [xs, ys]: [number[], number[]] = [[], []];
  for (let at = 0; at < before.data.length; at += 4)
    if (before.data.readUInt32BE(at) !== after.data.readUInt32BE(at)) {
      xs.push((at / 4) % before.width);
      ys.push(Math.floor(at / 4 / before.width));
    }
  if (xs.length === 0) return undefined;
  // Too many for Math.min and its like.
  const ends = [xs, ys].map((all) => all.toSorted((one, other) => one - other));
  return ends.flatMap((all) => [all.at(0) ?? 0, all.at(-1) ?? 0]).map((end) => end / before.width);
}

export function picturesSuite({ visit }: Stage): void {
  it("draws a picture, and edits it only where the mouse has painted", async () => {
    const page = await visit("/#pictures");
    await drawn(page);
    await untilState(panelOf(page), "200");
    await paint(page, [0.3, 0.3], [0.6, 0.3]);
    await page.getByText(/^The mask covers \d+% of the picture\.$/).waitFor();
    await button(page, "Edit picture").click();
    await gallery(page).nth(1).waitFor();
    const [left = 0, right = 1, top = 0, bottom = 1] = (await difference(page, 0, 1)) ?? [];
    // The brush is 12% wide, and round.
    for (const [side, expected] of [
      [left, 0.24],
      [right, 0.66],
      [top, 0.24],
      [bottom, 0.36],
    ] as const)
      expect(side).toBeCloseTo(expected, 1);
    await tab(panelOf(page), "Raw");
    expect(await listing(panelOf(page), "Request")).toMatch(/name="mask"; filename="mask\.png"/);
  });

  it("paints a rectangle by numbers, with the keyboard alone", async () => {
    const page = await visit("/#pictures");
    await drawn(page);
    await page.getByText("Add a rectangle by numbers").focus();
    await page.keyboard.press("Enter");
    const fields = page.getByRole("form", { name: "Rectangle" });
    for (const [name, value] of [
      ["Left", "0"],
      ["Top", "0"],
      ["Width", "256"],
      ["Height", "128"],
    ] as const) {
      await fields.getByLabel(name).focus();
      await page.keyboard.press("ControlOrMeta+A");
      await page.keyboard.type(value);
    }
    await page.keyboard.press("Enter");
    await page.getByText("The mask covers 13% of the picture.").waitFor();
    await button(page, "Edit picture").focus();
    await page.keyboard.press("Enter");
    await gallery(page).nth(1).waitFor();
    const box = await difference(page, 0, 1);
    expect(box?.map((side) => Math.round(side * 512))).toEqual([0, 255, 0, 127]);
  });

  it("paints with a finger, erases, takes back and clears", async () => {
    const page = await visit("/#pictures", { hasTouch: true });
    await drawn(page);
    const box = await maskOf(page).boundingBox();
    await page.touchscreen.tap((box?.x ?? 0) + 100, (box?.y ?? 0) + 100);
    const covers = page.getByText(/^The mask covers/);
    await covers.waitFor();
    await button(page, "Eraser").click();
    await page.getByLabel("Size", { exact: true }).last().fill("40");
    await page.touchscreen.tap((box?.x ?? 0) + 100, (box?.y ?? 0) + 100);
    await covers.waitFor({ state: "detached" });
    await button(page, "Undo").click();
    await covers.waitFor();
    await button(page, "Clear").click();
    await covers.waitFor({ state: "detached" });
    expect(await button(page, "Undo").isDisabled()).toBe(true);
  });

  it("makes variations, and shows pictures that come as base64", async () => {
    const page = await visit("/#pictures");
    await page.getByLabel("Answer with").selectOption("b64_json");
    await page.getByLabel("Size", { exact: true }).first().selectOption("256x256");
    await drawn(page);
    await button(page, "Make variations").click();
    await gallery(page).nth(2).waitFor();
    expect(await gallery(page).count()).toBe(3);
    expect(await difference(page, 1, 2)).toBeDefined();
    await tab(panelOf(page), "Raw");
    expect(await listing(panelOf(page), "Response")).toMatch(/"b64_json":"[\w+/]{60}… [\d,]+ more"/);
  });

  it("shows how far an upload is", async () => {
    const page = await visit("/#pictures");
    // Noise cannot be compressed.
    const [width, height] = [700, 700];
    const noise = sharp(randomBytes(width * height * 3), { raw: { width, height, channels: 3 } });
    const buffer = await noise.png().toBuffer();
    await page.getByLabel("Open your own").setInputFiles({ name: "noise.png", mimeType: "image/png", buffer });
    await gallery(page).first().waitFor();
    const network = await page.context().newCDPSession(page);
    const limits = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: buffer.length / 2 };
    await network.send("Network.emulateNetworkConditions", limits);
    onTestFinished(() => network.detach());
    await button(page, "Make variations").click();
    await untilState(panelOf(page), "uploading");
    const bar = panelOf(page).getByRole("progressbar", { name: "Upload" });
    await expect.poll(async () => Number(await bar.getAttribute("value"))).toBeGreaterThan(0);
    expect(Number(await bar.getAttribute("value"))).toBeLessThan(1);
    await untilState(panelOf(page), "200");
    await gallery(page).nth(2).waitFor();
  });

  it("shows why a picture is refused", async () => {
    const page = await visit("/#pictures");
    const wide = sharp({ create: { width: 30, height: 20, channels: 3, background: "#345" } });
    const buffer = await wide.png().toBuffer();
    await page.getByLabel("Open your own").setInputFiles({ name: "wide.png", mimeType: "image/png", buffer });
    await gallery(page).first().waitFor();
    await button(page, "Make variations").click();
    await untilState(panelOf(page), "400");
    const alert = panelOf(page).getByRole("alert");
    expect(JSON.parse(await alert.locator("pre").innerText())).toMatchObject({ error: { param: "image" } });

    const text = { name: "text.png", mimeType: "image/png", buffer: Buffer.from("no picture") };
    await page.getByLabel("Open your own").setInputFiles(text);
    await page.getByText("The browser cannot read this picture.").waitFor();
  });
}
