/** One browser and one playground for all tests of the page, and what every visit of the page is held to. */

import { existsSync } from "node:fs";
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type ConsoleMessage,
  type Page,
  type Request,
} from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { type Playground, startPlayground } from "../clients/playground.ts";

/** The shell is the same browser without its windows, which does as much in three quarters of the time. */
const INSTALLED = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
const CHROMIUM = process.env["CHROMIUM_PATH"] ?? INSTALLED.find((path) => existsSync(path)) ?? "";

/** Without what an idle browser does besides, and in as few processes as it can be: each costs a good part of a second. */
const ARGS =
  "--no-sandbox --disable-background-networking --disable-component-update --disable-sync " +
  "--disable-gpu --in-process-gpu --renderer-process-limit=1";

export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM, args: ARGS.split(" ") });

/** Whether there is a browser to test with. */
export const hasBrowser: boolean = existsSync(CHROMIUM);

/** What a test works with. */
export interface Stage {
  /** The playground's address. */
  readonly url: () => string;
  /** Opens what the playground serves at a path, in one tab for each set of options, and holds it to its rules when the test is over. */
  readonly open: (path: string, options?: BrowserContextOptions) => Promise<Page>;
  /** Opens the page anew, and waits until it is there. */
  readonly visit: (path?: string, options?: BrowserContextOptions) => Promise<Page>;
}

/** Without motion, which costs time and shows nothing that a test looks at. */
const USUAL: BrowserContextOptions = { viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" };

/** Starts browser and playground before the tests, and ends them after. */
export function openStage(): Stage {
  let browser: Browser;
  let playground: Playground;
  beforeAll(async () => {
    [browser, playground] = await Promise.all([launchBrowser(), startPlayground()]);
  });
  afterAll(async () => {
    await browser.close();
    await playground.stop();
  });
  const url = (): string => playground.url;
  const pages = new Map<string, Promise<Page>>();
  const open = async (path: string, options: BrowserContextOptions = {}): Promise<Page> => {
    const all: BrowserContextOptions = { ...USUAL, ...options };
    const profile = JSON.stringify(all);
    const opened = pages.get(profile) ?? browser.newPage(all);
    pages.set(profile, opened);
    const page = await opened;
    const problems = watch(page, url());
    onTestFinished(async () => {
      await page.evaluate(() => localStorage.clear());
      // Ends what is still under way, and lets the next visit begin anew; a page of elsewhere would cost it a process of its own.
      await page.goto(`${url()}/page/logo.svg`);
      expect(problems()).toEqual([]);
    });
    await page.goto(url() + path);
    return page;
  };
  const visit = async (path = "/", options?: BrowserContextOptions): Promise<Page> => {
    const page = await open(path, options);
    await page.locator("[data-format]").first().waitFor({ state: "attached" });
    return page;
  };
  return { url, open, visit };
}

/** A key that a test types; it may stand in no address. */
export const TYPED_KEY = "sk-typed-by-the-user";

/** Notes what no visit may do: an error on the console, a request to elsewhere, a key in an address. */
function watch(page: Page, url: string): () => string[] {
  const problems: string[] = [];
  const onError = (error: Error): void => void problems.push(`threw: ${error.message}`);
  const onConsole = (message: ConsoleMessage): void => {
    // The browser notes each answer with an error status, which some tests ask for.
    const isStatus = message.text().startsWith("Failed to load resource: the server responded with a status of");
    if (["error", "warning"].includes(message.type()) && !isStatus) problems.push(`console: ${message.text()}`);
  };
  const onRequest = (request: Request): void => {
    const address = request.url();
    const isOwn = ["about:blank", "blob:", "data:", `${url}/`].some((start) => address.startsWith(start));
    if (!isOwn) problems.push(`went to ${address}`);
    if (/(?<![a-z])sk-/.test(address)) problems.push(`has a key in ${address}`);
  };
  page.on("pageerror", onError).on("console", onConsole).on("request", onRequest);
  return () => {
    page.off("pageerror", onError).off("console", onConsole).off("request", onRequest);
    return problems;
  };
}
