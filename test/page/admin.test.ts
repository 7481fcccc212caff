/** The admin's page in a browser: makes, changes and revokes keys, makes budgets, and keeps what users write apart from its own code. */

import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import type { Browser, BrowserContextOptions, Locator, Page, Route } from "playwright-core";
import { build } from "tsdown";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { adminPageBundle } from "../../playground/bundles.ts";
import { adminHandler, type AdminUser } from "../../src/admin/http/index.ts";
import { pageIn } from "../../src/admin/page/files.ts";
import { createGateway, flexibleRateLimiter, type Gateway, GatewayError, type ModelBackend } from "../../src/index.ts";
import { withEscapes } from "../../src/model/visible.ts";
import { priceTable } from "../../src/prices/index.ts";
import { type OpenedStores, openStores } from "../../src/stores/open/index.ts";
import { HOSTILE_TEXTS } from "../admin/hostile.ts";
import { barriers, isWiderThanScreen } from "./barriers.ts";
import { hasBrowser, launchBrowser } from "./stage.ts";

const EVIL = `<img src=x onerror="document.title='taken'">`;

/** True for a text that every store keeps, and that a browser shows as it is written. */
const isPlain = (text: string): boolean =>
  text.isWellFormed() && !/[\p{C}\s]{2}|\p{C}|^\s|\s$/u.test(text) && text !== "__proto__";

/** Returns what is written in a field. */
const fieldOf = (page: Page, name: string): Promise<string> => page.getByRole("textbox", { name }).inputValue();

/** Returns the days that a page has chosen. */
const daysOf = async (page: Page): Promise<string[]> => [await fieldOf(page, "From"), await fieldOf(page, "To")];

/** Downloads the CSV of the report or the list that is shown, for a reader. */
async function csvOf(page: Page, reader = "programs", name = "usage"): Promise<string> {
  await page.getByLabel("CSV for").selectOption(reader);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page
      .getByRole("link", { name: "CSV" })
      .or(page.getByRole("button", { name: "CSV" }))
      .click(),
  ]);
  expect(download.suggestedFilename()).toMatch(
    new RegExp(`^${name}(?:-20\\d\\d-\\d\\d-\\d\\d){1,2}(?:-today)?\\.csv$`),
  );
  return readFile(await download.path(), "utf8");
}

/** Returns a day of 2024, or a later one. */
const dayAt = (at: number): string => new Date(Date.UTC(2024, 0, 1 + at)).toISOString().slice(0, 10);

/** Returns the first cells of CSV for programs below its headings. */
const firstCells = (csv: string): string[] =>
  csv
    .trimEnd()
    .split("\r\n")
    .slice(1)
    .map((line) => line.split(",")[0] ?? "");

/** Clicks a button twice, and lets its requests to some addresses go on only then. */
async function clickedTwice(page: Page, button: Locator, addresses: RegExp): Promise<void> {
  const clicked = Promise.withResolvers<void>();
  await page.route(addresses, async (route) => {
    await clicked.promise;
    await route.continue();
  });
  await button.click();
  await button.click();
  clicked.resolve();
}

/**
 * Holds the requests to some addresses.
 *
 * @param answer Their answer in place of the server's.
 * @returns A function that lets them go on, and waits until the page has their answers.
 */
async function held(
  page: Page,
  addresses: RegExp,
  answer?: { readonly status?: number; readonly json: object },
): Promise<() => Promise<void>> {
  const released = Promise.withResolvers<void>();
  await page.route(addresses, async (route) => {
    await released.promise;
    await (answer ? route.fulfill(answer) : route.continue());
  });
  return async () => {
    const answered = page.waitForResponse(addresses);
    released.resolve();
    await (await answered).finished();
    await page.unroute(addresses);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  };
}

/** Lets the next change at an address be made, and gives the page another answer than the server's. */
async function lose(page: Page, address: RegExp, answer: (route: Route) => Promise<void>): Promise<void> {
  const answerOnce = async (route: Route): Promise<void> => {
    await route.fetch();
    await answer(route);
  };
  await page.route(address, answerOnce, { times: 1 });
}

const badGateway = (route: Route): Promise<void> =>
  route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" });

type Color = readonly number[];

/** Returns the colours near the beginnings of the bars in some rows, and of the page below the last bar. */
async function colorsOf(page: Page, names: readonly string[]): Promise<readonly Color[]> {
  const boxes = await Promise.all(
    names.map(async (name) => (await rowOf(page, name).locator("meter").boundingBox()) ?? { x: 0, y: 0, height: 0 }),
  );
  const middles = boxes.map(({ x, y, height }): [number, number] => [x + 8, y + height / 2]);
  const [last = [0, 0]] = middles.slice(-1);
  const points = [...middles, [last[0], last[1] + 12] as const];
  const picture = (await page.screenshot()).toString("base64");
  return page.evaluate(
    async ([base64, at]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
      const drawing = canvas.getContext("2d", { willReadFrequently: true });
      drawing?.drawImage(image, 0, 0);
      return at.map(([x, y]) => Array.from(drawing?.getImageData(x, y, 1, 1).data ?? []).slice(0, 3));
    },
    [picture, points] as const,
  );
}

/** Returns the contrast of two colours by the rules of WCAG. */
function contrastOf(a: Color | undefined, b: Color | undefined): number {
  const [light = 0, dark = 0] = [a, b].map(luminanceOf).toSorted((one, other) => other - one);
  return (light + 0.05) / (dark + 0.05);
}

const luminanceOf = (color: Color = []): number =>
  color
    .map((value) => value / 255)
    .map((share) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4))
    .reduce((sum, share, at) => sum + share * ([0.2126, 0.7152, 0.0722][at] ?? 0), 0);

/** Returns the places of the points of some amounts, in pixels from the left. */
const pointsOf = (amounts: Element[]): number[] =>
  amounts.map((amount) => {
    const [range, text] = [new Range(), amount.firstChild as Text];
    range.setStart(text, text.data.indexOf("."));
    return Math.round(range.getBoundingClientRect().left);
  });

/** The steps that help after a call. */
/** Returns the colours of the states within a part of the page. */
const coloursIn = (part: Locator): Promise<readonly string[]> =>
  part.locator(".state").evaluateAll((states) => states.map((state) => getComputedStyle(state).color));

const nextOf = (page: Page): Locator => page.locator('[data-column="Next"]');

const inWords = (day: string): string =>
  new Date(day).toLocaleDateString("en-US", { dateStyle: "medium", timeZone: "UTC" });

const hintOfUnits = (of: string): string => `Such as 1000000. A unit is a millionth of ${of}.`;

/** Presses a button of a row, also one that stands behind the button for more. */
async function press(page: Page, name: string): Promise<void> {
  const button = page.getByRole("button", { name, exact: true, includeHidden: true });
  const menu = await button.evaluate((one) => one.closest("[popover]")?.id);
  if (menu !== undefined) await page.locator(`[popovertarget="${menu}"]`).click();
  await button.click();
}

/** Returns the id of the call behind an answer. */
const idOf = ({ headers }: Response): string => headers.get("request-id") ?? "";

/** Shows the filters, which a phone has behind a button. */
async function unfold(page: Page): Promise<void> {
  const button = page.getByRole("button", { name: "Filters and CSV" });
  if (await button.isVisible()) await button.click();
}

/** Waits until a quota or a budget of this amount is shown. */
const untilGranted = (page: Page, amount: string): Promise<void> =>
  page.locator('[data-column^="Granted"]').getByText(amount, { exact: true }).waitFor();

/** Checks that a field has the focus, and its error beside it, for screen readers as well. */
async function isBeside(field: Locator, words: string): Promise<void> {
  await field.and(field.page().locator(":focus")).waitFor();
  expect(await field.getAttribute("aria-invalid")).toBe("true");
  const [error = ""] = (await field.getAttribute("aria-describedby"))?.split(" ") ?? [];
  expect(await field.page().locator(`.field > [id="${error}"]`).textContent()).toContain(words);
  expect(await field.page().getByRole("alert").count()).toBe(1);
}

const rowOf = (page: Page, name: string): Locator => page.getByRole("row").filter({ hasText: name });

function asked(keyId: string, model: string, stream = false): Request {
  const headers = { authorization: `Bearer sk-${keyId}`, "content-type": "application/json" };
  const body = JSON.stringify({ model, stream, max_tokens: 50, messages: [{ role: "user", content: "Rain?" }] });
  return new Request("http://host/v1/chat/completions", { method: "POST", headers, body });
}

const RAIN: ModelBackend = {
  async *chat() {
    yield "Rain.";
  },
};

describe.skipIf(!hasBrowser)("the admin's page", () => {
  let folder: string;
  let browser: Browser;
  let stores: OpenedStores;
  /** The file of the stores. */
  let database: string;
  let server: Server;
  let url: string;
  let user: AdminUser | undefined;
  /** The answer of the host's login to somebody who is not logged in any more. */
  let login: (() => Response) | undefined;
  let problems: string[];
  /** The option of the page. */
  let currency: string | undefined;
  /** The sentence below the header. */
  let hint: string;
  /** The gateway whose calls run. */
  let live: Gateway | undefined;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "admin-page-"));
    await build({ ...adminPageBundle(folder), config: false, logLevel: "error" });
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    user = { name: "ann" };
    login = undefined;
    problems = [];
    currency = "USD";
    hint = "";
    live = undefined;
    database = join(folder, `${crypto.randomUUID()}.db`);
    stores = await openStores(`sqlite:${database}`, { sweepMs: 0 });
    const health = {
      ready: true,
      closing: false,
      calls: 3,
      waitingSettlements: 0,
      stores: { "quota-store": "resting" },
      reasons: { "quota-store": "The store has hung several times in a row." },
      restingUpstreams: 1,
      upstreams: [
        ...["large", "*"].map((route) => {
          return { route, upstream: "primary", state: "open", waitMs: 11_500, lastFailure: undefined };
        }),
        ...[{}, { ofOneKey: true, code: "invalid_request" }].map((more, at) => {
          const failing = {
            code: "model_not_found",
            at: 2,
            times: 1_200,
            since: Date.UTC(2026, 10, 5, 14, 3),
            ...more,
          };
          return { route: "*", upstream: `refusing ${at + 1}`, state: "closed", waitMs: 0, failing };
        }),
        {
          route: "*",
          upstream: "misdirected",
          state: "closed",
          waitMs: 0,
          lastFailure: { code: "backend_failed", at: Date.UTC(2026, 10, 5, 14, 3), mistake: "Check the baseUrl." },
        },
      ],
    };
    const admin = adminHandler(stores.ports.quotas, {
      authorize: () => login?.() ?? user,
      page: {
        loginUrl: "/login?from=admin",
        file: (name, base) =>
          pageIn(
            pathToFileURL(`${folder}/`),
            {
              title: `<Models> & "more"`,
              loginUrl: "/login?from=admin",
              logoutUrl: "https://sso.example/logout",
              ...(currency !== undefined && { currency }),
            },
            hint,
          ).file(name, base),
      },
      gateway: {
        health: async () => health as never,
        liveCalls: (options) => live?.liveCalls(options) ?? [],
        liveCallCount: () => live?.liveCallCount() ?? 0,
        stopCall: (id) => live?.stopCall(id) ?? false,
        modelFault: async (models) => live?.modelFault(models),
        keyChoices: async () => live?.keyChoices() ?? { models: undefined, tiers: undefined },
      },
      calls: stores.calls,
    });
    server = createServer(toNodeHandler(admin, { prefix: "/admin" })).listen(0, "127.0.0.1");
    await once(server, "listening");
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/admin`;
  });
  afterEach(async () => {
    server.close();
    server.closeAllConnections();
    await stores.close();
    if (problems.length > 0) throw new Error(problems.join("\n"));
  });

  async function open(part = "", options: BrowserContextOptions = {}, opened?: Page): Promise<Page> {
    const page = opened ?? (await browser.newPage({ reducedMotion: "reduce", ...options }));
    page.on("pageerror", ({ message }) => problems.push(`threw: ${message}`));
    page.on("console", (message) => {
      if (!message.text().startsWith("Failed to load resource")) problems.push(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
      if (
        !/^(?:data:|http:\/\/127\.0\.0\.1:\d+\/(?:admin\b|login\?from=admin&next=%2Fadmin%3Fpart%3Dkeys$))/.test(
          request.url(),
        )
      )
        problems.push(`went to ${request.url()}`);
    });
    await page.goto(url + part);
    await page.getByRole("heading", { level: 2 }).waitFor();
    return page;
  }

  /** Opens a part of a page with the option `currency`. */
  async function openIn(option: string | undefined, part = ""): Promise<Page> {
    currency = option;
    return open(part, { locale: "en-US" });
  }

  /** Makes a call of a key, and returns its request id. */
  async function call(keyId: string, model: string, currency = "usd", backend = RAIN): Promise<string> {
    const onCall = stores.recorder({ currency });
    const prices = priceTable({ "*": { input: 1, output: 1, unit: currency } });
    const gateway = createGateway({ backend, ...stores.ports, ...prices, onCall, onFailure: () => {} });
    const response = await gateway.fetch(asked(keyId, model));
    await response.text();
    await gateway.close();
    await onCall.flush();
    return response.headers.get("request-id") ?? "";
  }

  it("shows the spend by group, model and day, and gives it as CSV", async () => {
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann", metadata: { group: EVIL } });
    await stores.ports.quotas.add({ id: "bob", apiKey: "sk-bob", metadata: { group: "=team" } });
    for (const keyId of ["ann", "ann", "bob"]) await call(keyId, "small");
    const page = await open("?part=spend", { locale: "en-US" });
    await rowOf(page, EVIL).waitFor();
    // A spreadsheet comes first: that of the browser's numbers.
    expect(await page.getByLabel("CSV for").locator("option").allTextContents()).toEqual([
      "Excel (12.50)",
      "Excel (12,50)",
      "programs",
    ]);
    expect(await page.getByLabel("CSV for").inputValue()).toBe("excel");
    const german = await open("?part=spend", { locale: "de-DE" });
    expect(await german.getByLabel("CSV for").inputValue()).toBe("excel-europe");
    await german.close();
    expect(await rowOf(page, EVIL).textContent()).toMatch(/0\.0000\d/);
    expect(await page.getByRole("columnheader").first().textContent()).toBe("Group");
    expect(await page.locator(".sum").textContent()).toContain("for 3 calls");
    // Each day of the month, of which one has calls.
    const [since, until] = [await fieldOf(page, "From"), await fieldOf(page, "To")] as const;
    expect(await page.locator("svg").getAttribute("aria-label")).toMatch(
      `Spend by day from ${inWords(since)} to ${inWords(until)}. The highest is $`,
    );
    expect(await page.locator(".day").count()).toBe(Number(until.slice(-2)));
    expect(await page.getByRole("img", { name: / for [1-9]\d* calls?$/ }).count()).toBe(1);
    expect(await csvOf(page)).toMatch(
      /^group,since,until,timeZone,spent,currency,calls,.*\r\n'=team,20\S+,,0\.\d{6},USD,1,/s,
    );
    await page.getByRole("combobox", { name: "By", exact: true }).selectOption("Model");
    await rowOf(page, "small").waitFor();
    expect(await rowOf(page, EVIL).count()).toBe(0);
    await page.getByRole("textbox", { name: "To" }).fill("2020-01-02");
    await page.getByText(/^From \(20\d\d-\d\d-01\) is after To \(2020-01-02\)\.$/).waitFor();
    await page.getByRole("textbox", { name: "From" }).fill("2020-01-01");
    await page.getByText("No call is recorded in these days.").waitFor();
    expect(await page.title()).not.toBe("taken");
    await page.close();
  });

  it.each([
    [1_280, "light"],
    [390, "dark"],
  ] as const)(
    "shows what each day has cost at an axis, also with the keyboard, %i wide in the %s",
    async (width, scheme) => {
      await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
      await call("ann", "small");
      const usage = await stores.calls?.usage({ by: ["day"] });
      const spent = [0, 12_340_000, 3_500_000, 0, 171_000_000];
      const rows = spent.map((units, at) => ({ ...usage?.rows[0], day: `2020-02-0${at + 1}`, units, calls: at }));
      const page = await browser.newPage({
        viewport: { width, height: 900 },
        colorScheme: scheme,
        locale: "en-US",
        reducedMotion: "reduce",
      });
      await page.route(/\/usage\?by=day/, (route) => route.fulfill({ json: { ...usage, rows, next: null } }));
      await open("?part=spend&by=model&since=2020-01-30&until=2020-02-28", {}, page);
      await page.locator("svg").waitFor();
      expect(await page.locator(".axis text").allTextContents()).toEqual(["$0", "$50", "$100", "$150", "$200"]);
      expect(await page.locator(".date").allTextContents()).toEqual(["Jan 30", "Feb 6", "Feb 13", "Feb 20", "Feb 27"]);
      expect(await isWiderThanScreen(page)).toBe(false);
      expect(await barriers(page)).toEqual([]);
      // One stop of the keyboard, whose arrows lead from day to day.
      const shown = (): Promise<string[]> => page.locator(".day text:not(.date):visible").allTextContents();
      const focused = (): Promise<string | null | undefined> =>
        page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
      expect(await shown()).toEqual([]);
      await unfold(page);
      await page.getByRole("link", { name: "CSV" }).focus();
      await page.keyboard.press("Tab");
      expect(await focused()).toBe("Jan 30, 2020: $0.00 for 0 calls");
      for (let at = 0; at < 3; at++) await page.keyboard.press("ArrowRight");
      expect(await focused()).toBe("Feb 2, 2020: $12.34 for 1 call");
      expect(await shown()).toEqual(["Feb 2, 2020: $12.34 for 1 call"]);
      await page.keyboard.press("End");
      await page.keyboard.press("ArrowRight");
      expect(await focused()).toBe("Feb 28, 2020: $0.00 for 0 calls");
      await page.keyboard.press("Home");
      await page.keyboard.press("ArrowLeft");
      expect(await focused()).toBe("Jan 30, 2020: $0.00 for 0 calls");
      // The pointer goes first.
      await page.locator(".day").nth(6).hover();
      expect(await shown()).toEqual(["Feb 5, 2020: $171.00 for 4 calls"]);
      await page.keyboard.press("Tab");
      expect(await focused()).toBeNull();
      await page.close();
    },
  );

  it("shows the chart of units, of cents and of days without a charge", async () => {
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small");
    const usage = await stores.calls?.usage({ by: ["day"] });
    const axisOf = async (units: number, currency?: string): Promise<string[]> => {
      const page = await browser.newPage({ locale: "en-US" });
      const rows = [{ ...usage?.rows[0], units }];
      await page.route(/\/usage\?by=/, (route) =>
        route.fulfill({ json: { ...usage, rows, by: ["day"], currency, next: null } }),
      );
      await page.route(/\/me$/, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ json: { ...(await response.json()), currency } });
      });
      await open("?part=spend&by=day", {}, page);
      await page.getByRole("table").waitFor();
      const values = await page.locator(".axis text").allTextContents();
      await page.close();
      return values;
    };
    expect(await axisOf(0, "USD")).toEqual([]);
    expect(await axisOf(4, "USD")).toEqual(["$0.000000", "$0.000001", "$0.000002", "$0.000003", "$0.000004"]);
    expect(await axisOf(1_200_000, "USD")).toEqual(["$0.00", "$0.50", "$1.00", "$1.50"]);
    expect(await axisOf(7_300_000_000, "USD")).toEqual(["$0", "$2K", "$4K", "$6K", "$8K"]);
    currency = undefined;
    expect(await axisOf(1, undefined)).toEqual(["0", "1"]);
    expect(await axisOf(1_900_000, undefined)).toEqual(["0", "500K", "1M", "1.5M", "2M"]);
  });

  it("says the currency of a column in its heading alone, and writes its amounts with two decimals or as many as they need, never three", async () => {
    await stores.ports.quotas.addBudget({ id: "team", amount: 5_000_000 });
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann", budget: "team" });
    await stores.ports.quotas.add({ id: "bob", apiKey: "sk-bob", granted: 2_500_000 });
    for (const id of ["ann", "stranger"]) await call(id, "small");
    for (const part of ["spend&by=key", "keys", "budgets", "live"]) {
      const page = await open(`?part=${part}`, { locale: "en-US" });
      const cells = page.locator('[data-column="Spent (USD)"]');
      await cells.first().waitFor();
      const texts = await cells.allInnerTexts();
      expect(texts.length).toBeGreaterThan(0);
      for (const text of texts) expect(text).toMatch(/^0\.\d{2}(?:\d{2,4})?(?!\d)/);
      expect(await page.locator("table").allTextContents()).not.toContain("$");
      await page.close();
    }
  });

  it("says that there is no such part, and refuses to add 0", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team-a", amount: 5 });
    const page = await open("?part=speend");
    await page
      .getByText(
        "There is no part speend. This is Keys. The parts are keys, budgets, live, spend, calls, health, changes.",
      )
      .waitFor();
    // The part Calls had another name in addresses.
    for (const old of ["?part=refusals&code=busy", "#refusals?code=busy"]) {
      await page.goto(new URL(old, page.url()).href);
      await page.getByRole("heading", { name: "Calls" }).waitFor();
      await page.waitForURL((url) => url.search === "?part=calls&code=busy" && url.hash === "");
    }
    await page.getByRole("link", { name: "Budgets", exact: true }).click();
    await press(page, "Top up team-a");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Amount in USD").fill("0");
    await dialog.getByRole("button", { name: "Top up", exact: true }).click();
    await dialog.getByText("Amount must be more than 0.").waitFor();
    expect(await quotas.budgetReport("team-a")).toMatchObject({ granted: 5 });
  });

  it("shows the spend of each budget by a second column, under an address that others can open", async () => {
    const { quotas } = stores.ports;
    for (const id of ["team-a", "team-b"]) {
      await quotas.addBudget({ id, name: id.toUpperCase(), amount: 5_000_000 });
      await quotas.add({ id: `of-${id}`, apiKey: `sk-of-${id}`, budget: id });
    }
    await call("of-team-a", "small");
    await call("of-team-a", "large");
    await call("of-team-b", "small");
    const page = await open("?part=spend");
    await rowOf(page, "team-b").waitFor();
    expect(await page.getByRole("columnheader").first().textContent()).toBe("Budget");
    await page.getByRole("combobox", { name: "and by" }).selectOption("Model");
    await rowOf(page, "large").waitFor();
    expect(await page.getByRole("row").count()).toBe(5);
    expect(await rowOf(page, "large").textContent()).toMatch(/^team-aTEAM-Alarge/);
    expect(await csvOf(page)).toMatch(
      /^budget,budgetName,model,since,until,timeZone,spent,currency,calls,.*\r\nteam-a,[^,]*,large,20\S+,\d+\.\d{6},USD,1,/s,
    );
    const address = new URL(page.url());
    expect(address.search).toMatch(/^\?part=spend&by=budget,model&since=\d{4}-\d\d-01&until=\d{4}-\d\d-\d\d$/);
    // Also under an address of an earlier version.
    const linked = await open(address.search.replace("?part=", "#").replace("&", "?"));
    await rowOf(linked, "large").waitFor();
    expect(await linked.getByRole("row").count()).toBe(5);
    await linked.getByRole("button", { name: "Last month" }).click();
    await linked.getByText("No call is recorded in these days.").waitFor();
    const [last, first] = [await fieldOf(linked, "To"), await fieldOf(page, "From")];
    expect(Date.parse(first) - Date.parse(last)).toBe(86_400_000);
    await linked.getByRole("button", { name: "This month" }).click();
    await rowOf(linked, "large").waitFor();
    expect(linked.url()).toBe(address.href);
    // A link may name a month, as the API and the command line do.
    const ofMonth = await open("?part=spend&by=budget&month=2024-02");
    await ofMonth.getByText("No call is recorded in these days.").waitFor();
    expect([await fieldOf(ofMonth, "From"), await fieldOf(ofMonth, "To")]).toEqual(["2024-02-01", "2024-02-29"]);
    await ofMonth.close();
    // A third column is offered behind the second.
    await linked.getByRole("combobox", { name: "and by" }).last().selectOption("Day");
    await linked.getByRole("columnheader", { name: "Day" }).waitFor();
    expect(await linked.getByRole("columnheader").allTextContents()).toEqual(
      expect.arrayContaining(["Budget", "Model", "Day"]),
    );
    expect(await csvOf(linked)).toMatch(
      /^budget,budgetName,model,day,.*\r\nteam-a,[^,]*,large,20\d\d-\d\d-\d\d,.*,1,/s,
    );
    expect(new URL(linked.url()).search).toMatch(/^\?part=spend&by=budget,model,day&/);
    const ofThree = await open(new URL(linked.url()).search);
    await ofThree.getByRole("columnheader", { name: "Day" }).waitFor();
    expect(
      await ofThree
        .getByRole("combobox", { name: /^(?:By|and by)$/ })
        .evaluateAll((all) => all.map((one) => (one as HTMLSelectElement).value)),
    ).toEqual(["budget", "model", "day", ""]);
    await ofThree.close();
    await linked.getByRole("combobox", { name: "and by" }).nth(1).selectOption("nothing");
    await linked.getByRole("columnheader", { name: "Day" }).waitFor({ state: "detached" });
    // A column cannot be chosen twice.
    await linked.getByRole("combobox", { name: "By", exact: true }).selectOption("Model");
    await linked.getByRole("columnheader", { name: "Budget" }).waitFor({ state: "detached" });
    expect(new URL(linked.url()).search).toMatch(/^\?part=spend&by=model&/);
    await linked.close();
    await page.close();
  });

  it.each([
    ["spend&by=budget,model,dya", /^by\b.*dya/],
    ["spend&by=bogus&order=most&since=foo&until=bar", /^by\b.*bogus.*most.*From\b.*foo.*To\b.*bar/],
    ["spend&by=model&charged=maybe", /^charged\b.*maybe/],
    ["spend&by=model&order=largest", "Order must be spend or name, not largest."],
    ["spend&by=model&team=a", "Spend has no filter team."],
    ["keys&status=active", "Keys has no filter status."],
    ["keys&state=gone", /^state\b.*gone/],
    ["budgets&id=team-a", "Budgets has no filter id."],
    ["refusals&end=lost", /^outcome\b.*lost/],
    ["refusals&end=lost&since=foo", /^outcome\b.*lost.*From\b.*foo/],
    ["refusals&customer=a", "Calls has no filter customer."],
    ["changes&action=keys.updat&since=7d", /^action\b.*Did you mean keys\.update\?.*From\b.*7d/],
    ["changes&who=ann", "Changes has no filter who."],
    ["live&key=ann", "Live has no filter key."],
  ])("says what is wrong with the link ?part=%s", async (link, words) => {
    const page = await open(`?part=${link}`);
    const notice = page.getByRole("status").getByText(words);
    await notice.waitFor();
    expect(await notice.count()).toBe(1);
    await page.close();
  });

  it("has no notice about the choices of a link that it knows", async () => {
    const page = await open("?part=spend&by=budget&month=2024-02&order=name&charged=false&group=a&currency=");
    await page.getByText("Spend has no filter currency.").waitFor();
    for (const link of [
      "spend&by=model,day&month=2024-02&order=name&charged=false&group=a",
      "refusals&outcome=failed&errorCode=busy&sinceDay=2024-01-01&untilDay=2024-02-01&model=a",
      "keys&find=a&state=active&metadata=group=a",
      "changes&user=a&target=b&since=2024-01-01",
    ]) {
      await page.goto(`${url}?part=${link}`);
      await page.locator("main[aria-busy=false] .blank").waitFor();
      expect(await page.getByRole("status").textContent()).toBe("");
    }
    await page.close();
  });

  it("adds every row of the spend up to its sum, also rows that it leaves out, and leads to the refusals of a row", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "company", amount: 5_000_000, period: "month" });
    await quotas.addBudget({ id: "team", amount: 1, period: "month", parent: "company" });
    await quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1, metadata: { group: "b" } });
    await quotas.add({ id: "spent", apiKey: "sk-spent", budget: "team", metadata: { group: "b" } });
    await quotas.add({ id: "rich", name: "Rich", apiKey: "sk-rich", budget: "company", metadata: { group: "a" } });
    for (const [keyId, model] of [
      ["poor", "small"],
      ["poor", "small"],
      ["spent", "small"],
      ["stranger", "small"],
      ["rich", "small"],
      ["rich", "large-model"],
    ] as const)
      await call(keyId, model);
    const page = await open("?part=spend&by=key,month&since=2020-01-01");
    await rowOf(page, "Rich").waitFor();
    const sums = async (): Promise<number[][]> =>
      Promise.all(
        (await page.locator("tbody tr, tfoot tr:not(:last-child)").all()).map(async (row) =>
          (await row.locator("td.number").allTextContents()).map((text) => Number(text.replaceAll(/[^\d.]/g, ""))),
        ),
      );
    const added = async (): Promise<number[]> =>
      (await sums()).reduce((total, row) => row.map((cell, at) => Number((cell + (total[at] ?? 0)).toFixed(6))), []);
    const sum = page.locator("tfoot tr").last();
    const ofSum = (await sum.locator("td.number").allTextContents()).map((text) =>
      Number(text.replaceAll(/[^\d.]/g, "")),
    );
    expect(ofSum.slice(1, 4)).toEqual([6, 4, 0]);
    expect(await added()).toEqual(ofSum);
    expect(await page.locator(".sum").textContent()).toMatch(/^\$0\.\d+ for 6 calls, 4 of them refused$/);
    expect(await page.getByRole("row").count()).toBe(6);
    await page.getByLabel("Only rows with a charge").check();
    await page.getByRole("rowheader", { name: "Rows without a charge" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    expect(await page.getByRole("row").count()).toBe(4);
    expect(await added()).toEqual(ofSum);
    expect(await csvOf(page)).not.toContain("poor");
    const linked = await open(new URL(page.url()).search);
    await linked.getByRole("rowheader", { name: "Rows without a charge" }).waitFor();
    await linked.close();
    await page.getByLabel("Only rows with a charge").uncheck();
    await rowOf(page, "poor").waitFor();
    const [month = ""] = /^\d{4}-\d\d/.exec(new Date().toISOString()) ?? [];
    expect(await rowOf(page, "Rich").textContent()).toMatch(new RegExp(`^richRich${month}0\\.0000\\d+2`));
    expect(await csvOf(page, "Excel (12,50)")).toMatch(
      /^\uFEFFKey;Key name;Month;From;Until;Time zone;Spent;.*\r\npoor;poor;/s,
    );
    // The largest spend stands first, and rows of the same spend by their names.
    const spent = (await page.locator('tbody [data-column="Spent (USD)"]').allTextContents()).map(Number);
    expect(spent[0]).toBeGreaterThan(0);
    expect(spent).toEqual(spent.toSorted((a, b) => b - a));
    const ids = async (): Promise<string[]> => page.locator("tbody .id a").allTextContents();
    const first = await ids();
    expect(first.slice(0, 1)).toEqual(["rich"]);
    expect(first.slice(1)).toEqual(first.slice(1).toSorted());
    expect(await page.locator("tfoot").getByRole("link").getAttribute("href")).toBe(
      "/admin?part=calls&since=2020-01-01",
    );
    await page.getByLabel("Order").selectOption("by name");
    await page.waitForURL("**&order=name");
    await expect.poll(ids).toEqual(first.toSorted());
    const named = await open(new URL(page.url()).search);
    await rowOf(named, "poor").waitFor();
    expect(await named.locator("tbody .id a").allTextContents()).toEqual(first.toSorted());
    await named.close();
    await page.getByLabel("Order").selectOption("most spent first");
    // The refusals of each row are as many as its number says.
    for (const column of ["Key", "Budget", "Group", "Month", "Day"]) {
      await page.getByRole("combobox", { name: "By", exact: true }).selectOption(column);
      await page.getByRole("columnheader").first().getByText(column, { exact: true }).waitFor();
      let refused = 0;
      for (const link of await page.locator("tbody").getByRole("link", { name: "refused calls" }).all()) {
        const [, number = ""] = /^(\d+) refused calls$/.exec((await link.textContent()) ?? "") ?? [];
        const list = await open((await link.getAttribute("href"))?.replace("/admin", ""));
        await list.getByText(`${number} refused call`).waitFor();
        expect(await list.locator("tbody th a").count()).toBe(Number(number));
        refused += Number(number);
        await list.close();
      }
      expect([column, refused]).toEqual([column, 4]);
    }
    await page.close();
  });

  it("orders days by time without a choice, and every other report by what was spent", async () => {
    await stores.ports.quotas.add({ id: "rich", apiKey: "sk-rich" });
    for (const model of ["small", "a-larger", "a-larger"]) await call("rich", model);
    const usage = await stores.calls?.usage({ by: ["model"] });
    const [larger, small] = usage?.rows ?? [];
    const page = await open("?part=spend&by=model");
    await rowOf(page, "small").waitFor();
    expect(await page.getByLabel("Order").inputValue()).toBe("spend");
    expect(await page.locator("tbody .id").allTextContents()).toEqual(["a-larger", "small"]);
    // The report of days has the same rows, the largest of which is not the first.
    const days = [
      { ...small, day: "2020-01-01" },
      { ...larger, day: "2020-01-02" },
    ];
    await page.route(/\/usage\?by=day/, (route) =>
      route.fulfill({ json: { by: ["day"], rows: days, total: usage?.total, currency: "USD", next: null } }),
    );
    await page.getByRole("combobox", { name: "By", exact: true }).selectOption("Day");
    await rowOf(page, "2020-01-02").waitFor();
    expect(await page.locator("tbody .id").allTextContents()).toEqual(["2020-01-01", "2020-01-02"]);
    await page.getByLabel("Order").selectOption("most spent first");
    await page.waitForURL("**&order=spend");
    await page.locator("tbody tr:first-child", { hasText: "2020-01-02" }).waitFor();
    // Also the last of more rows than the table has.
    const names = Array.from({ length: 1_001 }, (_, at) => `m${String(at).padStart(4, "0")}`);
    await page.route(/\/usage\?by=model/, (route) => {
      const limit = Number(new URL(route.request().url()).searchParams.get("limit") ?? 1_000);
      const rows = names.map((model) => ({ ...(model === "m1000" ? larger : small), model })).slice(0, limit);
      return route.fulfill({ json: { by: ["model"], rows, total: usage?.total, currency: "USD", next: null } });
    });
    await page.getByRole("combobox", { name: "By", exact: true }).selectOption("Model");
    await page.locator("tbody tr:first-child", { hasText: "m1000" }).waitFor();
    await page.getByText("These are the largest 1,000 rows. The CSV has all of them.").waitFor();
    await page.close();
  });

  it("leads from the failed calls of a row to a list of them", async () => {
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
    const onCall = stores.recorder();
    for (const [outcome, status] of [
      [new Error("broken"), 500],
      [new GatewayError("deadline_exceeded", "late"), 504],
    ] as const) {
      const backend = {
        // oxlint-disable-next-line require-yield
        async *chat() {
          throw outcome;
        },
      };
      const gateway = createGateway({ backend, ...stores.ports, onCall, onFailure: () => {} });
      expect((await gateway.fetch(asked("ann", "small"))).status).toBe(status);
      await gateway.close();
    }
    await onCall.flush();
    const page = await open("?part=spend&by=key");
    await rowOf(page, "ann").getByRole("link", { name: "2 failed calls" }).click();
    await page.getByText("2 failed calls.").waitFor();
    expect(new URL(page.url()).searchParams.get("end")).toBe("failed,deadline,shutdown");
    expect(await page.locator("tbody th a").count()).toBe(2);
    await page.close();
  });

  it("leads from a row of the spend to its parts, whose sum is the row", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "company", amount: 5_000_000 });
    await quotas.addBudget({ id: "team", name: "The team", amount: 5_000_000, parent: "company" });
    await quotas.add({ id: "ann", name: "Ann", apiKey: "sk-ann", budget: "team", metadata: { group: "a" } });
    await quotas.add({ id: "bob", apiKey: "sk-bob", budget: "company" });
    for (const [keyId, model] of [
      ["ann", "small"],
      ["ann", "large"],
      ["bob", "small"],
    ] as const)
      await call(keyId, model);
    const page = await open("?part=spend&by=budget,model&since=2020-01-01");
    const sumIs = (calls: number): Promise<void> =>
      page.locator(".sum", { hasText: `for ${calls} ${calls === 1 ? "call" : "calls"}` }).waitFor();
    await sumIs(3);
    // The calls of the budgets below are not those of this row.
    await page.getByRole("link", { name: "company", exact: true }).click();
    await sumIs(1);
    expect(new URL(page.url()).search).toBe("?part=spend&by=key&since=2020-01-01&ownBudget=company");
    await rowOf(page, "bob").waitFor();
    await page.goBack();
    await sumIs(3);
    await page.getByRole("link", { name: "team", exact: true }).first().click();
    await sumIs(2);
    await page.getByRole("link", { name: "ann", exact: true }).click();
    await rowOf(page, "large").waitFor();
    expect(new URL(page.url()).search).toBe("?part=spend&by=model&since=2020-01-01&key=ann&ownBudget=team");
    await page.getByRole("link", { name: "large", exact: true }).click();
    await sumIs(1);
    await page.getByRole("columnheader", { name: "Day" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    // Days lead nowhere, and each filter can be removed.
    expect(await page.locator("tbody th").getByRole("link").count()).toBe(0);
    for (const [chip, calls] of [
      ["Model: large", 2],
      ["Key: ann", 2],
      ["Budget of the key: team", 3],
    ] as const) {
      await page.getByRole("button", { name: `Remove the filter ${chip}` }).click();
      await sumIs(calls);
    }
    // Nothing is a part, too.
    await page.getByRole("combobox", { name: "By", exact: true }).selectOption("Group");
    await page.getByRole("link", { name: "no group" }).click();
    await rowOf(page, "bob").waitFor();
    await sumIs(1);
    await page.close();
  });

  it("shows this month under an address without days, and all days when both are empty", async () => {
    const page = await open("?part=spend");
    await page.getByText("No call is recorded in these days.").waitFor();
    const month = await daysOf(page);
    const linked = await open("?part=spend&by=budget");
    await linked.getByText("No call is recorded in these days.").waitFor();
    expect(await daysOf(linked)).toEqual(month);
    await linked.getByRole("textbox", { name: "From" }).fill("");
    await linked.getByRole("textbox", { name: "To" }).fill("");
    await linked.waitForURL("**?part=spend&by=budget&since=");
    const all = await open("?part=spend&by=budget&since=");
    await all.getByText("No call is recorded in these days.").waitFor();
    expect(await daysOf(all)).toEqual(["", ""]);
    // From the report of all days, a bookmark without days leads to this month again.
    await all.goto(`${url}?part=spend&by=key`);
    await all.getByText("No call is recorded in these days.").waitFor();
    expect(await daysOf(all)).toEqual(month);
    for (const one of [page, linked, all]) await one.close();
  });

  it("says that calls are recorded in another currency than the page's", async () => {
    await stores.ports.quotas.add({ id: "rich", apiKey: "sk-rich" });
    await call("rich", "small", "eur");
    const page = await open("?part=spend&by=key&since=2020-01-01");
    const note = page.getByText(
      "Calls are recorded in EUR, but the option currency of this page is USD: amounts of keys and budgets are units, millionths of EUR.",
    );
    await note.waitFor();
    expect(await page.getByRole("columnheader", { name: "Spent (EUR)" }).count()).toBe(1);
    expect(await rowOf(page, "rich").textContent()).toMatch(/^rich0\.0000/);
    expect(await csvOf(page)).toMatch(/\r\nrich,rich,20\S+,,0\.\d{6},EUR,/);
    await page.getByRole("link", { name: "Live" }).click();
    await page.getByRole("columnheader", { name: "Spent (EUR)" }).waitFor();
    // Calls in several currencies name their own.
    const printed = vi.spyOn(console, "error").mockImplementation(() => {});
    await call("rich", "small");
    await rowOf(page, " USD").waitFor();
    expect(printed.mock.calls).toEqual([[expect.stringContaining("Reports and budgets add up USD and EUR")]]);
    printed.mockRestore();
    // One number of decimals for each currency.
    const amounts = await page.locator('[data-column="Spent"]').allTextContents();
    expect(amounts.toSorted()).toEqual([
      expect.stringMatching(/^0\.\d{6} EUR$/),
      ...Array.from(amounts.slice(1), () => expect.stringMatching(/^0\.\d{6} USD$/)),
    ]);
    expect(await page.getByRole("columnheader", { name: "Spent", exact: true }).count()).toBe(1);
    // The latest call decides about the amounts of keys and budgets, and all calls of a report about its own.
    await page.goto(`${url}?part=spend&by=key&since=2020-01-01`);
    await page
      .getByText(/^Charges that were recorded in \w+ are counted as \w+, unit for unit: nothing is converted\.$/)
      .waitFor();
    expect(await note.count()).toBe(0);
    expect(await page.getByText("Charges that were recorded").count()).toBe(1);
    await page.close();
  });

  it("neither shows nor takes amounts in a currency that may be wrong", async () => {
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1_500_000 });
    await stores.ports.quotas.addBudget({ id: "team-a", amount: 5_000_000 });
    // No call has told a currency.
    let page = await openIn(undefined);
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Quota in units").fill("1000");
    await page.getByText(hintOfUnits("the currency of the prices, if these have one")).waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.close();
    page = await openIn("EUR");
    await rowOf(page, "poor").waitFor();
    await page.getByRole("columnheader", { name: "Spent (EUR)" }).waitFor();
    await untilGranted(page, "1.50");
    await page.close();
    await call("poor", "small");
    page = await openIn(undefined);
    await rowOf(page, "poor").waitFor();
    await untilGranted(page, "1.50");
    await press(page, "Add quota poor");
    await page.getByLabel("Amount in USD").waitFor();
    await page.close();
    for (const part of ["keys", "budgets", "live", "spend", "calls", "health", "changes"]) {
      page = await openIn("EUR", `?part=${part}`);
      await page.getByText("Calls are recorded in USD, but the option currency of this page is EUR").waitFor();
      await page.close();
    }
    page = await openIn("EUR");
    await rowOf(page, "poor").waitFor();
    await untilGranted(page, "1,500,000");
    await press(page, "Add quota poor");
    await page.getByLabel("Amount in units").fill("2.50");
    await page.getByText(hintOfUnits("USD")).waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Add" }).click();
    await page.getByRole("alert").getByText("write 2500000").waitFor();
    await page.close();
    page = await openIn("EUR", "?part=budgets");
    await rowOf(page, "team-a").waitFor();
    await untilGranted(page, "5,000,000");
    expect(await page.locator("main").textContent()).not.toContain("€");
    await page.close();
  });

  it("lists refusals with their reasons, and finds a call by its request id", async () => {
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    await stores.ports.quotas.add({ id: "rich", apiKey: "sk-rich" });
    await call("poor", EVIL);
    const completed = await call("rich", "small");
    const page = await open("?part=calls");
    await rowOf(page, "poor").waitFor();
    expect(await rowOf(page, "poor").textContent()).toMatch(
      /<img src=x.*POST \/v1\/chat\/completionsquota_insufficient429The call was refused by the key's own quota \(needed: at least \$0\.0000\d+, available: \$0\.000001\)/s,
    );
    expect(await rowOf(page, "rich").count()).toBe(0);
    // The id may stand in the error that a customer has sent.
    await page.getByLabel("Request id").fill(`{"request_id":"${completed}"}`);
    await page.keyboard.press("Enter");
    await rowOf(page, "rich").waitFor();
    expect(await rowOf(page, "poor").count()).toBe(0);
    const linked = await open(new URL(page.url()).search);
    await rowOf(linked, completed).waitFor();
    expect(await linked.getByLabel("Request id").inputValue()).toBe(completed);
    await linked.close();
    await page.goBack();
    await rowOf(page, "poor").waitFor();
    await page.getByLabel("Request id").fill("req/none?");
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByText("No call of the request id req/none? is recorded.").waitFor();
    expect(await page.getByRole("row").count()).toBe(0);
    await page.getByRole("combobox", { name: "Outcome", exact: true }).selectOption("failed");
    await page.getByText("No such call is recorded.").waitFor();
    await page.close();
  });

  it("folds the refusals of one key for one reason, with the end of a period by the clocks of its budget", async () => {
    await stores.ports.quotas.addBudget({ id: "team", amount: 1, period: "month", timeZone: "Europe/Berlin" });
    for (const id of ["ann", "bob"]) await stores.ports.quotas.add({ id, apiKey: `sk-${id}`, budget: "team" });
    const ids: string[] = [];
    for (const [keyId = "", model = ""] of ["ann small", "bob small", "ann large", "ann small"].map((text) =>
      text.split(" "),
    ))
      ids.push(await call(keyId, model));
    const page = await open("?part=calls", { timezoneId: "Asia/Tokyo", locale: "en-US" });
    await rowOf(page, "bob").waitFor();
    expect(await page.getByRole("row").count()).toBe(3);
    const ofAnn = rowOf(page, "ann");
    await ofAnn.getByText(/^2 more since \d+:\d\d:\d\d/).click();
    expect(await ofAnn.locator("th").getByRole("link").allTextContents()).toEqual([ids[3], ids[2], ids[0]]);
    expect(await ofAnn.locator('[data-column="Model"] .long').textContent()).toBe("small, large");
    // Midnight in Berlin, as the budgets say, also in Tokyo.
    await ofAnn.getByText("Europe/Berlin").waitFor();
    const limit = ofAnn.locator('[data-column="Reasons"] li').last();
    expect(await limit.textContent()).toMatch(
      /the budget team \(needed: at least \$0\.0000\d+, available: \$0\.000001, begins anew at \w+ 1, 20\d\d, 12:00\sAM Europe\/Berlin\)\.$/,
    );
    expect(await limit.locator("time").getAttribute("title")).toMatch(/T2[23]:00:00\.000Z$/);
    // No sentence of the list breaks at each of its words.
    for (const width of [1_280, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await isWiderThanScreen(page)).toBe(false);
      expect((await limit.boundingBox())?.width).toBeGreaterThan(270);
    }
    await page.setViewportSize({ width: 1_280, height: 720 });
    await ofAnn.getByRole("link", { name: ids[0] ?? "" }).click();
    await rowOf(page, "bob").waitFor({ state: "detached" });
    expect(new URL(page.url()).search).toBe(`?part=calls&call=${ids[0]}`);
    // A single call says each thing once, with times and amounts as in the other columns.
    const reasons = page.locator('[data-column="Reasons"] li');
    expect(await reasons.count()).toBe(2);
    expect(await reasons.first().textContent()).toMatch(
      /the budget team \(needed: at least \$0\.0000\d+, available: \$0\.000001, begins anew at \w+ 1, 20\d\d, 12:00\sAM Europe\/Berlin\)\.$/,
    );
    // The error stands as the caller has it, for whoever compares the two.
    const { errorMessage = "" } = (await stores.calls?.find(ids[0] ?? "")) ?? {};
    expect(errorMessage).toMatch(/begins anew at 20\d\d-\d\d-\d\dT2[23]:00:00\.000Z\.$/);
    const told = page.getByText(`The caller was told: "${errorMessage}"`, { exact: true });
    expect(await told.isVisible()).toBe(false);
    await page.getByText("Show what the caller was told").click();
    await told.waitFor();
    const step = page.locator('[data-column="Next"] li').first();
    expect(await step.innerText()).toMatch(
      /^Top up team\s+Lets calls pass again\. So far it was given \$0\.000001\. This call alone lacks \$0\.0000\d+ for its whole output limit\.\s+Show the command$/,
    );
    await step.getByText("Show the command").click();
    await step.getByText("polygate budgets top-up team AMOUNT --currency usd", { exact: true }).waitFor();
    await page.close();
  });

  it("takes no name with a number for a time", async () => {
    await stores.ports.quotas.addBudget({ id: "plan 4 MAY", amount: 1 });
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann", budget: "plan 4 MAY" });
    await call("ann", "small");
    const page = await open("?part=calls");
    await rowOf(page, "ann").waitFor();
    expect(await rowOf(page, "ann").textContent()).toContain("refused by the budget plan 4 MAY (needed: at least $");
    await page.close();
  });

  it("shows the beginning of a request id in a list, and copies all of it", async () => {
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    const id = await call("poor", "small");
    const page = await open("?part=calls", { viewport: { width: 1280, height: 800 } });
    const link = page.getByRole("link", { name: id });
    expect(await link.locator("code").getAttribute("title")).toBe(id);
    expect(await link.locator("code").evaluate((code) => code.scrollWidth > code.clientWidth)).toBe(true);
    // All in one line, with the button that copies the whole id.
    const copy = rowOf(page, "poor").getByRole("button", { name: `Copy ${id}` });
    const [ofLink, ofCopy] = [await link.boundingBox(), await copy.boundingBox()];
    expect(Math.abs((ofLink?.y ?? 0) - (ofCopy?.y ?? 99))).toBeLessThan(8);
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const copied = (): Promise<unknown> => page.evaluate("navigator.clipboard.readText()");
    await copy.click();
    await page.getByText(`${id} is copied.`).waitFor();
    expect(await copied()).toBe(id);
    // A page without TLS has no clipboard, and copies what it selects.
    await page.evaluate(() => navigator.clipboard.writeText(""));
    await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { value: undefined }));
    await copy.click();
    await expect.poll(copied).toBe(id);
    await page.getByLabel("Request id").fill(`request ${id.slice(0, 12)} failed`);
    await page.keyboard.press("Enter");
    await page.getByText("Show what the caller was told").waitFor();
    expect(await page.getByRole("link", { name: id }).innerText()).toBe(id);
    await page.close();
  });

  it("filters refusals by key, code and days, under an address of its own", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "poor", name: "Poor man's key", apiKey: "sk-poor", granted: 1 });
    await quotas.add({ id: "bound", apiKey: "sk-bound", models: ["small"] });
    for (const [keyId, model] of [
      ["poor", "small"],
      ["bound", "large"],
      ["bound", "large"],
    ] as const)
      await call(keyId, model);
    const page = await open("?part=calls");
    await page.getByText("3 refused calls.").waitFor();
    await page.getByRole("searchbox", { name: "Key" }).fill("bound");
    await page.keyboard.press("Enter");
    await page.getByText("2 refused calls.").waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    await page.getByLabel("Code").selectOption("quota_insufficient");
    await page.getByText("No such call is recorded.").waitFor();
    await page.getByRole("searchbox", { name: "Key" }).fill("");
    await page.keyboard.press("Enter");
    await rowOf(page, "poor").waitFor();
    expect(new URL(page.url()).search).toBe("?part=calls&code=quota_insufficient");
    const today = new Date().toISOString().slice(0, 10);
    await page.getByRole("textbox", { name: "From" }).fill(today);
    await page.getByRole("textbox", { name: "To" }).fill(today);
    await page.waitForURL(`**?part=calls&since=${today}&until=${today}&code=quota_insufficient`);
    const linked = await open(new URL(page.url()).search);
    await rowOf(linked, "poor").waitFor();
    expect(await linked.getByLabel("Code").inputValue()).toBe("quota_insufficient");
    await linked.getByRole("textbox", { name: "To" }).fill("2020-01-01");
    await linked.getByText("is after To (2020-01-01).").waitFor();
    await linked.getByRole("textbox", { name: "From" }).fill("2020-01-01");
    await linked.getByText("No such call is recorded.").waitFor();
    await linked.getByRole("searchbox", { name: "Key" }).fill("nobody");
    await linked.keyboard.press("Enter");
    await linked.getByText("No key has the id nobody.").waitFor();
    await linked.getByRole("link", { name: "Look for nobody among the keys" }).click();
    await linked.getByText("There is no such key.").waitFor();
    await linked.getByLabel("Find").fill("poor");
    await linked.keyboard.press("Enter");
    await rowOf(linked, "Poor man's key").waitFor();
    await linked.getByRole("link", { name: "Refusals of poor" }).click();
    await linked.getByText("1 refused call.").waitFor();
    // A filter of a link can be removed.
    await linked.goto(`${url}?part=calls&model=none&group=`);
    await linked.getByText("No such call is recorded.").waitFor();
    expect(await barriers(linked)).toEqual([]);
    await linked.getByRole("button", { name: "Remove the filter Model: none" }).click();
    await linked.getByText("3 refused calls.").waitFor();
    expect(new URL(linked.url()).search).toBe("?part=calls&group=");
    await linked.getByRole("button", { name: "Remove the filter Group: none" }).click();
    await linked.getByRole("listitem").filter({ hasText: "Group" }).waitFor({ state: "detached" });
    await linked.close();
    await page.close();
  });

  it("shows older calls, keys, changes and periods only below the choices that they belong to", async () => {
    await stores.ports.quotas.addBudget({ id: "daily", amount: 5, period: "day" });
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1, budget: "daily" });
    await call("poor", "small");
    const [record] = (await stores.calls?.list({})) ?? [];
    const [key] = (await stores.ports.quotas.list({})) ?? [];
    await Promise.all(Array.from({ length: 99 }, (_, at) => stores.ports.quotas.add({ id: `z${at}` })));
    await fetch(`${url}/keys/z1`, {
      method: "PATCH",
      headers: { "content-type": "application/json" },
      body: '{"name":"Zed"}',
    });
    const period = {
      ...(await stores.ports.quotas.budgetReport("daily")),
      ended: true,
      startsAt: 0,
      endsAt: 86_400_000,
    };
    for (const [part, addresses, more, stale, row, choose, words] of [
      [
        "refusals",
        /\/calls\?/,
        "Older calls",
        { ...record, requestId: "req_stale", reasons: [], next: [] },
        "poor",
        (page: Page) => page.getByLabel("Outcome").selectOption("completed"),
        "No such call is recorded.",
      ],
      [
        "keys",
        /\/keys\?/,
        "More keys",
        { ...key, id: "stale" },
        "poor",
        (page: Page) => page.getByLabel("State").selectOption("revoked"),
        "There is no such key.",
      ],
      [
        "changes",
        /\/audit\?/,
        "Older changes",
        { id: "stale", at: 0, user: "ann", action: "keys.update" },
        "Edit key",
        (page: Page) => page.getByRole("combobox", { name: "Change" }).selectOption("New budget"),
        "No change matches.",
      ],
      [
        "budgets&periods=daily",
        /\/periods\?/,
        "Earlier periods",
        period,
        "current",
        (page: Page) => page.goto(`${url}?part=budgets&periods=daily#again`),
        "No listed period has ended yet.",
      ],
    ] as const) {
      const page = await browser.newPage();
      // The server has further rows.
      await page.route(addresses, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ json: { ...(await response.json()), next: part.startsWith("budgets") ? 1 : "x" } });
      });
      await open(`?part=${part}`, {}, page);
      await rowOf(page, row).waitFor();
      const release = await held(page, /\?.*(?:after|before)=/, { json: { data: [stale], next: null } });
      await page.unroute(addresses);
      await page.getByRole("button", { name: more }).click();
      await choose(page);
      await page.getByText(words).waitFor();
      const rows = await page.getByRole("row").count();
      await release();
      expect(await page.getByRole("row").count()).toBe(rows);
      expect(await page.getByRole("button", { name: more }).count()).toBe(0);
      await page.close();
    }
  });

  it("takes no late failure of one part for a failure of another", async () => {
    await stores.ports.quotas.addBudget({ id: "team", amount: 5 });
    const page = await browser.newPage();
    const release = await held(page, /\/keys\?/, { status: 503, json: { error: { message: "The store is away." } } });
    await open("", {}, page);
    await page.getByRole("link", { name: "Budgets" }).click();
    await rowOf(page, "team").waitFor();
    await release();
    expect(await page.getByText("The store is away.").count()).toBe(0);
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByText("There is no key yet.").waitFor();
    // Live looks again and again, also just before its user leaves.
    const looked = page.waitForRequest(/\/live$/);
    const fail = await held(page, /\/live$/, { status: 503, json: { error: { message: "The process is away." } } });
    await page.getByRole("link", { name: "Live" }).click();
    await looked;
    await page.getByRole("link", { name: "Health" }).click();
    await rowOf(page, "primary").first().waitFor();
    await fail();
    expect(await page.getByText("The process is away.").count()).toBe(0);
    await page.close();
  });

  it("shows the times of calls and changes to the second", async () => {
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    await call("poor", "small");
    await fetch(`${url}/keys/poor`, {
      method: "PATCH",
      headers: { "content-type": "application/json" },
      body: '{"name":"Poor"}',
    });
    const page = await open("?part=calls", { locale: "en-US" });
    for (const part of ["Calls", "Live", "Changes"]) {
      await page.getByRole("link", { name: part, exact: true }).click();
      const time = page.getByRole("row").locator("th time").first();
      expect(await time.textContent()).toMatch(/, \d+:\d\d:\d\d\s[AP]M$/);
      const [, seconds] = /:(\d\d)\.\d{3}Z$/.exec((await time.getAttribute("datetime")) ?? "") ?? [];
      expect(await time.textContent()).toContain(`:${seconds} `.trim());
    }
    await page.close();
  });

  it("shows a call of a link below filters that let it through, and counts the calls of a code", async () => {
    await stores.ports.quotas.add({ id: "wrong", apiKey: "sk-wrong", metadata: { tier: "golld" } });
    await stores.ports.quotas.add({ id: "bound", apiKey: "sk-bound", models: ["small"] });
    const onCall = stores.recorder({ currency: "usd" });
    const gateway = createGateway({
      backend: { async *chat() {} },
      ...stores.ports,
      ...priceTable({ "*": { input: 1, output: 1, unit: "usd" } }),
      rateLimiter: flexibleRateLimiter({ tiers: { gold: {} } }),
      onFailure: () => {},
      onCall,
    });
    const response = await gateway.fetch(asked("wrong", "small"));
    await response.text();
    await gateway.close();
    await onCall.flush();
    const page = await open(`?part=calls&call=${response.headers.get("request-id")}`);
    await rowOf(page, "misconfigured").waitFor();
    expect(await page.getByRole("combobox", { name: "Outcome", exact: true }).inputValue()).toBe("all");
    expect(await page.locator(".sum").count()).toBe(0);
    // The step is a button, with its command behind it.
    expect(await nextOf(page).innerText()).toMatch(/^Edit wrong\s+Or add the tier to tiers\.\s+Show the command$/);
    await page.getByText("Show the command").click();
    await page.getByText("polygate keys update wrong --metadata tier=gold", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Edit wrong" }).click();
    await page.getByRole("dialog").getByLabel("Metadata").fill("tier=gold");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("wrong is changed.").waitFor();
    expect((await stores.ports.quotas.report("wrong"))?.metadata).toEqual({ tier: "gold" });
    await call("bound", "large");
    for (const [choices, words] of [
      ["code=misconfigured&end=all", "1 call."],
      ["code=misconfigured&end=failed", "1 call."],
      ["code=model_not_allowed", "1 refused call."],
      ["end=all", "2 calls."],
    ] as const) {
      await page.goto(`${url}?part=calls&${choices}`);
      await page.locator(".sum").getByText(words, { exact: true }).waitFor();
    }
    await page.goto(`${url}?part=calls&code=busy`);
    await page.getByText("No such call is recorded.").waitFor();
    expect(await page.locator(".sum").count()).toBe(0);
    await page.close();
  });

  it("tells the sum of the spend in the smallest coin, and has the exact sum at hand", async () => {
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small");
    const usage = await stores.calls?.usage({ by: ["group"] });
    for (const [units, roughly, exactly] of [
      [32_584_693, "$32.59", "$32.584693"],
      [500_000, "$0.50", "$0.50"],
      [999_996, "$1.00", "$0.999996"],
      [49_383, "$0.0494", "$0.049383"],
      [1_665, "$0.0017", "$0.001665"],
      [0, "$0.00", "$0.00"],
    ] as const) {
      const page = await browser.newPage({ locale: "en-US" });
      const sums = { units, calls: 2 };
      await page.route(/\/usage\?/, (route) =>
        route.fulfill({
          json: {
            ...usage,
            rows: [{ ...usage?.rows[0], ...sums, day: "2020-01-01" }],
            total: { ...usage?.total, ...sums, estimated: 0 },
            next: null,
          },
        }),
      );
      await open("?part=spend&since=2020-01-01&until=2020-01-02", {}, page);
      const sum = page.locator(".sum");
      expect(await sum.textContent()).toBe(`${roughly} for 2 calls`);
      expect(await sum.getAttribute("title")).toBe(exactly);
      expect(await rowOf(page, "Sum").locator('[data-column^="Spent"]').innerText()).toBe(roughly.slice(1));
      expect(await rowOf(page, "Sum").locator(".amount").getAttribute("title")).toBe(exactly);
      const isRounded = roughly !== exactly;
      expect(await page.getByText("Amounts are rounded").count()).toBe(isRounded ? 1 : 0);
      await page.close();
    }
  });

  it("saves the whole list of keys, budgets or calls as CSV, with its filters, and without a formula", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team", name: "=1+1", amount: 12_345_678 });
    await quotas.addBudget({ id: "other", amount: 0, parent: "team" });
    const ids = Array.from({ length: 120 }, (_, at) => `key-${String(at).padStart(3, "0")}`);
    for (const id of ids) await quotas.add({ id, granted: 1_234_567, budget: "team" });
    await quotas.add({ id: "poor", name: "=HYPERLINK(1)", apiKey: "sk-poor", granted: 1 });
    user = { name: "reader", readOnly: true };
    const page = await open("", { locale: "en-US" });
    await rowOf(page, "key-099").waitFor();
    const all = await csvOf(page, "programs", "keys");
    expect(firstCells(all)).toEqual([...ids, "poor"]);
    expect(all).toContain("\r\nkey-000,key-000,active,1.234567,0.000000,1.234567,");
    expect(all).toContain("'=HYPERLINK(1)");
    await page.getByText(/^keys-.*\.csv has 121 rows\.$/).waitFor();
    const european = await csvOf(page, "Excel (12,50)", "keys");
    expect(european).toMatch(/^\uFEFFKey;/);
    expect(european).toContain(";1,234567;");
    await page.getByLabel("Find").fill("KEY-11");
    await page.getByLabel("Find").press("Enter");
    await rowOf(page, "key-000").waitFor({ state: "detached" });
    expect(firstCells(await csvOf(page, "programs", "keys"))).toEqual(ids.slice(110));
    await page.getByLabel("Find").fill("");
    await page.getByLabel("Find").press("Enter");
    await page.getByLabel("State").selectOption("used up");
    await page.getByText("There is no such key.").waitFor();
    expect(firstCells(await csvOf(page, "programs", "keys"))).toEqual([]);
    await page.getByRole("link", { name: "Budgets" }).click();
    await rowOf(page, "other").first().waitFor();
    const budgets = await csvOf(page, "programs", "budgets");
    expect(firstCells(budgets)).toEqual(["other", "team"]);
    expect(budgets).toContain("\r\nteam,'=1+1,,12.345678,");
    await page.getByLabel("Find").fill("TEA");
    await page.getByLabel("Find").press("Enter");
    expect(firstCells(await csvOf(page, "programs", "budgets"))).toEqual(["team"]);
    // The rows of the list are folded, and those of the file are not.
    const refused = [await call("poor", "=small"), await call("poor", "=small"), await call("nobody", "small")];
    await page.getByRole("link", { name: "Calls", exact: true }).click();
    await page.getByText("3 refused calls.").waitFor();
    const calls = await csvOf(page, "programs", "calls");
    expect(firstCells(calls)).toEqual(refused.toReversed());
    expect(calls).toContain(",'=small,");
    expect(calls).toContain("The call was refused by the key's own quota");
    expect(calls).toContain("An operator can help: Add to the quota of poor.");
    expect(calls).not.toContain("polygate ");
    await page.getByLabel("Code").selectOption("invalid_api_key");
    await rowOf(page, "quota_insufficient").waitFor({ state: "detached" });
    expect(firstCells(await csvOf(page, "programs", "calls"))).toEqual(refused.slice(2));
    await page.close();
  });

  it("makes no file of a list that is too long for a file, and says so", async () => {
    const page = await open();
    const json = { data: Array.from({ length: 1_000 }, () => ({ id: "a", name: "a" })), next: "a" };
    await page.route(/\/keys\?/, (route) => route.fulfill({ json }));
    let files = 0;
    page.on("download", () => files++);
    await page.getByRole("button", { name: "CSV" }).click();
    await page
      .getByText("The list has more than 50,000 rows, which are too many for a file: choose a filter.")
      .waitFor();
    expect(files).toBe(0);
    await page.close();
  });

  it("says of each call in its own words how it ended, in the heading, in rows and in the spend", async () => {
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small", "usd", {
      chat() {
        throw new GatewayError("backend_failed", "Broken.");
      },
    });
    const page = await open("?part=spend&by=model");
    await rowOf(page, "no model").getByText("failed calls", { exact: true }).first().waitFor();
    expect(await rowOf(page, "no model").textContent()).not.toContain("refused");
    const [recorded] = (await stores.calls?.list({})) ?? [];
    for (const [outcome, word, heading] of [
      ["refused", "refused", "Refused calls"],
      ["failed", "failed", "Failed calls"],
      ["deadline", "took too long", "Calls that took too long"],
      ["shutdown", "cut by a shutdown", "Calls cut by a shutdown"],
      ["client-closed", "caller hung up", "Calls whose caller hung up"],
      ["stopped", "stopped", "Stopped calls"],
    ] as const) {
      const json = { data: [{ ...recorded, outcome, reasons: ["Because."], next: [] }], next: null };
      await page.route(/\/calls\?/, (route) => route.fulfill({ json }));
      await page.goto(`${url}?part=calls&end=${outcome}`);
      await page.getByRole("heading", { level: 2, name: heading, exact: true }).waitFor();
      await page.getByRole("table", { name: heading, exact: true }).waitFor();
      for (const part of ["refusals&end=all", "live"]) {
        await page.goto(`${url}?part=${part}`);
        await page.locator("tbody .state", { hasText: new RegExp(`^${word}$`) }).waitFor();
      }
      await page.unroute(/\/calls\?/);
    }
    await page.close();
  });

  it("cuts a long name after a few lines, and has all of it at hand", async () => {
    const { quotas } = stores.ports;
    const name = "The department of long words ".repeat(18).trim();
    await quotas.addBudget({ id: "team", name, amount: 1 });
    await quotas.add({ id: "ann", name, apiKey: "sk-ann", budget: "team" });
    await call("ann", "small");
    for (const part of ["keys", "budgets", "live", "spend&by=key", "refusals&end=all"]) {
      const page = await open(`?part=${part}`);
      const names = page.locator(".name");
      await names.first().waitFor();
      for (const shown of await names.all()) {
        expect(
          [part, await shown.getAttribute("title"), await shown.textContent()].map((text) =>
            text?.replace("in The", "The"),
          ),
        ).toEqual([part, name, name]);
        const lines = await shown.evaluate((one) =>
          Math.round(one.clientHeight / parseFloat(getComputedStyle(one).lineHeight)),
        );
        expect([part, lines]).toEqual([part, 3]);
      }
      await page.close();
    }
  });

  it("is no wider than a phone with long names in headings, dialogs, notices and filters", async () => {
    const { quotas } = stores.ports;
    const [id, name] = ["b".repeat(100), "W".repeat(200)];
    await quotas.addBudget({ id, name, amount: 5_000_000, period: "month" });
    await quotas.add({ id: "ann", apiKey: "sk-ann", budget: id });
    await call("ann", "m".repeat(200));
    const page = await open("", { viewport: { width: 390, height: 844 } });
    for (const part of [
      `budgets&periods=${id}`,
      "keys",
      `spend&by=model&group=${"g".repeat(200)}`,
      `refusals&model=${"m".repeat(200)}`,
      "p".repeat(200),
    ]) {
      await page.goto(`${url}?part=${part}`);
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      expect([part, await isWiderThanScreen(page)]).toEqual([part, false]);
    }
    await page.goto(`${url}?part=budgets`);
    await page.getByRole("button", { name: `Edit ${id}` }).click();
    const widths = await page.getByRole("dialog").evaluate((one) => [one.scrollWidth, one.clientWidth]);
    expect(widths[0]).toBe(widths[1]);
    await page.close();
  });

  it("shows the last 366 days in the chart, says so, and leads to a table of all days", async () => {
    const page = await browser.newPage({ locale: "en-US" });
    await stores.ports.quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small");
    const usage = await stores.calls?.usage({ by: ["day"] });
    const rows = Array.from({ length: 400 }, (_, at) => ({
      ...usage?.rows[0],
      day: dayAt(at),
      units: 1_000_000 * (at + 1),
    }));
    await page.route(/\/usage\?/, (route) => route.fulfill({ json: { ...usage, rows, next: null } }));
    const days = `since=${dayAt(0)}&until=${dayAt(399)}`;
    await open(`?part=spend&by=group&${days}`, {}, page);
    await page.getByText("the chart has the last 366 days").waitFor();
    expect(await page.locator(".day").count()).toBe(366);
    // The dates below the chart stand apart.
    const dates = await page
      .locator(".date")
      .evaluateAll((all) =>
        all.map((date) => date.getBoundingClientRect()).map(({ left, right }) => [left, right] as const),
      );
    expect(dates.slice(1).every(([left], at) => left > (dates[at]?.[1] ?? 0))).toBe(true);
    await page.getByRole("link", { name: "Show the days as a table" }).click();
    await page.waitForURL(`**?part=spend&by=day&${days}`);
    await page.getByRole("rowheader", { name: dayAt(0) }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(400);
    expect(await page.getByRole("link", { name: "Show the days as a table" }).count()).toBe(0);
    await page.close();
  });

  it("asks for refusals by the code that an SDK shows, and says what it means", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    await quotas.add({ id: "bound", apiKey: "sk-bound", models: ["small"] });
    await call("poor", "small");
    await call("bound", "large");
    const page = await open("?part=calls&code=insufficient_quota");
    await page.getByText("insufficient_quota is recorded as quota_exhausted or quota_insufficient.").waitFor();
    await rowOf(page, "poor").waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    expect(await page.getByLabel("Code").inputValue()).toBe("insufficient_quota");
    expect(new URL(page.url()).search).toBe("?part=calls&code=insufficient_quota");
    await page.getByLabel("Code").selectOption("model_not_allowed");
    await rowOf(page, "bound").waitFor();
    expect(await page.getByText("is recorded as").count()).toBe(0);
    await page.close();
  });

  it.each([
    ["?part=calls&code=quota_exausted", "not quota_exausted. Did you mean quota_exhausted?"],
    ["?part=calls&errorCode=quota_exausted", "not quota_exausted. Did you mean quota_exhausted?"],
    ["?part=calls&end=refuse", 'not "refuse". Did you mean refused?'],
    ["?part=calls&outcome=refuse", 'not "refuse". Did you mean refused?'],
    ["?part=calls&since=7d", "From must be a day, such as 2026-11-01, not 7d."],
    ["?part=calls&until=2026-02-30", "To must be a day, such as 2026-11-01, not 2026-02-30."],
    ["?part=calls&key=Poo", "No key has the id Poo."],
    ["?part=calls&budget=none", "No budget has the id none."],
    ["?part=spend&by=key,modle", 'not "modle". Did you mean model?'],
    ["?part=spend&by=modle", 'not "modle". Did you mean model?'],
    ["?part=spend&by=key&since=yesterday", "From must be a day, such as 2026-11-01, not yesterday."],
    ["?part=spend&by=key&month=2026-13", "From must be a day, such as 2026-11-01, not 2026-13."],
    ["?part=spend&by=key&key=Poor", "Did you mean p-1?"],
    ["?part=spend&by=key&budget=none", "No budget has the id none."],
    ["?part=keys&state=activ", 'not "activ". Did you mean active?'],
  ])("shows nothing under %s, and says why", async (address, reason) => {
    await stores.ports.quotas.add({ id: "p-1", name: "Poor", apiKey: "sk-p-1", granted: 1 });
    await call("p-1", "small");
    const page = await open(address);
    await page.getByText(reason).waitFor();
    expect(await page.getByRole("row").count()).toBe(0);
    expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
    // The wrong word stays in its field and in the address, to be mended.
    const [, word = ""] = /[=,]([^=,]+)$/.exec(address) ?? [];
    expect(new URL(page.url()).search).toContain(word);
    await page.close();
  });

  it("keeps a text that is no day in its field, and goes on with a day", async () => {
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    await call("poor", "small");
    const page = await open("?part=calls&since=7d");
    await page.getByText("From must be a day").waitFor();
    expect(await fieldOf(page, "From")).toBe("7d");
    await page.getByRole("textbox", { name: "From" }).fill("2026-01-01");
    await page.keyboard.press("Tab");
    await rowOf(page, "poor").waitFor();
    expect(await page.getByRole("textbox", { name: "From" }).getAttribute("type")).toBe("date");
    await page.close();
  });

  it("filters refusals by the name of a key, and shows it beside the id", async () => {
    const { quotas } = stores.ports;
    for (const [id, name] of [
      ["ben", "Ben M."],
      ["ben-2", "Ben M. (laptop)"],
      ["k7", "Team"],
      ["k8", "team"],
    ] as const)
      await quotas.add({ id, name, apiKey: `sk-${id}`, granted: 1 });
    for (const id of ["ben", "ben-2", "k7", "k8"]) await call(id, "small");
    const page = await open("?part=calls");
    await page.getByText("4 refused calls.").waitFor();
    expect(await rowOf(page, "laptop").locator('[data-column="Key"]').textContent()).toMatch(
      /^ben-2\s*Ben M\. \(laptop\)/,
    );
    const key = page.getByRole("searchbox", { name: "Key" });
    for (const [written, id] of [
      ["Ben M.", "ben"],
      ["ben", "ben"],
      ["laptop", "ben-2"],
      ["k8", "k8"],
    ] as const) {
      await key.fill(written);
      await page.keyboard.press("Enter");
      await page.waitForURL(`**?part=calls&key=${id}`);
      await page.getByText("1 refused call.").waitFor();
      expect(await key.inputValue()).toBe(id);
      await key.fill("");
      await page.keyboard.press("Enter");
      await page.getByText("4 refused calls.").waitFor();
    }
    // Two keys of one name.
    await key.fill("TEAM");
    await page.keyboard.press("Enter");
    await page.getByText("The filter may mean several keys:").waitFor();
    expect(await page.getByText("No such call is recorded.").count()).toBe(0);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("link", { name: "team (k8)" }).click();
    await page.getByText("1 refused call.").waitFor();
    expect(await key.inputValue()).toBe("k8");
    await page.getByRole("link", { name: "Live" }).click();
    expect(await rowOf(page, "ben-2").locator('[data-column="Key"]').textContent()).toBe("ben-2Ben M. (laptop)");
    // An address may have a whole name, too.
    await page.goto(`${url}?part=calls&key=ben+m.`);
    await page.getByText("1 refused call.").waitFor();
    expect(new URL(page.url()).search).toBe("?part=calls&key=ben");
    expect(await key.inputValue()).toBe("ben");
    await page.goto(`${url}?part=calls&key=team`);
    await page.getByRole("link", { name: "team (k8)" }).waitFor();
    await page.goto(`${url}?part=calls&key=laptop`);
    await page.getByRole("link", { name: "Look for laptop among the keys" }).waitFor();
    await page.close();
  });

  it("tops up the budget or the quota that has refused a call, and says what the call lacks", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team", amount: 1, period: "month" });
    await quotas.add({ id: "ann", apiKey: "sk-ann", budget: "team" });
    await quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1 });
    const ids = [await call("ann", "small"), await call("poor", "small")];
    for (const [at, button, action] of [
      [0, "Top up team", "Top up"],
      [1, "Add to the quota of poor", "Add"],
    ] as const) {
      const page = await open(`?part=calls&call=${ids[at]}`);
      const step = page.locator('[data-column="Next"] li').first();
      const [, lack = ""] = /This call alone lacks \$([\d.]+) for/.exec((await step.textContent()) ?? "") ?? [];
      await step.getByRole("button", { name: button }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText(`So far it was given $0.000001. This call alone lacks $${lack} for`).waitFor();
      await page.getByLabel("Amount in USD").fill(lack);
      await dialog.getByRole("button", { name: action, exact: true }).click();
      // It is more than was given so far.
      await dialog.getByText(`choose ${action} again`).waitFor();
      await dialog.getByRole("button", { name: action, exact: true }).click();
      await page.getByText("There is enough for the call now: the caller may try again.").waitFor();
      expect(await page.getByRole("button", { name: button }).count()).toBe(0);
      await page.close();
    }
    expect((await quotas.budgetReport("team"))?.granted).toBeGreaterThan(1);
    expect((await quotas.report("poor"))?.granted).toBeGreaterThan(1);
    user = { name: "reader", readOnly: true };
    await quotas.lower("poor", (await quotas.report("poor"))?.available ?? 0);
    const page = await open(`?part=calls&call=${await call("poor", "small")}`);
    await page.getByText("An operator can help: Add to the quota of poor. Lets calls pass again.").waitFor();
    expect(await page.getByText(/polygate (?:keys|budgets)/).count()).toBe(0);
    expect(await page.getByRole("button", { name: "Add" }).count()).toBe(0);
    await page.goto(`${url}?part=calls&call=${await call("nobody", "small")}`);
    await page.getByText("An operator can make a new key").waitFor();
    expect(await page.getByText(/polygate (?:keys|budgets)/).count()).toBe(0);
    await page.close();
  });

  it("offers what helps in the list of refusals, too, and loads the list again", async () => {
    const { quotas } = stores.ports;
    const id = "team-" + "a".repeat(95);
    await quotas.addBudget({ id, amount: 1 });
    await quotas.add({ id: "ann", apiKey: "sk-ann", budget: id });
    await quotas.add({ id: "sleeper", apiKey: "sk-sleeper" });
    await quotas.update("sleeper", { paused: true });
    await quotas.add({ id: "bound", apiKey: "sk-bound", models: ["small"] });
    await call("ann", "small");
    await call("sleeper", "small");
    await call("bound", "large");
    const unknown = await call("nobody", "small");
    const page = await open("?part=calls", { viewport: { width: 1280, height: 900 } });
    await page.getByText("4 refused calls.").waitFor();
    expect(await barriers(page)).toEqual([]);
    expect(await nextOf(page).getByRole("button", { name: "bound" }).allTextContents()).toEqual(["Edit bound"]);
    const topUp = rowOf(page, "ann").getByRole("button", { name: "Top up" });
    await topUp.click();
    await page.getByText(/^Adds to .* alone\. So far .* This call alone lacks \$0\.0000\d+ for/).waitFor();
    await page.getByLabel("Amount in USD").fill("1");
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Top up", exact: true });
    await confirm.click();
    await page.getByText("choose Top up again").waitFor();
    await confirm.click();
    await rowOf(page, "ann").getByText("There is enough for the call now: the caller may try again.").waitFor();
    expect(await topUp.count()).toBe(0);
    await page.getByRole("button", { name: "Resume sleeper" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await rowOf(page, "sleeper").getByText("The key works now: the caller may try again.").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(4);
    await page.getByRole("link", { name: `What helps after ${unknown}` }).click();
    await page.getByText("Ask for the name of the key, and").waitFor();
    // A user who may only look gets no button, and no command in the list.
    user = { name: "reader", readOnly: true };
    await page.goto(`${url}?part=calls`);
    await page.getByText("4 refused calls.").waitFor();
    expect(await nextOf(page).getByRole("button").count()).toBe(0);
    expect((await nextOf(page).allTextContents()).join(" ")).not.toContain("polygate");
    await page.close();
  });

  it("has a button for each step that it can do, and the command only behind it", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "bound", apiKey: "sk-bound", models: ["small"] });
    await quotas.add({ id: "sleeper", apiKey: "sk-sleeper" });
    await quotas.update("sleeper", { paused: true });
    await quotas.add({ id: "old", apiKey: "sk-old", expiresAt: 1 });
    const page = await open(`?part=calls&call=${await call("bound", "large")}`);
    expect(await nextOf(page).innerText()).toMatch(
      /^Edit bound\s+Replaces the models that the key may use\. Now it may use small\.\s+Show the command$/,
    );
    expect(await barriers(page)).toEqual([]);
    await page.goto(`${url}?part=calls&call=${await call("old", "small")}`);
    expect(await nextOf(page).innerText()).toMatch(/^Edit old\s+Makes the key valid again\.\s+Show the command$/);
    await page.getByRole("button", { name: "Edit old" }).click();
    await page.getByLabel("Expires on").fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("old is changed.").waitFor();
    expect((await quotas.report("old"))?.expiresAt).toBe(0);
    await page.goto(`${url}?part=calls&call=${await call("sleeper", "small")}`);
    expect(await nextOf(page).innerText()).toMatch(/^Resume sleeper\s+Lets the key work again\.\s+Show the command$/);
    await page.getByRole("button", { name: "Resume sleeper" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByText("sleeper works again.").waitFor();
    expect(await quotas.report("sleeper")).not.toHaveProperty("paused");
    await page.goto(`${url}?part=calls&call=${await call("nobody", "small")}`);
    expect(await nextOf(page).innerText()).not.toContain("polygate");
    await page.getByRole("link", { name: "All refused calls" }).click();
    await page.getByText("4 refused calls.").waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "look for it among the keys" }).click();
    await rowOf(page, "sleeper").waitFor();
    await page.close();
  });

  it("has no secret in its address that its user looks for", async () => {
    const page = await open();
    for (const secret of [`sk-${"aB3".repeat(14)}c`, `${"aB3".repeat(14)}c`, `SK-${"aB3".repeat(14)}c-old`]) {
      await page.getByLabel("Find").fill(secret);
      await page.keyboard.press("Enter");
      await page.getByText("There is no such key.").waitFor();
      expect(new URL(page.url()).search).toBe("?part=keys");
    }
    await page.close();
  });

  it("hides a secret when the session of its user ends", async () => {
    const page = await open();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("team-a");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).waitFor();
    await page.getByRole("row", { name: "team-a" }).waitFor({ state: "attached" });
    user = undefined;
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.getByText("You are not logged in.").waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.close();
  });

  it("finds a key among many by a part of its id or name", async () => {
    const ids = Array.from({ length: 1_100 }, (_, at) => `key-${String(at).padStart(4, "0")}`);
    await Promise.all(ids.map((id) => stores.ports.quotas.add({ id, name: id === "key-1050" ? "Ann's laptop" : "x" })));
    const page = await open();
    await page.getByText("100 keys are shown.").waitFor();
    await page.getByLabel("Find").fill("LAPTOP");
    await page.keyboard.press("Enter");
    await rowOf(page, "key-1050").waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    expect(new URL(page.url()).search).toBe("?part=keys&find=LAPTOP");
    await page.getByLabel("Find").fill("key-0");
    await page.keyboard.press("Enter");
    await page.getByText("1,000 keys are shown, of 1,000 that were searched.").waitFor();
    await page.getByRole("button", { name: "More keys" }).click();
    await page.getByRole("button", { name: "More keys" }).waitFor({ state: "detached" });
    expect(await page.getByRole("row").count()).toBe(1_001);
    await page.close();
  });

  it("writes money as people do, with the points of a column below each other, and says that an amount of 0 stops its keys", async () => {
    const { quotas } = stores.ports;
    for (const [id, amount] of [
      ["company", 5_000_000_000],
      ["team", 20_000_000],
      ["trial", 2_000],
      ["odd", 1_234_567],
      ["stopped", 0],
    ] as const) {
      await quotas.addBudget({ id, amount, period: "month" });
      await quotas.add({ id, budget: id });
    }
    await quotas.add({ id: "none", granted: 0 });
    const page = await open("?part=budgets", { locale: "en-US", viewport: { width: 1_280, height: 900 } });
    await rowOf(page, "team").waitFor();
    const amounts = page.locator('[data-column^="Amount"] .amount');
    expect(await amounts.allTextContents()).toEqual(["5,000.00", "1.23", "0.00", "20.00", "0.0020"]);
    expect(await amounts.nth(1).getAttribute("title")).toBe("$1.234567");
    expect(new Set(await amounts.evaluateAll(pointsOf)).size).toBe(1);
    // Nobody copies the unseen digits.
    const copied = await amounts.last().evaluate((span) => {
      getSelection()?.selectAllChildren(span);
      return String(getSelection());
    });
    expect(copied).toBe("0.0020");
    expect(await rowOf(page, "stopped").innerText()).toMatch(/amount is 0/);
    expect(await rowOf(page, "stopped").innerText()).not.toMatch(/%|nothing left/);
    await page.getByRole("link", { name: "Keys" }).click();
    const states = page.locator('[data-column="State"]');
    await expect
      .poll(() => states.allTextContents())
      .toEqual(
        ["active", "quota is 0", "active", "budget is 0", "active", "active"].map(
          (word) => expect.stringContaining(word) as string,
        ),
      );
    await page.close();
    const yen = await openIn("JPY", "?part=budgets");
    await rowOf(yen, "team").waitFor();
    expect(await yen.locator('[data-column^="Amount"] .amount').allTextContents()).toEqual([
      "5,000",
      "1",
      "0",
      "20",
      "0.0020",
    ]);
    await yen.close();
  });

  it("says what share of a budget is used, writes equal amounts alike, and leads to the calls behind them", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team", amount: 5_000_000, period: "month" });
    await quotas.addBudget({ id: "solo", amount: 1 });
    await quotas.addBudget({ id: "other", amount: 100 });
    await quotas.addBudget({ id: "lowered", amount: 100 });
    await quotas.add({ id: "sunk", apiKey: "sk-sunk", budget: "lowered" });
    await quotas.reserve({ id: "gap", keyId: "sunk", atLeast: 29, atMost: 29, leaseMs: 60_000 });
    await quotas.settle("gap", { used: 29, certainty: "exact" });
    await quotas.add({ id: "empty", apiKey: "sk-empty", granted: 4, budget: "other" });
    await quotas.reserve({ id: "hold", keyId: "empty", atLeast: 1, atMost: 4, leaseMs: 60_000 });
    await quotas.settle("hold", { used: 7, certainty: "exact" });
    await quotas.add({ id: "rich", apiKey: "sk-rich", budget: "team" });
    await call("rich", "small");
    await quotas.addBudget({ id: "beyond", amount: 100 });
    await quotas.add({ id: "wild", apiKey: "sk-wild", budget: "beyond" });
    await quotas.addBudget({ id: "part", amount: 10, parent: "beyond" });
    await quotas.add({ id: "below", apiKey: "sk-below", budget: "part" });
    await quotas.reserve({ id: "little", keyId: "wild", atLeast: 60, atMost: 60, leaseMs: 60_000 });
    await quotas.reserve({ id: "running", keyId: "wild", atLeast: 40, atMost: 40, leaseMs: 60_000 });
    await quotas.settle("little", { used: 161, certainty: "exact" });
    const page = await open("?part=budgets");
    await rowOf(page, "team").waitFor();
    expect(await rowOf(page, "team").textContent()).toMatch(/5\.000\.0000\d+\s*<1% of granted/);
    expect(await rowOf(page, "solo").textContent()).toMatch(/0\.0000010\.00\s*0% of granted/);
    expect(await rowOf(page, "lowered").textContent()).toMatch(
      /0\.0001once0\.00010\.000029\s*29% of granted\s*0\.000071/,
    );
    // What Spend says, too: the overdrawn part is in the sum, and what running calls hold is not.
    expect(await rowOf(page, "beyond").first().textContent()).toMatch(
      /0\.00017\s*running calls hold 0\.00004\s*0\.00011 overdrawn\s*161% of granted\s*0\.00\s*nothing left/,
    );
    // The bar of an overdrawn budget is as long as that of any other.
    const widths = await page.locator("meter").evaluateAll((bars) => bars.map(({ clientWidth }) => clientWidth));
    expect(new Set(widths).size).toBe(1);
    await quotas.updateBudget("lowered", { amount: 10 });
    await page.reload();
    await rowOf(page, "lowered").waitFor();
    expect(await rowOf(page, "lowered").textContent()).toMatch(
      /290% of granted\s*0\.00\s*nothing left\s*top-ups first fill 0\.000019/,
    );
    const spentOf = async (row: string): Promise<string | undefined> =>
      /^[\d.]+/.exec(await rowOf(page, row).first().locator('[data-column^="Spent"]').innerText())?.[0];
    const used = await spentOf("team");
    await page.getByRole("link", { name: "Spend of team" }).click();
    await rowOf(page, "rich").waitFor();
    expect(await page.locator(".sum").textContent()).toBe(`$${used} for 1 call`);
    expect(await spentOf("Sum")).toBe(used);
    await page.getByRole("link", { name: "Keys" }).click();
    await rowOf(page, "rich").waitFor();
    expect(await spentOf("rich")).toBe(used);
    // What is left of a key is the least of its own quota and of its budgets, with the name of that one.
    await quotas.add({ id: "both", granted: 2, budget: "other" });
    await quotas.add({ id: "free" });
    await quotas.add({ id: "gone", granted: 5, budget: "team" });
    await quotas.revoke("gone");
    await quotas.addBudget({ id: "nothing", amount: 0 });
    await quotas.add({ id: "none", granted: 0 });
    await quotas.add({ id: "none-of-team", budget: "nothing" });
    await page.reload();
    await rowOf(page, "both").waitFor();
    const leftOf = async (id: string) => rowOf(page, id).first().locator('[data-column^="Left"]').innerText();
    await expect.poll(() => leftOf("wild")).toMatch(/^0\.00\s*nothing left in beyond$/);
    expect(await leftOf("below")).toMatch(/^0\.00\s*nothing left in beyond$/);
    expect(await leftOf("rich")).toMatch(/^4\.99\s*in team$/);
    expect(await leftOf("both")).toMatch(/^0\.000002\s*in its own quota$/);
    expect(await leftOf("free")).toBe("unlimited");
    expect(await leftOf("gone")).toBe("–");
    // A key with a quota of its own, which a call has overdrawn, and a budget: each fact has its own words.
    const factOf = (id: string, fact: string) =>
      rowOf(page, id).first().locator(`[data-column^="${fact}"]`).innerText();
    expect(await Promise.all(["State", "Spent", "Granted", "Left"].map((fact) => factOf("empty", fact)))).toEqual([
      "used up",
      expect.stringMatching(/^0\.000007\s*0\.000003 overdrawn\s*175%\s*of granted$/),
      "0.000004",
      expect.stringMatching(/^0\.00\s*nothing left in its own quota$/),
    ]);
    expect(await Promise.all(["wild", "below", "rich", "sunk"].map((id) => factOf(id, "State")))).toEqual([
      // Running calls may give back what they hold.
      "active",
      "active",
      "active",
      "budget used up",
    ]);
    await page.getByLabel("State").selectOption("used up");
    await rowOf(page, "rich").waitFor({ state: "detached" });
    const shown = async (): Promise<string[]> => page.locator("tbody .id").allTextContents();
    expect(await shown()).toEqual(["empty", "sunk"]);
    const words = await page.locator('[data-column="State"]').allTextContents();
    expect(words.map((text) => text.trim())).toEqual(["used up", "budget used up"]);
    const linked = await open(new URL(page.url()).search);
    await rowOf(linked, "sunk").waitFor();
    expect(await linked.locator("tbody tr").count()).toBe(2);
    await linked.close();
    // An amount of 0 stops keys that have used nothing.
    await page.getByLabel("State").selectOption("amount is 0");
    await rowOf(page, "sunk").waitFor({ state: "detached" });
    expect(await shown()).toEqual(["none", "none-of-team"]);
    await page.getByLabel("State").selectOption("active");
    await rowOf(page, "rich").waitFor();
    expect(await shown()).toEqual(["below", "both", "free", "rich", "wild"]);
    await page.close();
  });

  it.each(["light", "dark"] as const)(
    "shows by a word and a colour that nothing of an amount is left, in the %s",
    async (colorScheme) => {
      const { quotas } = stores.ports;
      for (const [id, used] of [
        ["almost", 95],
        ["beyond", 127],
        ["held", 0],
      ] as const) {
        await quotas.addBudget({ id, amount: 100 });
        await quotas.add({ id, apiKey: `sk-${id}`, budget: id, granted: 100 });
        await quotas.reserve({ id: `hold-${id}`, keyId: id, atLeast: 1, atMost: 100, leaseMs: 60_000 });
        if (used > 0) await quotas.settle(`hold-${id}`, { used, certainty: "exact" });
      }
      await quotas.add({ id: "crumb", granted: 10_000 });
      await quotas.reserve({ id: "of-crumb", keyId: "crumb", atLeast: 9_995, atMost: 9_995, leaseMs: 60_000 });
      await quotas.settle("of-crumb", { used: 9_995, certainty: "exact" });
      for (const part of ["budgets", "keys"]) {
        const page = await open(`?part=${part}`, { colorScheme });
        await rowOf(page, "beyond").waitFor();
        await expect
          .poll(() => page.locator(".state.empty.zero", { hasText: "nearly used up" }).count())
          .toBe(part === "keys" ? 1 : 0);
        expect(await rowOf(page, "beyond").textContent()).toMatch(/0\.000027 overdrawn\s*127% of granted/);
        await expect.poll(() => rowOf(page, "held").getByText("nothing left").count()).toBe(1);
        // Running calls may give back what they hold.
        expect(await rowOf(page, "held").getByText("used up").count()).toBe(0);
        expect(await rowOf(page, "beyond").getByText("used up").count()).toBe(part === "keys" ? 1 : 0);
        expect(await rowOf(page, "almost").getByText("nothing left").count()).toBe(0);
        const [beyond, almost, ground] = await colorsOf(page, ["beyond", "almost"]);
        expect(beyond).not.toEqual(almost);
        expect(contrastOf(beyond, ground)).toBeGreaterThanOrEqual(3);
        expect(await barriers(page)).toEqual([]);
        await page.close();
      }
    },
  );

  it("keeps no old list below new choices, and tells a failure of the server from one of the network", async () => {
    await stores.ports.quotas.add({ id: "rich", apiKey: "sk-rich" });
    await call("rich", "small");
    const page = await open("?part=spend&by=key");
    await rowOf(page, "rich").waitFor();
    await page.route(/\/usage/, (route) => route.fulfill({ status: 503, body: "<h1>Bad gateway</h1>" }));
    await page.getByRole("combobox", { name: "By", exact: true }).selectOption("Model");
    await page.getByText("The server has failed: it has answered with 503.").waitFor();
    expect(await page.getByRole("row").count()).toBe(0);
    await page.unrouteAll();
    await page.route(/\/usage/, (route) => route.abort());
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("The server could not be reached.").waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Try again" }).click();
    await rowOf(page, "small").waitFor();
    // The page does not take a failure of its first request for a host without parts.
    await page.route(/\/me$/, (route) => route.fulfill({ status: 500, body: "" }));
    await page.reload();
    await page.getByText("The server has failed: it has answered with 500.").waitFor();
    await page.getByText("This could not be loaded.").waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Try again" }).click();
    await rowOf(page, "small").waitFor();
    // Also a page whose own files do not come says so.
    await page.route(/app\.js/, (route) => route.fulfill({ status: 503 }));
    await page.reload();
    await page.getByText("If this stays, load the page again.").waitFor();
    await page.unrouteAll();
    await page.reload();
    await rowOf(page, "small").waitFor();
    // A CSV after the session leaves the page where it is.
    user = undefined;
    await page.getByRole("link", { name: "CSV" }).click();
    await page.getByText("You are not logged in.").waitFor();
    await page.close();
  });

  it.each<[string, BrowserContextOptions]>([
    ["on a laptop in the light", { colorScheme: "light" }],
    ["on a phone in the dark", { colorScheme: "dark", viewport: { width: 390, height: 844 } }],
  ])("shows a key at an address of its own, %s", async (_look, options) => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team-a", name: "Team A", amount: 50_000_000, period: "month" });
    await quotas.add({
      id: "a/b",
      name: "Anna",
      apiKey: "sk-a/b",
      granted: 10_000_000,
      budget: "team-a",
      metadata: { tier: "gold" },
    });
    await quotas.add({ id: "other", apiKey: "sk-other" });
    await call("a/b", "small");
    const failed = await call("a/b", "small", "usd", {
      chat() {
        throw new GatewayError("backend_refused", "The credential is wrong.");
      },
    });
    const backend = {
      async *chat() {
        yield "Rain.";
        await new Promise(() => {});
      },
    };
    live = createGateway({ backend, ...stores.ports });
    const running = await live.fetch(asked("a/b", "large", true));
    const unseen = await live.fetch(asked("other", "large", true));
    const page = await open("", { locale: "en-US", ...options });
    await page.getByRole("link", { name: "a/b", exact: true }).click();
    const heading = page.getByRole("heading", { level: 2, name: "Key a/b" });
    await rowOf(page, idOf(running)).waitFor();
    expect([new URL(page.url()).search, await page.title()]).toEqual([
      "?part=key&id=a%2Fb",
      'Key a/b · <Models> & "more"',
    ]);
    expect(await heading.evaluate((one) => one === document.activeElement)).toBe(true);
    expect(await page.locator(".facts").textContent()).toMatch(
      /active.*Left \(USD\)9\.99.*in its own quota.*Secrets1.*every model.*tier=gold/s,
    );
    expect(await rowOf(page, "Its own quota").textContent()).toMatch(/10\.00.*9\.99/s);
    expect(await rowOf(page, "Team A").textContent()).toMatch(/50\.00.*49\.99/s);
    expect(await page.locator(".sum").textContent()).toMatch(/^\$0\.0000\d+ for 2 calls, 1 of them failed/);
    await rowOf(page, failed).getByText("backend_refused").waitFor();
    expect(await rowOf(page, idOf(unseen)).count()).toBe(0);
    expect([await barriers(page), await isWiderThanScreen(page)]).toEqual([[], false]);
    // The address is a bookmark, and the button of the browser leads back to the list.
    await page.goBack();
    await page.getByRole("heading", { level: 2, name: "Keys" }).waitFor();
    await page.goForward();
    await page.reload();
    await press(page, "Add quota a/b");
    await page.getByLabel("Amount in USD").fill("5");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await rowOf(page, "Its own quota").getByText("15.00").waitFor();
    await page.getByRole("button", { name: "Top up team-a" }).click();
    await page.getByLabel("Amount in USD").fill("7");
    await page.getByRole("button", { name: "Top up", exact: true }).click();
    await rowOf(page, "Team A").getByText("57.00").waitFor();
    await page.getByRole("button", { name: "New secret a/b" }).click();
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.locator(".facts").getByText("Secrets2").waitFor();
    await page.getByRole("button", { name: "Stop all its calls" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop all" }).click();
    await page.getByText("No call of the key runs.").waitFor();
    expect(await running.text()).toContain("An operator has stopped the call.");
    await press(page, "Revoke a/b");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.locator(".facts").getByText("revoked").waitFor();
    expect(await page.getByRole("button", { name: "Edit a/b" }).count()).toBe(0);
    await page.goto(`${url}?part=key&id=nobody`);
    await page.getByText("There is no API key of the id nobody").waitFor();
    await page.close();
    await live.close({ deadlineMs: 0 });
  });

  it("shows a part of a key that cannot be loaded in its place, beside the others and all buttons", async () => {
    await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna", granted: 1_000_000 });
    const page = await browser.newPage({ locale: "en-US" });
    await page.route(/\/usage\?/, (route) =>
      route.fulfill({ status: 503, json: { error: { message: "The store has not answered." } } }),
    );
    // More calls run than a page of them has.
    await page.route(/\/live\?/, (route) => route.fulfill({ json: { at: 1, total: 1_200, data: [] } }));
    await open("?part=key&id=anna", {}, page);
    await page.locator("h3:has-text('This month') + .bad").getByText("The store has not answered.").waitFor();
    await page.getByText("No call of the key was refused or failed.").waitFor();
    await page.getByText("These are the oldest of 1,200 calls.").waitFor();
    for (const name of ["Edit anna", "Add quota anna", "Stop all its calls"])
      expect([name, await page.getByRole("button", { name }).isVisible()]).toEqual([name, true]);
    expect(await page.locator(".notice.bad").count()).toBe(0);
    await page.unrouteAll();
    await page.getByRole("button", { name: "Look again" }).click();
    await page.getByText("No call of the key is recorded in this month.").waitFor();
    await page.getByText("No call of the key runs.").waitFor();
    await page.close();
  });

  it.each([
    ["wide", { viewport: { width: 1_280, height: 900 } }],
    ["on a phone, in the dark", { viewport: { width: 390, height: 844 }, colorScheme: "dark" }],
  ] as const)(
    "shows a budget with its books, spend, keys, refusals and changes, and changes it, %s",
    async (_what, options) => {
      const { quotas } = stores.ports;
      await quotas.addBudget({ id: "company", amount: 900_000_000 });
      await quotas.addBudget({ id: "team a", name: "Team A", amount: 50_000_000, period: "month", parent: "company" });
      for (const [id, budget] of [
        ["anna", "team a"],
        ["other", "company"],
      ] as const)
        await quotas.add({ id, apiKey: `sk-${id}`, budget });
      await call("anna", "small");
      const failed = await call("anna", "large", "usd", {
        chat() {
          throw new GatewayError("backend_refused", "The credential is wrong.");
        },
      });
      const page = await open("?part=budgets", { locale: "en-US", ...options });
      await page.getByRole("link", { name: "team a", exact: true }).click();
      await page.getByRole("heading", { level: 2, name: "Budget team a" }).waitFor();
      await rowOf(page, failed).getByText("backend_refused").waitFor();
      expect([new URL(page.url()).search, await page.title()]).toEqual([
        "?part=budget&id=team+a",
        'Budget team a · <Models> & "more"',
      ]);
      expect(await page.getByRole("region", { name: "Budget team a" }).textContent()).toMatch(
        /Team A.*50\.00.*company/s,
      );
      expect(await page.getByRole("region", { name: "Spend of this period" }).textContent()).toMatch(
        /small1\$?0\.0000/,
      );
      await page.getByRole("region", { name: "Keys that draw on it" }).getByRole("link", { name: "anna" }).waitFor();
      expect(await page.getByRole("link", { name: "other", exact: true }).count()).toBe(0);
      await page.getByText("The log of changes has none of this budget.").waitFor();
      expect([await barriers(page), await isWiderThanScreen(page)]).toEqual([[], false]);
      await page.getByRole("button", { name: "Top up team a" }).click();
      await page.getByLabel("Amount in USD").fill("7");
      await page.getByRole("button", { name: "Top up", exact: true }).click();
      await untilGranted(page, "57.00");
      await page.getByRole("region", { name: "Last changes" }).getByText("done").waitFor();
      await page.getByRole("link", { name: "company", exact: true }).click();
      await page.getByRole("heading", { level: 2, name: "Budget company" }).waitFor();
      await page.getByRole("link", { name: "other", exact: true }).waitFor();
      await page.goto(`${url}?part=budget&id=none`);
      await page.getByText("There is no budget of the id none.").waitFor();
      // A budget that is removed on its own view leads to the list.
      await stores.ports.quotas.addBudget({ id: "spare", amount: 5_000_000, parent: "team a" });
      await page.goto(`${url}?part=budget&id=spare`);
      await page.getByText("unlike its parent").waitFor();
      await press(page, "Remove spare");
      await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click();
      await page.getByRole("status").getByText("spare is removed.").waitFor();
      await page.getByRole("heading", { level: 2, name: "Budgets" }).waitFor();
      await rowOf(page, "team a").waitFor();
      await page.close();
    },
  );

  it("shows a key without its calls on a host that has no records of them, and for a user who may only look", async () => {
    user = { name: "eve", readOnly: true };
    await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna" });
    const page = await browser.newPage({ locale: "en-US" });
    const parts = { budgets: false, calls: false, health: true, live: false };
    await page.route(/\/admin\/me$/, (route) => route.fulfill({ json: { ...user, ...parts } }));
    await open("?part=key&id=anna", {}, page);
    await page.getByText("Nothing limits what its calls cost.").waitFor();
    expect(await page.getByRole("heading", { level: 3 }).allTextContents()).toEqual(["Limits"]);
    expect(await page.locator("main").getByRole("button").allTextContents()).toEqual(["Look again"]);
    await page.close();
  });

  it("folds the filters behind a button on a phone, which says how many are chosen", async () => {
    await stores.ports.quotas.add({ id: "anna", apiKey: "sk-anna" });
    await call("anna", "small");
    const page = await open("", { viewport: { width: 390, height: 844 } });
    const button = page.getByRole("button", { name: "Filters and CSV" });
    for (const part of ["Keys", "Budgets", "Spend", "Calls", "Changes"]) {
      await page.getByRole("link", { name: part, exact: true }).click();
      await page.getByRole("heading", { level: 2, name: part }).waitFor();
      expect([part, await button.getAttribute("aria-expanded")]).toEqual([part, "false"]);
      expect([part, await page.locator(".filters :is(input, select, button, a):visible").count()]).toEqual([part, 0]);
      // The search by an id is in sight.
      expect([part, await page.getByLabel("Request id").isVisible()]).toEqual([part, part === "Calls"]);
      // The heading and the buttons take two lines at most.
      expect([part, ((await page.locator(".tools").boundingBox())?.height ?? 999) < 90]).toEqual([part, true]);
    }
    await page.getByRole("link", { name: "Keys", exact: true }).click();
    await button.focus();
    await page.keyboard.press("Enter");
    expect(await button.getAttribute("aria-expanded")).toBe("true");
    await page.keyboard.press("Tab");
    await page.keyboard.type("ann");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Filters and CSV (1 chosen)" }).waitFor();
    expect([await barriers(page), await isWiderThanScreen(page)]).toEqual([[], false]);
    await page.setViewportSize({ width: 1_280, height: 844 });
    expect([await button.isVisible(), await page.getByLabel("Find").isVisible()]).toEqual([false, true]);
    await page.close();
  });

  it("shows the calls that run, as often as it looks, and stops one", async () => {
    await stores.ports.quotas.add({ id: "ann", name: EVIL, apiKey: "sk-ann" });
    for (let calls = 0; calls < 6; calls++) await call("ann", "quick");
    const onCall = stores.recorder({ currency: "usd" });
    const backend = {
      async *chat() {
        yield "Rain.";
        await new Promise(() => {});
      },
    };
    live = createGateway({ backend, ...stores.ports, ...priceTable({ "*": { input: 1, output: 1 } }), onCall });
    const response = await live.fetch(asked("ann", EVIL, true));
    const id = response.headers.get("request-id") ?? "";
    const page = await browser.newPage();
    await page.clock.install();
    await open("?part=live", {}, page);
    await rowOf(page, id).waitFor();
    expect(await rowOf(page, id).textContent()).toMatch(
      /\d m?sann<img src=x.*<img src=x.*POST \/v1\/chat\/completions.*stream.*Stop/s,
    );
    // On a phone, several calls are in sight.
    const size = page.viewportSize() ?? { width: 1_280, height: 720 };
    await page.setViewportSize({ width: 390, height: 800 });
    const height = async (): Promise<number> => (await page.locator("main").boundingBox())?.height ?? 0;
    expect(await page.locator("tbody tr").filter({ hasText: "quick", visible: true }).count()).toBe(5);
    const dense = await height();
    expect(await isWiderThanScreen(page)).toBe(false);
    const setDense = (isDense: boolean): Promise<void> =>
      page
        .locator("table")
        .evaluateAll((tables, is) => tables.forEach((one) => one.classList.toggle("dense", is)), isDense);
    await setDense(false);
    expect(dense).toBeLessThan(0.85 * (await height()));
    await setDense(true);
    await page.setViewportSize(size);
    expect(await rowOf(page, "quick").first().textContent()).toMatch(
      /POST \/v1\/chat\/completions.*completed200.*0\.0000/,
    );
    // A list shows the first eight digits, and leads to the call.
    const link = page.getByRole("link", { name: id });
    expect(await link.locator("code").getAttribute("title")).toBe(id);
    expect(await link.locator("code").evaluate((code) => code.scrollWidth > code.clientWidth)).toBe(true);
    expect(await page.locator("code:not(.beginning)").count()).toBe(0);
    await link.click();
    await page.getByText(`The call ${id} still runs. Its record comes with its end.`).waitFor();
    await page.goBack();
    await page.getByRole("button", { name: `Stop ${id}` }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
    await page.getByText(`${id} is stopped.`).waitFor();
    expect(await response.text()).toContain("An operator has stopped the call.");
    await onCall.flush();
    await page.clock.runFor(2_000);
    await rowOf(page, "stopped").waitFor();
    await page.getByText("No call runs.").waitFor();
    expect(await page.getByText(`${id} is stopped.`).count()).toBe(1);
    const others = [await live.fetch(asked("ann", "small", true)), await live.fetch(asked("ann", "small", true))];
    await page.clock.runFor(2_000);
    await page.getByRole("button", { name: "Stop all of key ann" }).first().click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop all" }).click();
    await page.getByText("2 calls of ann stopped.").waitFor();
    for (const other of others) expect(await other.text()).toContain("An operator has stopped the call.");
    // It looks again only while it is not paused.
    await page.getByRole("button", { name: "Pause" }).click();
    user = undefined;
    await page.clock.runFor(10_000);
    expect(await page.getByText("You are not logged in.").count()).toBe(0);
    await page.getByRole("button", { name: "Pause" }).click();
    await page.clock.runFor(2_000);
    await page.getByText("You are not logged in.").waitFor();
    user = { name: "ann" };
    await page.clock.runFor(2_000);
    await page.getByText("You are not logged in.").waitFor({ state: "detached" });
    // It does not look while its tab is hidden.
    const setHidden = (is: boolean): Promise<void> =>
      page.evaluate(
        (hidden) => void Object.defineProperty(document, "hidden", { value: hidden, configurable: true }),
        is,
      );
    let looks = 0;
    page.on("request", (request) => void (looks += Number(request.url().endsWith("/live"))));
    await setHidden(true);
    await page.clock.runFor(10_000);
    expect(looks).toBe(0);
    await setHidden(false);
    // Also where only the records fail.
    await page.route(/\/calls\?/, (route) =>
      route.fulfill({ status: 503, json: { error: { message: "The store has not answered." } } }),
    );
    await page.clock.runFor(2_000);
    await page.getByText("The store has not answered.").waitFor();
    await page.unrouteAll();
    await page.clock.runFor(2_000);
    await page.getByText("The store has not answered.").waitFor({ state: "detached" });
    await page.close();
    await live.close({ deadlineMs: 0 });
  });

  it("makes a key whose secret it shows once", async () => {
    const page = await open();
    expect(await page.title()).toBe(`Keys · <Models> & "more"`);
    await page.getByText("There is no key yet. New key makes the first one.").waitFor();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("team-a");
    await page.getByLabel("Quota in USD").fill("2.50");
    await page.getByLabel("Models").fill("small-1\nlarge-1\n");
    await page.getByRole("dialog").getByLabel("Metadata").fill("plan=gold");
    await page.keyboard.press("Tab");
    await page.getByRole("button", { name: "Create" }).click();
    const secret = (await page.locator(".secret").textContent()) ?? "";
    expect((await stores.ports.quotas.find(secret.slice(3)))?.id).toBe("team-a");
    // It is shown once, so that only its button closes it.
    for (let press = 0; press < 3; press++) await page.keyboard.press("Escape");
    expect(await page.locator(".secret").textContent()).toBe(secret);
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await page.content()).not.toContain(secret);
    expect(await rowOf(page, "team-a").textContent()).toMatch(
      /active\s*2\.500\.00\s*0% of granted\s*2\.50–small-1, large-1.*plan=gold/s,
    );
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({
      granted: 2_500_000,
      metadata: { plan: "gold" },
    });
    await page.close();
  });

  it.each<[string, string, (route: Route) => Promise<void>]>([
    ["a proxy has answered", "The server has failed: it has answered with 502.", badGateway],
    [
      "a proxy has answered in JSON",
      "The server has failed: it has answered with 504.",
      (route) => route.fulfill({ status: 504, json: { error: "timeout" } }),
    ],
    [
      "was cut",
      "The server could not be reached.",
      (route) => route.fulfill({ contentType: "application/json", body: "{" }),
    ],
    ["has not come", "The server could not be reached.", (route) => route.abort()],
  ])("makes a change once whose answer %s, and says that it may have been made", async (_lost, words, answer) => {
    await stores.ports.quotas.add({ id: "team-a", granted: 10_000_000 });
    const page = await open("", { locale: "en-US" });
    const dialog = page.getByRole("dialog");
    const add = async (amount: string): Promise<void> => {
      await page.getByLabel("Amount in USD").fill(amount);
      await dialog.getByRole("button", { name: "Add" }).click();
    };
    const doubt = dialog
      .getByRole("alert")
      .getByText(`${words} The change may have been made: to see it, load the page again.`, { exact: true });
    await press(page, "Add quota team-a");
    await lose(page, /\/grant$/, answer);
    await add("5");
    await doubt.waitFor();
    await add("5");
    await untilGranted(page, "15.00");
    // Another amount is another change, and so is the same one in another dialog.
    await press(page, "Add quota team-a");
    await lose(page, /\/grant$/, answer);
    await add("5");
    await doubt.waitFor();
    await add("7");
    await untilGranted(page, "27.00");
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({ granted: 27_000_000 });
    await page.close();
  });

  it("makes one key and one secret whose answer was lost, and says that the secret is lost with it", async () => {
    const page = await open();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Name").fill("Team A");
    const dialog = page.getByRole("dialog");
    for (const [action, address] of [
      ["Create", /\/keys$/],
      ["Make it", /\/rotate$/],
    ] as const) {
      await lose(page, address, badGateway);
      await dialog.getByRole("button", { name: action }).click();
      await dialog.getByText("The change may have been made").waitFor();
      await dialog.getByRole("button", { name: action }).click();
      await dialog.waitFor({ state: "hidden" });
      const [key, ...others] = await stores.ports.quotas.list({ limit: 9 });
      const words = `The new secret of ${key?.id} was lost with its answer, and cannot be shown again. For another`;
      expect(await page.getByRole("status").textContent()).toContain(words);
      expect(others).toEqual([]);
      await press(page, `New secret ${key?.id}`);
    }
    await dialog.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.close();
  });

  it("says of a key before it is made that nothing limits it, and asks once more before it leaves its budget", async () => {
    await stores.ports.quotas.addBudget({ id: "team-a", amount: 5_000_000 });
    const page = await open();
    const dialog = page.getByRole("dialog");
    const unlimited = dialog.getByText("This key is unlimited: it has neither a quota nor a budget.");
    await page.getByRole("button", { name: "New key" }).click();
    await unlimited.waitFor();
    expect(await barriers(page)).toEqual([]);
    await page.getByLabel("Quota in USD").fill("1");
    await dialog.getByText("This key is limited by its quota.").waitFor();
    await dialog.getByLabel("Budget").selectOption("team-a");
    await dialog.getByText("This key is limited by its quota and its budget.").waitFor();
    await page.getByLabel("Quota in USD").fill("");
    await dialog.getByText("This key is limited by its budget.").waitFor();
    await page.getByLabel("Id").fill("free");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.getByRole("button", { name: "Edit free" }).click();
    await dialog.getByText("This key is limited by its budget.").waitFor();
    await dialog.getByLabel("Budget").selectOption("");
    await unlimited.waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    const question = "Without its budget, the key free is unlimited: nothing refuses its calls.";
    await page.getByRole("alert").getByText(`${question} To take it off, choose Save again.`).waitFor();
    expect(await stores.ports.quotas.report("free")).toMatchObject({ budget: "team-a" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("free is changed.").waitFor();
    expect((await stores.ports.quotas.report("free"))?.budget).toBeUndefined();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("any");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.getByRole("link", { name: "Changes" }).click();
    await rowOf(page, "Quota: unlimited").waitFor();
    expect(await rowOf(page, "Quota: unlimited").textContent()).toContain("any");
    await page.getByLabel("Of", { exact: true }).fill("any");
    await page.getByLabel("Of", { exact: true }).press("Enter");
    await rowOf(page, "Edit key").waitFor({ state: "detached" });
    expect((await csvOf(page, "programs", "changes")).split("\r\n")).toEqual([
      "id,at,user,action,target,fields,state,reason",
      expect.stringMatching(/,ann,keys\.create,any,.*Quota: unlimited.*,done,$/),
      "",
    ]);
    await page.close();
  });

  it("asks once more for a key without a quota that would get one of 0", async () => {
    await stores.ports.quotas.add({ id: "bound", apiKey: "sk-bound" });
    const page = await open("", { locale: "en-US" });
    await page.getByRole("button", { name: "Edit bound" }).click();
    await page.getByLabel("Quota from now on in USD").fill("0");
    await page.getByRole("button", { name: "Save" }).click();
    const question = "With a quota of $0.00, this key can use nothing: its calls are refused until it is granted more.";
    await page.getByRole("alert").getByText(`${question} To save it, choose Save again.`).waitFor();
    expect(await stores.ports.quotas.report("bound")).toMatchObject({ unlimited: true });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("bound is changed.").waitFor();
    expect(await stores.ports.quotas.report("bound")).toMatchObject({ unlimited: false, granted: 0 });
    await page.close();
  });

  it("asks for a new key and a new budget what the server asks, in amounts of units", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small");
    // The page shows units, because the calls are in another currency than its own.
    const page = await openIn("EUR");
    const dialog = page.getByRole("dialog");
    const asks = async (label: string, what: string): Promise<void> => {
      await dialog.getByLabel("Id").fill("little");
      await dialog.getByLabel(label).fill("500");
      await dialog.getByRole("button", { name: "Create" }).click();
      const words = `A unit is a millionth of USD: 500 units would be only 0.0005 USD. 500 USD would be 500000000 units. To make the ${what}, choose Create again.`;
      await dialog.getByRole("alert").getByText(words, { exact: true }).waitFor();
    };
    await page.getByRole("button", { name: "New key" }).click();
    await asks("Quota in units", "key");
    expect(await quotas.report("little")).toBeUndefined();
    // Another amount is asked for anew.
    await dialog.getByLabel("Quota in units").fill("600");
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.getByRole("alert").getByText("600 units would be only").waitFor();
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await quotas.report("little")).toMatchObject({ granted: 600 });
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByRole("button", { name: "New budget" }).click();
    await asks("Amount in units", "budget");
    expect(await quotas.budgetReport("little")).toBeUndefined();
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByText("little is made.").waitFor();
    expect(await quotas.budgetReport("little")).toMatchObject({ amount: 500 });
    await page.close();
    // Little money that was written as money is meant.
    const inMoney = await openIn("USD", "?part=budgets");
    await inMoney.getByRole("button", { name: "New budget" }).click();
    await inMoney.getByLabel("Id").fill("cents");
    await inMoney.getByLabel("Amount in USD").fill("0.05");
    await inMoney.getByRole("button", { name: "Create" }).click();
    await inMoney.getByText("cents is made.").waitFor();
    await inMoney.close();
  });

  it.each([
    [1_280, "light"],
    [1_024, "dark"],
  ] as const)(
    "shows keys and budgets of large amounts without a scrollbar, and does not scroll for a menu, %i wide in the %s",
    async (width, scheme) => {
      const { quotas } = stores.ports;
      await quotas.addBudget({ id: "engineering", amount: 50_000_000_000_000, period: "month" });
      await quotas.addBudget({ id: "platform", name: "Platform", amount: 250_000_000_000, parent: "engineering" });
      for (const [id, granted, budget] of [
        ["anna", 50_000_000_000_000, "engineering"],
        ["ben", 5_000_001, "platform"],
        ["production-gateway-europe", 987_654_321_000, "platform"],
      ] as const) {
        await quotas.add({ id, granted, budget, metadata: { group: "team-a", tier: "gold" } });
        await quotas.reserve({ id: `call-${id}`, keyId: id, atLeast: 1, atMost: 5_000_001, leaseMs: 60_000 });
        await quotas.settle(`call-${id}`, { used: 5_000_001, certainty: "exact" });
      }
      const page = await open("", { locale: "en-US", colorScheme: scheme, viewport: { width, height: 700 } });
      for (const [part, row] of [
        ["Keys", "ben"],
        ["Budgets", "platform"],
      ] as const) {
        await page.getByRole("link", { name: part, exact: true }).click();
        await rowOf(page, row).first().waitFor();
        const list = page.locator(".scroll");
        const hidden = await list.evaluate((one) => one.scrollWidth - one.clientWidth);
        expect(hidden).toBe(0);
        expect(await page.locator("table").evaluate((one) => getComputedStyle(one).display)).toBe("table");
        // A narrow list would scroll: the id of the row and its buttons stay in sight.
        await list.evaluate((one) => {
          one.style.width = "600px";
          one.scrollLeft = 100;
        });
        await page.getByRole("button", { name: `More for ${row}` }).click();
        await page.getByRole("button", { name: part === "Keys" ? `Revoke ${row}` : `Remove ${row}` }).waitFor();
        expect(await list.evaluate((one) => one.scrollLeft)).toBe(100);
        const idAt = await rowOf(page, row).locator(".id").first().boundingBox();
        expect(idAt?.x).toBeGreaterThanOrEqual((await list.boundingBox())?.x ?? Infinity);
        expect(await barriers(page)).toEqual([]);
        await page.keyboard.press("Escape");
      }
      await page.close();
    },
  );

  it("asks once more before a key leaves its last limit, and says what is lost with a quota", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team-a", name: "Team A", amount: 5_000_000 });
    await quotas.add({ id: "bound", apiKey: "sk-bound", budget: "team-a" });
    await quotas.add({ id: "both", apiKey: "sk-both", budget: "team-a", granted: 2_000_000 });
    const page = await open("", { locale: "en-US" });
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Edit bound" }).click();
    await dialog.getByLabel("Budget").selectOption("");
    await page.getByRole("button", { name: "Save" }).click();
    await dialog.getByRole("alert").getByText("To take it off, choose Save again.").waitFor();
    expect((await quotas.report("bound"))?.budget).toBe("team-a");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("bound is changed.").waitFor();
    expect(await quotas.report("bound")).toMatchObject({ unlimited: true });
    // A key whose quota stays is not asked about.
    await page.getByRole("button", { name: "Edit both" }).click();
    await dialog.getByLabel("Budget").selectOption("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("both is changed.").waitFor();
    await press(page, "Remove quota both");
    await dialog
      .getByText("Nothing limits what its calls cost from then on. What is left of the quota, $2.00,")
      .waitFor();
    expect(await barriers(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    expect(await quotas.report("both")).toMatchObject({ unlimited: false, granted: 2_000_000 });
    await quotas.assignBudget("both", "team-a");
    await press(page, "Remove quota both");
    await dialog.getByText("Only its budget Team A limits it from then on.").waitFor();
    // Another user has taken the budget away meanwhile, so that the question was wrong.
    await quotas.assignBudget("both", undefined);
    await dialog.getByRole("button", { name: "Remove the quota" }).click();
    await dialog.getByRole("alert").filter({ hasText: "changed" }).waitFor();
    expect(await quotas.report("both")).toMatchObject({ unlimited: false });
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await press(page, "Remove quota both");
    await dialog.getByRole("button", { name: "Remove the quota" }).click();
    await page.getByText("both has no quota any more.").waitFor();
    expect(await quotas.report("both")).toMatchObject({ unlimited: true });
    expect(await page.getByRole("button", { name: /quota both/, includeHidden: true }).count()).toBe(0);
    await press(page, "New secret both");
    await dialog.getByLabel("The older secrets end").selectOption("at once");
    await dialog.getByText("Calls with the older secrets are refused from now on.").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Budgets" }).click();
    await press(page, "Remove team-a");
    await dialog.getByText("What is left of it, $5.00, is forgotten").waitFor();
    await page.close();
  });

  it("offers only the models and tiers that its gateway has, with those of charged calls first", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "typo", models: ["gpt-5-mni"], metadata: { tier: "golld", group: "red" } });
    await quotas.add({ id: "ann", apiKey: "sk-ann" });
    for (const model of ["zebra", "gone"]) await call("ann", model);
    const many = Array.from({ length: 60 }, (_, at) => ({ id: `model-${at + 10}` }));
    const models = () => [{ id: "claude-haiku-4-5" }, ...many, { id: "zebra" }];
    const rateLimiter = flexibleRateLimiter({ tiers: { gold: {}, slow: {} } });
    live = createGateway({ backend: { async *chat() {}, models }, ...stores.ports, rateLimiter });
    const page = await open();
    const offered = (name: string) => page.getByRole("group", { name }).getByRole("button").allTextContents();
    for (const name of ["New key", "Edit typo"]) {
      await page.getByRole("button", { name }).click();
      await expect
        .poll(() => offered("Known models"))
        .toEqual(["claude-haiku-4-5", ...many.slice(0, 48).map(({ id }) => id), "zebra"]);
      expect(await offered("Known metadata")).toEqual(["group=red", "tier=gold", "tier=slow"]);
      await page.getByRole("button", { name: "Cancel" }).click();
    }
    // A filter finds keys with a wrong tier, too.
    expect(
      await page.locator("#known-metadata option").evaluateAll((all) => all.map((one) => one.getAttribute("value"))),
    ).toEqual(["group=red", "tier=golld"]);
    await page.close();
    await live.close();
    live = undefined;
  });

  it("offers models and tiers of charged calls, and groups, where no gateway tells its own, beside any others", async () => {
    const { quotas } = stores.ports;
    await quotas.add({
      id: "ann",
      apiKey: "sk-ann",
      metadata: { group: "red", tier: "gold", mail: "ann@example.com" },
    });
    await quotas.add({ id: "bob", apiKey: "sk-bob", models: ["large"], metadata: { tier: "free" } });
    await quotas.add({ id: "typo", models: ["lrge"], metadata: { tier: "golld" } });
    await call("ann", "small");
    // This name would be chosen as two models.
    await call("ann", "tiny\nlargest");
    await call("bob", "large");
    // A refused call names a model that there may not be.
    await call("bob", "mistyped");
    const page = await open();
    await rowOf(page, "ann").waitFor();
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = page.getByRole("dialog");
    const models = dialog.getByRole("group", { name: "Known models" });
    const metadata = dialog.getByRole("group", { name: "Known metadata" });
    await models.getByRole("button", { name: "small" }).click();
    expect(await models.getByRole("button").allTextContents()).toEqual(["large", "small"]);
    expect(await metadata.getByRole("button").allTextContents()).toEqual(["group=red", "tier=free", "tier=gold"]);
    await dialog.getByLabel("Models", { exact: true }).fill("small\nvendor/any*");
    await models.getByRole("button", { name: "large" }).click();
    await models.getByRole("button", { name: "small", pressed: true }).click();
    await models.getByRole("button", { name: "small", pressed: false }).waitFor();
    // A key has one tier.
    await metadata.getByRole("button", { name: "tier=gold" }).click();
    await metadata.getByRole("button", { name: "tier=free" }).click();
    await metadata.getByRole("button", { name: "tier=gold", pressed: false }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await dialog.getByLabel("Id").fill("cleo");
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await quotas.report("cleo")).toMatchObject({
      modelLimits: { "vendor/any*": true, large: true },
      metadata: { tier: "free" },
    });
    expect(
      await page.locator("#known-metadata option").evaluateAll((all) => all.map((one) => one.getAttribute("value"))),
    ).toEqual(["group=red", "tier=free", "tier=gold", "tier=golld"]);
    await page.close();
  });

  it("keeps the place in a long list after a change, and shows what has happened wherever the button is", async () => {
    const { quotas } = stores.ports;
    for (let at = 0; at < 130; at++) await quotas.add({ id: `user-${1_000 + at}`, granted: at + 1 });
    const page = await open("", { viewport: { width: 1280, height: 500 } });
    await page.getByRole("button", { name: "More keys" }).click();
    await rowOf(page, "user-1129").waitFor();
    // The button is gone, and the keyboard goes on at the list.
    await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Keys");
    await press(page, "Pause user-1125");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await rowOf(page, "user-1125").getByText("paused").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(130);
    const notice = await page.getByText("user-1125 is paused.").boundingBox();
    expect(notice?.y).toBeGreaterThanOrEqual(0);
    expect(notice?.y).toBeLessThan(500);
    // A change that is made stays no open question, also where the key cannot be shown again.
    await page.route(/keys\/user-1126$/, (route) =>
      route.request().method() === "GET" ? route.abort() : route.continue(),
    );
    await press(page, "Pause user-1126");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("user-1126 is paused.").waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
    await page.unrouteAll();
    // A key leaves the list that its change takes it out of.
    await page.getByLabel("State").selectOption("paused");
    await rowOf(page, "user-1000").waitFor({ state: "detached" });
    await press(page, "Resume user-1125");
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await rowOf(page, "user-1125").waitFor({ state: "detached" });
    expect(await page.locator("tbody .id").allTextContents()).toEqual(["user-1126"]);
    await page.close();
  });

  it("leads the keyboard back to the button of a dialog, or to the heading where the button is gone", async () => {
    await stores.ports.quotas.add({ id: "team-a", granted: 5 });
    const page = await open();
    const focused = async (name: string): Promise<void> => {
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(name);
    };
    const more = page.getByRole("button", { name: "More for team-a" });
    /** Presses a button of the menu by the keyboard alone. */
    const pressIn = async (name: string): Promise<void> => {
      await more.focus();
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name }).waitFor();
      const isThere = () => page.evaluate((text) => document.activeElement?.textContent === text, name);
      for (let tabs = 0; tabs < 6 && !(await isThere()); tabs++) await page.keyboard.press("Tab");
      await focused(name);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").waitFor();
      expect(await page.getByRole("button", { name }).count()).toBe(0);
    };
    await more.click();
    await page.getByRole("button", { name: "Pause team-a" }).waitFor();
    expect(await barriers(page)).toEqual([]);
    // A menu goes with Escape, and with a click elsewhere.
    await page.keyboard.press("Escape");
    await focused("More for team-a");
    expect(await page.getByRole("button", { name: "Pause team-a" }).count()).toBe(0);
    // Arrows lead through a menu, and from its end to its button.
    await page.keyboard.press("ArrowDown");
    await focused("More for team-a");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Pause team-a" }).waitFor();
    for (const [key, name] of [
      ["ArrowDown", "Add quota team-a"],
      ["ArrowDown", "Take quota team-a"],
      ["ArrowUp", "Add quota team-a"],
      ["ArrowUp", "More for team-a"],
      ["ArrowUp", "Revoke team-a"],
      ["ArrowDown", "More for team-a"],
    ] as const) {
      await page.keyboard.press(key);
      await focused(name);
    }
    await page.keyboard.press("Escape");
    await more.click();
    await page.getByRole("heading", { level: 2 }).click();
    await page.getByRole("button", { name: "Pause team-a" }).waitFor({ state: "hidden" });
    await pressIn("Pause team-a");
    await page.keyboard.press("Escape");
    await focused("More for team-a");
    await pressIn("Pause team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await focused("More for team-a");
    await pressIn("New secret team-a");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await focused("More for team-a");
    await pressIn("Revoke team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await focused("Keys");
    await page.close();
  });

  it("closes only the dialog of an answer, and shows a secret above another dialog", async () => {
    for (const id of ["team-a", "team-b"]) {
      await stores.ports.quotas.addBudget({ id, amount: 50_000_000 });
      await stores.ports.quotas.add({ id, granted: 5 });
    }
    const page = await open("?part=budgets");
    const dialog = page.getByRole("dialog");
    /** Sends the form of a dialog, leaves it, opens the dialog of team-b, and lets the answer come. */
    const leave = async (button: string, action: string, addresses: RegExp, answer?: Parameters<typeof held>[2]) => {
      await press(page, `${button} team-a`);
      if (button === "Top up") await page.getByLabel("Amount in USD").fill("5");
      const release = await held(page, addresses, answer);
      const asked = page.waitForRequest(addresses);
      await dialog.getByRole("button", { name: action }).click();
      await asked;
      expect(await dialog.getByRole("button", { name: action }).getAttribute("aria-busy")).toBe("true");
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await press(page, `${button === "Top up" ? button : "Add quota"} team-b`);
      await page.getByLabel("Amount in USD").fill("7");
      await release();
    };
    const isKept = async (): Promise<void> => {
      await page.getByRole("dialog", { name: /team-b$/ }).waitFor();
      expect(await page.getByLabel("Amount in USD").inputValue()).toBe("7");
      expect(await page.locator(".failure").textContent()).toBe("");
    };
    await leave("Top up", "Top up", /\/top-up$/);
    await page.getByText("team-a is topped up.").waitFor();
    await isKept();
    await page.keyboard.press("Escape");
    await leave("Top up", "Top up", /\/top-up$/, { status: 503, json: { error: { message: "The store is away." } } });
    await page.getByText("The store is away.").waitFor();
    await isKept();
    await page.keyboard.press("Escape");
    // The left question comes to nothing, and its answer, too.
    await leave("Top up", "Top up", /\/budgets\/team-a$/, { json: { granted: 1 } });
    await isKept();
    expect(await page.getByText("choose Top up again").count()).toBe(0);
    await page.goto(`${url}?part=keys`);
    await rowOf(page, "team-b").waitFor();
    await leave("New secret", "Make it", /\/rotate$/);
    await page.getByText("Keep it now: it cannot be shown again.").waitFor();
    await page.getByRole("button", { name: "I have it" }).click();
    await isKept();
    // The browser tells the end of a dialog late, when the next one may be open.
    await page.getByRole("button", { name: "Pause team-a", includeHidden: true }).evaluate((button: HTMLElement) => {
      const told = new Promise((resolve) => document.querySelector("dialog")?.addEventListener("close", resolve));
      document.querySelector("dialog")?.close();
      button.click();
      return told.then(() => new Promise(requestAnimationFrame)).then(() => {});
    });
    await page.getByRole("dialog", { name: "Pause team-a" }).waitFor();
    expect(await stores.ports.quotas.budgetReport("team-a")).toMatchObject({ granted: 55_000_000 });
    await page.close();
  });

  it("says beside a field of any form what is wrong with it", async () => {
    await stores.ports.quotas.add({ id: "one", granted: 5 });
    await stores.ports.quotas.addBudget({ id: "team-a", amount: 5_000_000 });
    const page = await open();
    const dialog = page.getByRole("dialog");
    const shows = async (label: string, text: string, words: string): Promise<void> => {
      const field = dialog.getByLabel(label, { exact: label === "Id" });
      await field.fill(text);
      await dialog.locator(".main").click();
      await dialog.getByText(words).waitFor();
      await isBeside(field, words);
      await field.fill("");
      expect(await field.getAttribute("aria-invalid")).toBe("false");
    };
    await page.getByRole("button", { name: "Edit one" }).click();
    await shows("Metadata", "gold", 'Metadata: "gold" is no metadata. Write name=text.');
    await shows("Expires on", "2020-01-01", "is over. Choose today or a later day.");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "More for one" }).click();
    await page.getByRole("button", { name: "Add quota one" }).click();
    await shows("Amount", "0", "Amount must be more than 0.");
    await page.keyboard.press("Escape");
    await page.goto(`${url}?part=budgets`);
    await page.getByRole("button", { name: "New budget" }).click();
    await dialog.getByLabel("Amount").fill("5");
    await dialog.getByLabel("Id").fill("team-b");
    await shows("Time zone", "Mars", "Mars");
    await shows("Id", "..", "cannot be . or ..");
    await shows("Id", "team-a", "This id is taken.");
    await page.close();
  });

  it("keeps what its user has written when the server refuses it", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    const page = await open();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("team-a");
    await page.getByLabel("Quota").fill("much");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("Quota must be an amount of USD such as 12.5,").waitFor();
    await isBeside(page.getByLabel("Quota"), "Quota must be an amount of USD such as 12.5,");
    // An amount that is none limits nothing.
    expect(await page.locator(".note-of-form").textContent()).toBe("");
    expect(await barriers(page)).toEqual([]);
    // The failure goes with what has caused it.
    await page.getByLabel("Quota").fill("");
    await page.getByRole("alert").waitFor({ state: "hidden" });
    expect(await page.getByLabel("Quota").getAttribute("aria-invalid")).toBe("false");
    // The sentence of the command line.
    await page.getByLabel("Quota").fill("1,500");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").getByText("Quota: 1,500 may be two amounts. Write 1.5 or 1500.").waitFor();
    expect(await page.getByLabel("Quota").inputValue()).toBe("1,500");
    await page.getByLabel("Quota").fill("1,5");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("This id is taken.").waitFor();
    await isBeside(page.getByLabel("Id"), "This id is taken.");
    expect(await page.getByLabel("Id").inputValue()).toBe("team-a");
    // A comma may stand before decimals.
    await page.getByLabel("Id").fill("team-b");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("dialog", { name: "Secret" }).waitFor();
    expect(await stores.ports.quotas.report("team-b")).toMatchObject({ granted: 1_500_000 });
    await page.close();
  });

  it("asks once more for a model that the gateway does not have, and keeps it then", async () => {
    const backend = { async *chat() {}, models: () => [{ id: "claude-sonnet" }] };
    live = createGateway({ backend, ...stores.ports });
    const page = await open();
    const dialog = page.getByRole("dialog");
    const doubt = page.getByRole("alert").filter({ hasText: 'no model "claude-sonet". Did you mean "claude-sonnet"?' });
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("one");
    await dialog.getByLabel("Models", { exact: true }).fill("claude-sonet\nclaude-sonnet");
    await page.getByRole("button", { name: "Create" }).click();
    await doubt.filter({ hasText: "To make the key, choose Create again." }).waitFor();
    expect(await stores.ports.quotas.report("one")).toBeUndefined();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    const models = async () => Object.keys((await stores.ports.quotas.report("one"))?.modelLimits ?? {});
    expect(await models()).toEqual(["claude-sonet", "claude-sonnet"]);
    // A name that has no room in an address is not asked for, and the others are.
    await page.getByRole("button", { name: "Edit one" }).click();
    const long = "x".repeat(20_000);
    await dialog.getByLabel("Models", { exact: true }).fill(`${long}\nquagga`);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").filter({ hasText: 'no model "quagga". To save it, choose Save again.' }).waitFor();
    await page.keyboard.press("Escape");
    // What the key has already is asked for no more.
    await page.getByRole("button", { name: "Edit one" }).click();
    await dialog.getByLabel("Models", { exact: true }).fill("claude-sonet\nzebra");
    await page.getByRole("button", { name: "Save" }).click();
    await page
      .getByRole("alert")
      .filter({ hasText: /no model "zebra"\. To save it, choose Save again\.$/ })
      .waitFor();
    await dialog.getByLabel("Models", { exact: true }).fill("claude-sonet");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("one is changed.").waitFor();
    expect(await models()).toEqual(["claude-sonet"]);
    await page.close();
    await live.close();
    live = undefined;
  });

  it("changes, grants, rotates and revokes a key, and lists who did it", async () => {
    await stores.ports.quotas.add({
      id: "a/b",
      granted: 1_000_000,
      apiKey: "old",
      metadata: { plan: "gold", old: "x" },
    });
    await stores.ports.quotas.addBudget({ id: "company", amount: 9_000_000 });
    const page = await open();
    await page.getByRole("button", { name: "Edit a/b" }).click();
    await page.getByLabel("Name").fill(EVIL);
    await page.getByRole("dialog").getByLabel("Budget").selectOption("company");
    await page.getByRole("dialog").getByLabel("Metadata").fill("plan=free,group=ops");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").filter({ hasText: "has several entries. Write one a line." }).waitFor();
    await page.getByRole("dialog").getByLabel("Metadata").fill("plan=free");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("a/b is changed.").waitFor();
    expect(await stores.ports.quotas.report("a/b")).toMatchObject({
      name: EVIL,
      budget: "company",
      metadata: { plan: "free" },
    });
    await rowOf(page, EVIL).waitFor();
    await press(page, "Add quota a/b");
    await page.getByLabel("Amount in USD").fill("0.5");
    await page.getByRole("dialog").getByRole("button", { name: "Add" }).click();
    await untilGranted(page, "1.50");
    await press(page, "New secret a/b");
    await page.getByLabel("The older secrets end").selectOption("at once");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await stores.ports.quotas.find("old")).toBeUndefined();
    await press(page, "Pause a/b");
    await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    await page.getByText("a/b is paused.").waitFor();
    await page.getByLabel("State").selectOption("paused");
    await rowOf(page, "paused").waitFor();
    expect(await stores.ports.quotas.report("a/b")).toMatchObject({ paused: true });
    await press(page, "Resume a/b");
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    await page.getByText("a/b works again.").waitFor();
    await page.getByText("There is no such key.").waitFor();
    expect(await stores.ports.quotas.report("a/b")).not.toHaveProperty("paused");
    await page.getByLabel("State").selectOption("");
    await press(page, "Revoke a/b");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("a/b is revoked.").waitFor();
    expect(await page.getByRole("button", { name: /a\/b/ }).count()).toBe(0);
    await page.getByRole("link", { name: "Changes" }).click();
    await rowOf(page, "Revoke key").waitFor();
    expect(await rowOf(page, "Add quota").locator(".note").allTextContents()).toEqual([
      "Amount: $0.50",
      "Granted before: $1.00",
    ]);
    expect(await rowOf(page, "New secret").locator(".note").allTextContents()).toEqual(["Older secrets end: at once"]);
    expect(await rowOf(page, "Name: ").textContent()).toContain("<img src=x");
    expect(await page.title()).not.toBe("taken");
    await page.close();
  });

  it("filters keys by their budget and metadata, under an address of its own, and offers budgets to a new key", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "company", name: "The company", amount: 9 });
    await quotas.add({ id: "one", budget: "company", metadata: { group: "a" } });
    await quotas.add({ id: "two", budget: "company", metadata: { group: "b" } });
    await quotas.add({ id: "three", metadata: { group: "a" } });
    const page = await open();
    await rowOf(page, "three").waitFor();
    await page.getByLabel("Budget").fill("company");
    await page.keyboard.press("Enter");
    await rowOf(page, "three").waitFor({ state: "detached" });
    await page.getByLabel("Metadata").fill("group=a");
    await page.keyboard.press("Enter");
    await rowOf(page, "two").waitFor({ state: "detached" });
    expect(await page.getByRole("row").count()).toBe(2);
    const { search } = new URL(page.url());
    expect(new URLSearchParams(search).get("metadata")).toBe("group=a");
    const linked = await open(search);
    await rowOf(linked, "one").waitFor();
    expect(await linked.getByRole("row").count()).toBe(2);
    await linked.close();
    await page.getByLabel("Metadata").fill("none");
    await page.keyboard.press("Enter");
    await page.getByText("must be written as name=text").waitFor();
    await page.getByRole("button", { name: "New key" }).click();
    const budget = page.getByRole("dialog").getByLabel("Budget");
    await budget.waitFor();
    expect(await budget.getByRole("option").allTextContents()).toEqual(["none", "company (The company)"]);
    await page.getByRole("button", { name: "Cancel" }).click();
    // Also budgets that somebody has made meanwhile.
    await quotas.addBudget({ id: "new", amount: 9 });
    await page.getByLabel("Metadata").fill("group=a");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Edit one" }).click();
    await budget.waitFor();
    expect(await budget.inputValue()).toBe("company");
    await budget.selectOption("new");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("one is changed.").waitFor();
    expect(await quotas.report("one")).toMatchObject({ budget: "new" });
    await page.getByRole("link", { name: "Budgets" }).click();
    await rowOf(page, "company").waitFor();
    await page.getByRole("button", { name: "New budget" }).click();
    const parent = page.getByLabel("Parent");
    await parent.waitFor();
    expect(await parent.getByRole("option").allTextContents()).toEqual(["none", "company (The company)", "new"]);
    await page.close();
  });

  it("takes a budget by its id or its name in each part, offers all of them, and refuses any other in words", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "b-1", name: "The Company", amount: 9_000_000 });
    await quotas.addBudget({ id: "b-2", name: "Twins", amount: 9_000_000, parent: "b-1" });
    await quotas.addBudget({ id: "b-3", name: "Twins", amount: 9_000_000 });
    for (const [id, budget] of [
      ["one", "b-1"],
      ["two", "b-2"],
      ["three", "b-3"],
    ] as const)
      await quotas.add({ id, apiKey: `sk-${id}`, budget, models: ["small"] });
    for (const id of ["one", "two", "three"]) await call(id, "large");
    for (const [address, shown] of [
      ["?part=keys", ["one"]],
      ["?part=spend&by=key", ["one", "two"]],
      ["?part=calls", ["one", "two"]],
    ] as const) {
      const page = await open(address);
      await rowOf(page, "three").waitFor();
      const budget = page.getByLabel("Budget", { exact: true });
      await page.locator("datalist option").nth(2).waitFor({ state: "attached" });
      expect(
        await budget.evaluate((field: HTMLInputElement) => Array.from(field.list?.options ?? [], (one) => one.value)),
      ).toEqual(["b-1", "b-2", "b-3"]);
      await budget.fill("the company");
      await page.keyboard.press("Enter");
      await rowOf(page, "three").waitFor({ state: "detached" });
      expect(await budget.inputValue()).toBe("b-1");
      expect(new URL(page.url()).searchParams.get("budget")).toBe("b-1");
      for (const id of shown) await rowOf(page, id).waitFor();
      expect(await page.locator("tbody tr").count()).toBe(shown.length);
      expect(await barriers(page)).toEqual([]);
      // An address takes the name, too.
      const named = await open(`${address}&budget=The Company`);
      await rowOf(named, "one").waitFor();
      expect(await named.locator("tbody tr").count()).toBe(shown.length);
      expect(await named.getByLabel("Budget", { exact: true }).inputValue()).toBe("b-1");
      expect(new URL(named.url()).searchParams.get("budget")).toBe("b-1");
      await named.goto(`${url}${address}&budget=Twins`);
      await named.getByText("No budget has the id Twins. Did you mean b-2, b-3?").first().waitFor();
      await named.close();
      // The wrong text stays in the field, to be mended.
      for (const [written, reason] of [
        ["nobody", "No budget has the id nobody."],
        ["twins", "No budget has the id twins. Did you mean b-2, b-3?"],
      ] as const) {
        await budget.fill(written);
        await page.keyboard.press("Enter");
        await page.getByText(reason).first().waitFor();
        expect(await page.getByRole("row").count()).toBe(0);
        expect(await budget.inputValue()).toBe(written);
      }
      await budget.fill("");
      await page.keyboard.press("Enter");
      await rowOf(page, "three").waitFor();
      await page.close();
    }
  });

  it("shows the name of a key's budget, and its id beside another name", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "red", name: "Team Red", amount: 9_000_000 });
    await quotas.addBudget({ id: "plain", amount: 9_000_000 });
    for (const [id, budget] of [
      ["ann", "red"],
      ["bob", "plain"],
    ] as const)
      await quotas.add({ id, budget });
    await quotas.add({ id: "cid" });
    const page = await open();
    const cell = (row: string, column: string): Locator => rowOf(page, row).locator(`[data-column^="${column}"]`);
    await cell("ann", "Budget").getByText("Team Red").waitFor();
    expect(await cell("ann", "Budget").innerText()).toMatch(/^Team Red\s+red$/);
    expect(await cell("ann", "Left").innerText()).toMatch(/in Team Red$/);
    expect(await cell("bob", "Budget").innerText()).toBe("plain");
    expect(await cell("cid", "Budget").innerText()).toBe("–");
    await page.close();
  });

  it("says that the tables are missing, and which command makes them", async () => {
    const page = await open();
    await page.getByText("There is no key yet.").waitFor();
    const message =
      'The store\'s tables are missing. Run "polygate keys migrate", or migrate(db), before the store is used.';
    await page.route(/\/budgets\?/, (route) => route.fulfill({ status: 503, json: { error: { message } } }));
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByRole("status").getByText(message).waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("There is no budget yet.").waitFor();
    expect(await page.getByRole("status").textContent()).toBe("");
    await page.close();
  });

  it("does not overwrite what another user has changed meanwhile", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    const page = await open();
    await page.getByRole("button", { name: "Edit team-a" }).click();
    await page.getByLabel("Name").fill("Mine");
    await stores.ports.quotas.update("team-a", { name: "Theirs" });
    await page.getByRole("button", { name: "Save" }).click();
    await page
      .getByText("The API key team-a has been changed meanwhile. To see the change, cancel, and open")
      .waitFor();
    expect((await stores.ports.quotas.report("team-a"))?.name).toBe("Theirs");
    await page.close();
  });

  it("makes, changes, tops up and removes a budget", async () => {
    const page = await open("?part=changes", { timezoneId: "Asia/Tokyo", locale: "en-US" });
    await page.getByText("This admin has changed nothing yet.").waitFor();
    await page.getByRole("link", { name: "Budgets" }).click();
    await page.getByRole("button", { name: "New budget" }).click();
    await page.getByLabel("Id").fill("team-a");
    await page.getByLabel("Amount in USD").fill("100");
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByRole("button", { name: "Create" }).click();
    await rowOf(page, "team-a").waitFor();
    expect(await stores.ports.quotas.budgetReport("team-a")).toMatchObject({
      amount: 100_000_000,
      period: "month",
      timeZone: "Europe/Berlin",
    });
    for (const [id, parent, timeZone] of [
      ["below", "team-a", "Europe/Berlin"],
      ["alone", "", "Asia/Tokyo"],
    ] as const) {
      await page.getByRole("button", { name: "New budget" }).click();
      await page.getByLabel("Id").fill(id);
      await page.getByLabel("Amount in USD").fill("1");
      await page.getByLabel("Parent").selectOption(parent);
      await page.getByRole("button", { name: "Create" }).click();
      await rowOf(page, id).waitFor();
      expect(await stores.ports.quotas.budgetReport(id)).toMatchObject({ timeZone });
      await stores.ports.quotas.removeBudget(id);
    }
    // Midnight in Berlin, wherever the browser is.
    expect(await rowOf(page, "team-a").textContent()).toMatch(/ 1, 20\d\d, 12:00\sAMEurope\/Berlin/);
    await page.getByRole("button", { name: "Top up team-a" }).click();
    // No amount of which nothing would be left.
    await page.getByLabel("Amount in USD").fill("0.0000001");
    await page.getByRole("dialog").getByRole("button", { name: "Top up" }).click();
    await page.getByRole("alert").filter({ hasText: "not 0.0000001." }).waitFor();
    await page.getByLabel("Amount in USD").fill("20");
    // The second click comes before the answer to the first, and adds nothing more.
    await clickedTwice(page, page.getByRole("dialog").getByRole("button", { name: "Top up" }), /\/top-up$/);
    await untilGranted(page, "120.00");
    await page.getByRole("button", { name: "Edit team-a" }).click();
    expect(await page.getByLabel("Amount in USD").inputValue()).toBe("100");
    await page.getByLabel("Name").fill("The first team");
    await page.getByLabel("Amount in USD").fill("50");
    await page.getByRole("button", { name: "Save" }).click();
    await untilGranted(page, "70.00");
    await press(page, "Take team-a");
    await page.getByLabel("Amount in USD").fill("20");
    await page.getByRole("dialog").getByRole("button", { name: "Take" }).click();
    await untilGranted(page, "50.00");
    await press(page, "Remove team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("There is no budget yet.").waitFor();
    await page.getByRole("link", { name: "Changes" }).click();
    await rowOf(page, "Remove budget").waitFor();
    const ofTeam = page.getByRole("row").filter({ has: page.getByText("team-a", { exact: true }) });
    expect(await ofTeam.filter({ hasText: "New budget" }).locator(".note").allTextContents()).toEqual([
      "Amount: $100.00",
      "Begins anew: each month",
      "Time zone: Europe/Berlin",
    ]);
    expect(await rowOf(page, "Top up budget").locator(".note").allTextContents()).toEqual([
      "Amount: $20.00",
      "Granted before: $100.00",
    ]);
    expect(await rowOf(page, "Edit budget").locator(".note").allTextContents()).toEqual([
      "Name: from team-a to The first team",
      "Amount: from $100.00 to $50.00",
    ]);
    await page.close();
  });

  it("finds changes by user, operation, id and day, under an address of its own, also on a phone and with the keyboard", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "team-a" });
    await quotas.addBudget({ id: "company", amount: 1 });
    for (const [method, path, body] of [
      ["PATCH", "/keys/team-a", { paused: true }],
      ["PUT", "/keys/team-a/budget", { budget: "company" }],
      ["PATCH", "/budgets/company", { amount: 2_000_000 }],
    ] as const) {
      const headers = { "content-type": "application/json" };
      await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(body) });
    }
    const page = await open("?part=changes", { viewport: { width: 390, height: 844 }, locale: "en-US" });
    await rowOf(page, "Edit budget").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(3);
    expect(await barriers(page)).toEqual([]);
    expect(await isWiderThanScreen(page)).toBe(false);
    await unfold(page);
    await page.getByLabel("User").focus();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    await page.keyboard.type("team-a");
    await page.keyboard.press("Enter");
    await rowOf(page, "Edit budget").waitFor({ state: "detached" });
    expect(await page.locator("tbody tr").count()).toBe(2);
    await page.getByRole("combobox", { name: "Change" }).selectOption("Set budget of key");
    await rowOf(page, "Edit key").waitFor({ state: "detached" });
    expect(await rowOf(page, "Set budget").locator(".note").allTextContents()).toEqual([
      "Budget: from none to company",
    ]);
    expect(new URL(page.url()).search).toBe("?part=changes&action=keys.assign-budget&target=team-a");
    const today = await page.evaluate(() => new Intl.DateTimeFormat("sv").format(Date.now()));
    const linked = await open(`${new URL(page.url()).search}&since=${today}&until=${today}`, { locale: "en-US" });
    await rowOf(linked, "Set budget").waitFor();
    expect(await linked.getByLabel("Of", { exact: true }).inputValue()).toBe("team-a");
    await linked.getByLabel("User").fill("nobody");
    await linked.keyboard.press("Enter");
    await linked.getByText("No change matches. A user and an id match as a whole.").waitFor();
    await linked.getByRole("link", { name: "Changes" }).click();
    await rowOf(linked, "Edit budget").waitFor();
    await linked.close();
    const wrong = await open("?part=changes&action=keys.updat&since=7d", { locale: "en-US" });
    await wrong.getByText("From must be a day, such as 2026-11-01, not 7d.").waitFor();
    await wrong.getByRole("textbox", { name: "From" }).fill("");
    await wrong.keyboard.press("Enter");
    await wrong.getByText("Did you mean keys.update?").waitFor();
    expect(await wrong.getByRole("row").count()).toBe(0);
    await wrong.close();
    await page.close();
  });

  it("asks for each change of an amount what the server asks, in amounts of units", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "ann", apiKey: "sk-ann" });
    await call("ann", "small");
    await quotas.add({ id: "bob", granted: 5_000_000 });
    await quotas.addBudget({ id: "red", amount: 5_000_000 });
    const page = await openIn("EUR");
    const dialog = page.getByRole("dialog");
    const change = async (opener: string, label: string, button: string, done: string): Promise<void> => {
      await press(page, opener);
      await dialog.getByLabel(label).fill("500");
      await dialog.getByRole("button", { name: button }).click();
      const words = `A unit is a millionth of USD: 500 units would be only 0.0005 USD. 500 USD would be 500000000 units.`;
      await dialog.getByRole("alert").getByText(words).getByText(`choose ${button} again.`).waitFor();
      expect(await quotas.report("bob")).toMatchObject({ granted: 5_000_000 });
      expect(await quotas.budgetReport("red")).toMatchObject({ amount: 5_000_000, granted: 5_000_000 });
      await dialog.getByRole("button", { name: done }).click();
    };
    await change("Edit ann", "Quota from now on in units", "Save", "Cancel");
    for (const verb of ["Add", "Take"]) await change(`${verb} quota bob`, "Amount in units", verb, "Cancel");
    await page.getByRole("link", { name: "Budgets" }).click();
    await change("Top up red", "Amount in units", "Top up", "Cancel");
    await change("Take red", "Amount in units", "Take", "Take");
    await page.getByText("red has less.").waitFor();
    expect(await quotas.budgetReport("red")).toMatchObject({ granted: 4_999_500 });
    await page.close();
  });

  it("asks once more for a top-up that is larger than what its budget was given", async () => {
    await stores.ports.quotas.addBudget({ id: "team-a", amount: 50_000 });
    const page = await open("?part=budgets", { locale: "en-US" });
    await page.getByRole("button", { name: "Top up team-a" }).click();
    const topUp = page.getByRole("dialog").getByRole("button", { name: "Top up" });
    const granted = async (): Promise<number | undefined> =>
      (await stores.ports.quotas.budgetReport("team-a"))?.granted;
    for (const [amount, words] of [
      ["500", "$500.00 is 10,000 times what this budget was given so far, $0.05. To add it, choose Top up again."],
      ["0.06", "$0.06 is more than what this budget was given so far, $0.05."],
    ] as const) {
      await page.getByLabel("Amount in USD").fill(amount);
      await topUp.click();
      await page.getByRole("alert").getByText(words).waitFor();
      expect(await granted()).toBe(50_000);
    }
    await topUp.click();
    await page.getByText("team-a is topped up.").waitFor();
    expect(await granted()).toBe(110_000);
    await page.close();
  });

  it("asks once more for a first amount that looks like units", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "open" });
    const page = await open("", { locale: "en-US" });
    const question = (again: string) =>
      page
        .getByRole("alert")
        .getByText(
          `$50,000,000.00 is a large first amount. A unit is a millionth: as units, 50,000,000 is only $50.00. ${again}`,
        )
        .waitFor();
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("dora");
    await page.getByLabel("Quota in USD").fill("50000000");
    await page.getByRole("button", { name: "Create" }).click();
    await question("To make the key, choose Create again.");
    expect(await quotas.report("dora")).toBeUndefined();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await quotas.report("dora")).toMatchObject({ granted: 50_000_000_000_000 });
    await page.getByRole("button", { name: "Edit open" }).click();
    await page.getByLabel("Quota from now on in USD").fill("50000000");
    await page.getByRole("button", { name: "Save" }).click();
    await question("To save it, choose Save again.");
    expect(await quotas.report("open")).toMatchObject({ unlimited: true });
    await page.goto(`${url}?part=budgets`);
    await page.getByRole("button", { name: "New budget" }).click();
    await page.getByLabel("Id").fill("green");
    await page.getByLabel("Amount in USD").fill("50000000");
    await page.getByRole("button", { name: "Create" }).click();
    await question("To make the budget, choose Create again.");
    expect(await quotas.budgetReport("green")).toBeUndefined();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByText("green is made.").waitFor();
    await page.close();
  });

  it("asks once more for an edit that more than doubles the amount of a budget", async () => {
    await stores.ports.quotas.addBudget({ id: "team-a", amount: 110_000_000 });
    const amountNow = async (): Promise<number | undefined> =>
      (await stores.ports.quotas.budgetReport("team-a"))?.amount;
    const page = await open("?part=budgets", { locale: "en-US" });
    const edit = async (amount: string): Promise<void> => {
      await page.getByRole("button", { name: "Edit team-a" }).click();
      await page.getByLabel("Amount in USD").fill(amount);
      await page.getByRole("button", { name: "Save" }).click();
    };
    await edit("11000000");
    const words = "$11,000,000.00 is 100,000 times the amount of this budget, $110.00. To set it, choose Save again.";
    await page.getByRole("alert").getByText(words).waitFor();
    expect(await amountNow()).toBe(110_000_000);
    await page.getByRole("button", { name: "Cancel" }).click();
    // Another dialog asks anew.
    await edit("11000000");
    await page.getByRole("alert").getByText(words).waitFor();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("team-a is changed.").waitFor();
    expect(await amountNow()).toBe(11_000_000_000_000);
    // An amount up to the double, and down to the tenth, are saved at once.
    for (const amount of ["22000000", "2200000"]) {
      await edit(amount);
      await page.getByRole("dialog").waitFor({ state: "detached" });
      expect(await amountNow()).toBe(Number(amount) * 1_000_000);
    }
    await page.close();
  });

  it("asks once more for an edit that takes nearly all of a budget, or all that is left of it", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team-a", amount: 300_000_000, period: "month" });
    await quotas.add({ id: "ann", apiKey: "sk-ann", budget: "team-a" });
    await quotas.reserve({ id: "spent", keyId: "ann", atLeast: 50_000_000, atMost: 50_000_000, leaseMs: 60_000 });
    await quotas.settle("spent", { used: 50_000_000, certainty: "exact" });
    await quotas.addBudget({ id: "team-b", amount: 300_000_000 });
    const page = await open("?part=budgets", { locale: "en-US" });
    for (const [id, amount, words] of [
      [
        "team-a",
        "50",
        "With $50.00, nothing is left of this budget, which has used $50.00: its calls are refused until the next period begins, or the budget gets more.",
      ],
      [
        "team-b",
        "0.01",
        "$0.01 is less than a tenth of the amount of this budget, $300.00. When it is used up, calls are refused until the budget gets more.",
      ],
    ] as const) {
      await page.getByRole("button", { name: `Edit ${id}` }).click();
      await page.getByLabel("Amount in USD").fill(amount);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("alert").getByText(`${words} To set it, choose Save again.`).waitFor();
      expect((await quotas.budgetReport(id))?.amount).toBe(300_000_000);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText(`${id} is changed.`).waitFor();
      expect((await quotas.budgetReport(id))?.amount).toBe(Number(amount) * 1_000_000);
    }
    await page.close();
  });

  it("asks once more for metadata that a gateway does not read by its name, and takes no day that is over", async () => {
    const { quotas } = stores.ports;
    const page = await open("", { locale: "en-US" });
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id", { exact: true }).fill("ann");
    await page.getByLabel("Metadata").last().fill("teir=gold");
    await page.getByLabel("Expires on").fill("2020-05-17");
    const create = page.getByRole("button", { name: "Create" });
    await create.click();
    await page
      .getByRole("alert")
      .getByText("Expires on: May 17, 2020 is over. Choose today or a later day. To stop a key, pause it.")
      .waitFor();
    await page.getByLabel("Expires on").fill("2120-05-17");
    const words = "A gateway reads the metadata tier and group by itself, not teir. Did you mean tier?";
    await create.click();
    await page.getByRole("alert").getByText(`${words} To make the key, choose Create again.`).waitFor();
    expect(await quotas.report("ann")).toBeUndefined();
    await create.click();
    await page.getByRole("button", { name: "I have it" }).click();
    expect(await quotas.report("ann")).toMatchObject({ metadata: { teir: "gold" } });
    // An edit asks for new names alone.
    for (const [added, question] of [
      ["plan=a", undefined],
      ["Group=a", words.replace("teir", "Group").replace("mean tier", "mean group")],
    ] as const) {
      await page.getByRole("button", { name: "Edit ann" }).click();
      const metadata = page.getByRole("dialog").getByRole("textbox", { name: "Metadata" });
      await metadata.fill(`${await metadata.inputValue()}\n${added}`);
      await page.getByRole("button", { name: "Save" }).click();
      if (question !== undefined) {
        await page.getByRole("alert").getByText(`${question} To save it, choose Save again.`).waitFor();
        await page.getByRole("button", { name: "Save" }).click();
      }
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    expect(await quotas.report("ann")).toMatchObject({ metadata: { teir: "gold", plan: "a", Group: "a" } });
    await page.close();
  });

  it("says what refuses an amount in the currency of the page, in dialogs and in the log of changes", async () => {
    await stores.ports.quotas.addBudget({ id: "gg", amount: 893_574 });
    await stores.ports.quotas.add({ id: "zoe", apiKey: "sk-zoe", granted: 10_000_000 });
    const page = await open("?part=budgets", { locale: "en-US" });
    const refuse = async (button: string, amount: string, action: string, words: RegExp): Promise<void> => {
      await press(page, button);
      await page.getByLabel(/^Amount in/).fill(amount);
      const confirm = page.getByRole("dialog").getByRole("button", { name: action });
      await confirm.click();
      const failure = page.getByRole("alert");
      // A large amount is asked for twice.
      await failure.getByText(/\.$/).waitFor();
      if (await failure.getByText("again.").count()) await confirm.click();
      await failure.filter({ hasNotText: "again." }).waitFor();
      expect(await failure.textContent()).toMatch(words);
      await page.getByRole("button", { name: "Cancel" }).click();
    };
    const tooFew = /^The budget gg has only \$0\.893574 available\.$/;
    // The most units are 2^53 - 1, of which a number has no more than five exact decimals.
    const tooMany = /^The granted amount of the budget gg would be beyond \$9,007,199,254\.74099\d\.$/;
    await refuse("Take gg", "500", "Take", tooFew);
    await refuse("Top up gg", "9007199254", "Top up", tooMany);
    await page.getByRole("link", { name: "Keys" }).click();
    const ofKey = /^The key zoe has only \$10\.00 available\.$/;
    await refuse("Take quota zoe", "300", "Take", ofKey);
    await page.getByRole("link", { name: "Changes" }).click();
    for (const [change, words] of [
      ["Take from budget", tooFew],
      ["Top up budget", tooMany],
      ["Take quota", ofKey],
    ] as const)
      await rowOf(page, change).getByText(words).waitFor();
    await page.close();
    // Without a currency, the amounts are units.
    const plain = await openIn(undefined, "?part=changes");
    await rowOf(plain, "Take quota").getByText("The key zoe has only 10,000,000 units available.").waitFor();
    await plain.close();
  });

  it("asks once more for an amount that is larger than the quota it is added to", async () => {
    const granted = async () => (await stores.ports.quotas.report("poor"))?.granted;
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 5_000_000 });
    const page = await open("?part=keys", { locale: "en-US" });
    await press(page, "Add quota poor");
    const add = page.getByRole("dialog").getByRole("button", { name: "Add" });
    await page.getByLabel("Amount in USD").fill("500");
    await add.click();
    const words = "$500.00 is 100 times what this key was granted so far, $5.00. To add it, choose Add again.";
    await page.getByRole("alert").getByText(words).waitFor();
    await page.getByLabel("Amount in USD").fill("5.01");
    await add.click();
    await page.getByRole("alert").getByText("$5.01 is more than what this key was granted so far, $5.00.").waitFor();
    expect(await granted()).toBe(5_000_000);
    await add.click();
    await page.getByText("The quota of poor is changed.").waitFor();
    expect(await granted()).toBe(10_010_000);
    // An amount up to the quota, and one that is taken, are not asked for twice.
    for (const [button, action, left] of [
      ["Add quota poor", "Add", 20_010_000],
      ["Take quota poor", "Take", 10_010_000],
    ] as const) {
      await press(page, button);
      await page.getByLabel("Amount in USD").fill("10");
      await page.getByRole("dialog").getByRole("button", { name: action }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      expect(await granted()).toBe(left);
    }
    await page.close();
  });

  it("shows the periods of a budget that have ended, the latest first, and gives them as CSV", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "team/a", name: EVIL, amount: 5_000_000, period: "month", timeZone: "Europe/Berlin" });
    await quotas.addBudget({ id: "new", amount: 5_000_000, period: "day" });
    await quotas.addBudget({ id: "once", amount: 5_000_000 });
    await quotas.add({ id: "ann", apiKey: "sk-ann", budget: "team/a" });
    await call("ann", "small");
    const rows = new DatabaseSync(database);
    const put = rows.prepare(
      "INSERT INTO polygate_budget_periods (budget_id,starts_at,ends_at,pruned,granted,charged,held,overdraft,estimated) VALUES (?,?,?,0,?,?,0,?,0)",
    );
    const [september, october, november] = ["09-01T00:00+02:00", "10-01T00:00+02:00", "11-01T00:00+01:00"].map((time) =>
      Date.parse(`2020-${time}`),
    ) as [number, number, number];
    put.run("team/a", september, october, 5_000_000, 1_250_000, 0);
    put.run("team/a", october, november, 6_000_000, 6_000_000, 1_500_000);
    rows.close();
    const page = await open("?part=budgets", { locale: "en-US", timezoneId: "Asia/Tokyo" });
    await rowOf(page, "once").waitFor();
    expect(await page.getByRole("link", { name: /^Earlier periods/ }).allTextContents()).toEqual([
      "Earlier periods of new",
      "Earlier periods of team/a",
    ]);
    // By the keyboard, which goes on at the heading.
    await page.getByRole("link", { name: "Earlier periods of team/a" }).focus();
    await page.keyboard.press("Enter");
    await rowOf(page, "October 2020").waitFor();
    await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe(`Periods of ${EVIL}`);
    expect(await barriers(page)).toEqual([]);
    expect(await page.locator("thead th").allTextContents()).toEqual([
      "Period",
      "Granted (USD)",
      "Spent (USD)",
      "Available (USD)",
    ]);
    const texts = (await page.locator("tbody tr").allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "));
    expect(texts.at(-3)).toMatch(/ 20\d\d current Spend .*5\.00 0\.0000/);
    expect(texts.slice(-2)).toEqual([
      expect.stringMatching(/^October 2020 Spend .*6\.00 7\.50 1\.50 overdrawn 125% of granted 0\.00 nothing left$/),
      expect.stringMatching(/^September 2020 Spend .*5\.00 1\.25 25% of granted 3\.75$/),
    ]);
    await page.getByText("A period in which no call came and nobody changed the budget is not listed.").waitFor();
    await page.getByLabel("CSV for").selectOption("programs");
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "CSV" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("periods-team_a.csv");
    expect(await readFile(await download.path(), "utf8")).toMatch(
      /^id,name,granted,spent,.*\r\nteam\/a,[^\r]*,6\.000000,7\.500000,[^\r]*\r\nteam\/a,[^\r]*,5\.000000,1\.250000,/s,
    );
    // The calls behind a period.
    await page.getByRole("link", { name: "Spend of team/a, October 2020" }).click();
    await page.getByText("No call is recorded in these days.").waitFor();
    expect(await daysOf(page)).toEqual(["2020-10-01", "2020-10-31"]);
    await page.goBack();
    await rowOf(page, "September 2020").waitFor();
    await page.getByRole("link", { name: "All budgets" }).click();
    await rowOf(page, "once").waitFor();
    await page.getByRole("link", { name: "Earlier periods of new" }).click();
    await page.getByText("No listed period has ended yet.").waitFor();
    // An address may name no budget, and the store may be away.
    await page.goto(`${url}?part=budgets&periods=none`);
    await page.getByText("There is no budget of the id none.").waitFor();
    expect(await page.getByRole("row").count()).toBe(0);
    await page.route(/\/periods/, (route) => route.fulfill({ status: 503, body: "" }));
    await page.goto(`${url}?part=budgets&periods=new`);
    await page.getByText("This could not be loaded.").waitFor();
    await page.unrouteAll();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("No listed period has ended yet.").waitFor();
    expect(await page.title()).not.toBe("taken");
    await page.close();
  });

  it("goes on with earlier periods, and shows weeks and days by their dates", async () => {
    await stores.ports.quotas.addBudget({ id: "daily", amount: 5, period: "day" });
    await stores.ports.quotas.addBudget({ id: "weekly", amount: 5, period: "week" });
    const rows = new DatabaseSync(database);
    const put = rows.prepare(
      "INSERT INTO polygate_budget_periods (budget_id,starts_at,ends_at,pruned,granted,charged,held,overdraft,estimated) VALUES (?,?,?,0,5,1,0,0,0)",
    );
    const day = 86_400_000;
    for (let at = 0; at < 120; at++) put.run("daily", (18_000 + at) * day, (18_001 + at) * day);
    put.run("weekly", Date.parse("2020-10-05"), Date.parse("2020-10-12"));
    rows.close();
    const page = await open("?part=budgets&periods=daily", { locale: "en-US" });
    await rowOf(page, "Aug 11, 2019").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(100);
    await clickedTwice(page, page.getByRole("button", { name: "Earlier periods" }), /\/periods\?/);
    await rowOf(page, "Apr 14, 2019").waitFor();
    expect(await page.locator("tbody tr").count()).toBe(121);
    expect(await page.getByRole("button", { name: "Earlier periods" }).count()).toBe(0);
    await page.goto(`${url}?part=budgets&periods=weekly`);
    await rowOf(page, "Oct 5 – 11, 2020").waitFor();
    await page.close();
  });

  it("finds a budget among many by a part of its id or name", async () => {
    for (const [id, name] of [
      ["team-a", "Alpha"],
      ["team-b", "Beta"],
      ["other", "Gamma of Team A"],
    ] as const)
      await stores.ports.quotas.addBudget({ id, name, amount: 5 });
    const page = await open("?part=budgets");
    await rowOf(page, "other").waitFor();
    await page.getByLabel("Find").fill("team");
    await page.keyboard.press("Enter");
    await page.getByText("3 of 3 budgets are shown.").waitFor();
    await page.getByLabel("Find").fill("ALPHA");
    await page.keyboard.press("Enter");
    await page.getByText("1 of 3 budgets are shown.").waitFor();
    expect(await page.locator("tbody .id").allTextContents()).toEqual(["team-a"]);
    const linked = await open(new URL(page.url()).search);
    await linked.getByText("1 of 3 budgets are shown.").waitFor();
    await linked.close();
    await page.getByLabel("Find").fill("none");
    await page.keyboard.press("Enter");
    await page.getByText("There is no such budget.").waitFor();
    await page.close();
  });

  it("shows the health of the gateway", async () => {
    const page = await open("?part=health");
    await page
      .getByText("Of the process that has answered. Where several run, each has a health of its own.")
      .waitFor();
    await rowOf(page, "large").waitFor();
    expect(await rowOf(page, "primary").allTextContents()).toEqual(["primarylargeopen12 s–", "primary*open12 s–"]);
    expect(await rowOf(page, "refusing 1").textContent()).toMatch(
      /^refusing 1\*closedCalls still go to it\.–answers no call model_not_foundThe upstream does not have the model\.\s*1,200 failed calls by refusing 1 since .*Correct the model in the routes,/,
    );
    expect(await rowOf(page, "refusing 2").textContent()).toMatch(
      /invalid_requestA field of the request has a wrong value\..*All calls were of one key, and may be the cause\.\s*The callers must change their requests\.$/s,
    );
    expect(await rowOf(page, "misdirected").textContent()).toMatch(
      /^misdirected\*closedCalls still go to it\.–backend_failed\s*The last call failed: .*Check the baseUrl\.$/s,
    );
    // A sentence is not broken while there is room.
    const remedy = await page.getByText("Correct the model in the routes,").boundingBox();
    expect(remedy?.height).toBeLessThan(45);
    // None of them is green, as the gateway is.
    const [good] = await coloursIn(page.locator(".facts"));
    const states = await Promise.all(
      ["refusing 1", "refusing 2", "misdirected"].map((row) => coloursIn(rowOf(page, row))),
    );
    expect(new Set([good, ...states.flat()]).size).toBe(4);
    expect(states.flat()).not.toContain(good);
    const facts = (await page.locator(".facts").innerText()).split("\n").filter((line) => line !== "");
    expect(facts).toEqual([
      "Gateway",
      "ready",
      "Running calls",
      "3",
      "Ended calls, not charged yet",
      "0",
      "Quota store",
      "resting The store has hung several times in a row.",
    ]);
    // Each look says its time, also when it finds nothing new.
    const time = page.getByRole("status").locator("time");
    const first = await time.getAttribute("datetime");
    await page.getByRole("button", { name: "Look again" }).click();
    await expect.poll(() => time.getAttribute("datetime")).not.toBe(first);
    expect(await barriers(page)).toEqual([]);
    await page.getByRole("link", { name: "1,200 failed calls by refusing 1" }).click();
    await page.waitForURL("**?part=calls&upstream=refusing+1&since=2026-11-05&end=refused,failed,deadline,shutdown");
    await page.getByText("No such call is recorded.").waitFor();
    expect(await page.getByLabel("Outcome").inputValue()).toBe("refused,failed,deadline,shutdown");
    await page.close();
  });

  it("says on a host without records of calls why it has neither spend nor refusals", async () => {
    const page = await browser.newPage();
    const me = { name: "ann", readOnly: false, budgets: true, health: true, live: true, calls: false };
    await page.route(/\/me$/, (route) => route.fulfill({ json: me }));
    await open("?part=live", {}, page);
    await page.getByText("This admin has no records of calls, and so neither Spend nor Calls").waitFor();
    expect(await page.getByRole("link", { name: "Spend" }).count()).toBe(0);
    // Nothing asks for the models of calls.
    await page.getByRole("link", { name: "Keys" }).click();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByRole("dialog").waitFor();
    expect(asked.filter((address) => address.includes("/usage"))).toEqual([]);
    await page.close();
  });

  it("lets a user who may only look change nothing, and tells a stranger why", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    hint = "Install kysely.";
    const own = await open("?part=budgets");
    await own.getByText(hint).waitFor();
    await own.close();
    user = { name: "reader", readOnly: true };
    const page = await open("?part=budgets");
    await page.getByText("There is no budget yet.", { exact: true }).waitFor();
    expect(await page.getByText(hint).count()).toBe(0);
    await page.getByRole("link", { name: "Keys" }).click();
    await rowOf(page, "team-a").waitFor();
    expect(await page.getByRole("button").allTextContents()).toEqual(["CSV"]);
    expect(await page.getByRole("columnheader", { name: "Change" }).count()).toBe(0);
    user = undefined;
    await page.getByLabel("State").selectOption("active");
    await page.getByText("You are not logged in.").waitFor();
    await page.close();
    const response = await fetch(url);
    expect([response.status, await response.text()]).toEqual([401, expect.stringContaining("not_logged_in")]);
  });

  it.each([
    [1280, 900],
    [390, 500],
  ])("shows the buttons of its longest dialog at %i × %i, below fields that scroll", async (width, height) => {
    const page = await open("", { viewport: { width, height } });
    await page.getByRole("button", { name: "New key" }).click();
    const create = page.getByRole("dialog").getByRole("button", { name: "Create" });
    const isInSight = (): Promise<boolean> =>
      create.evaluate((button) => {
        const { left, right, top, bottom } = button.getBoundingClientRect();
        const isAtPoint = (y: number): boolean => button.contains(document.elementFromPoint((left + right) / 2, y));
        return isAtPoint(top + 4) && isAtPoint(bottom - 4);
      });
    expect(await isInSight()).toBe(true);
    // The last field is above the buttons, also for the keyboard.
    const last = page.getByRole("dialog").locator(".field :is(input, select, textarea)").last();
    await last.focus();
    const gap = await last.evaluate((field) => {
      const buttons = field.closest("form")?.querySelector(".buttons");
      return (buttons?.getBoundingClientRect().top ?? 0) - field.getBoundingClientRect().bottom;
    });
    expect(gap).toBeGreaterThanOrEqual(0);
    expect(await isInSight()).toBe(true);
    await page.close();
  });

  it("is worth nothing to whoever finds it open after its session", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    await stores.ports.quotas.addBudget({ id: "company", amount: 1, period: "month" });
    const page = await open();
    await rowOf(page, "team-a").waitFor();
    user = undefined;
    await press(page, "Revoke team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("You are not logged in.").waitFor();
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({ revoked: false });
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await page.getByRole("row").count()).toBe(0);
    for (const part of ["Budgets", "Spend", "Calls", "Live", "Health", "Changes", "Keys"]) {
      await page.getByRole("link", { name: part, exact: true }).click();
      await page.locator("nav [aria-current]", { hasText: part }).waitFor();
      await page.getByText("You are not logged in.").waitFor();
      expect([part, await page.getByRole("row").count()]).toEqual([part, 0]);
    }
    await page.goto("about:blank");
    await page.goBack();
    await page.waitForURL("**/login?from=admin&next=%2Fadmin%3Fpart%3Dkeys");
    expect(await page.getByRole("heading").count()).toBe(0);
    await page.close();
  });

  it("keeps a dialog whose session has ended, with the login at its buttons, and goes on after it", async () => {
    const page = await open("?part=keys", { viewport: { width: 1280, height: 900 } });
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel("Id").fill("team-a");
    await page.getByRole("dialog").getByLabel("Metadata").fill("plan=gold");
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByRole("link").count()).toBe(0);
    user = undefined;
    await page.getByRole("button", { name: "Create" }).click();
    await dialog.getByRole("alert").filter({ hasText: "You are not logged in." }).waitFor();
    const link = dialog.getByRole("link", { name: "Log in, in a new tab" });
    expect(await link.getAttribute("href")).toBe("/login?from=admin&next=%2Fadmin%3Fpart%3Dkeys");
    for (const one of [dialog.getByRole("alert"), link])
      expect(
        await one.evaluate((element) => {
          const { left, top, height } = element.getBoundingClientRect();
          return element.contains(document.elementFromPoint(left + 4, top + height / 2));
        }),
      ).toBe(true);
    expect(await barriers(page)).toEqual([]);
    const [opened] = await Promise.all([page.waitForEvent("popup"), link.click()]);
    await opened.close();
    user = { name: "ann" };
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await rowOf(page, "plan=gold").waitFor();
    // Also a choice stays.
    await press(page, "New secret team-a");
    await page.getByLabel("The older secrets end").selectOption("in a week");
    user = undefined;
    await page.getByRole("button", { name: "Make it" }).click();
    await link.waitFor();
    expect(await page.getByLabel("The older secrets end").inputValue()).toBe("604800000");
    user = { name: "ann" };
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("button", { name: "I have it" }).click();
    await page.close();
  });

  it("takes a 401 of a proxy for the end of the session, and a 403 for what may be its end", async () => {
    const page = await open();
    for (const [status, words] of [
      [403, "The login of this server does not let you do this, or your session has ended: it has answered with 403."],
      [401, "You are not logged in any more."],
    ] as const) {
      await page.route(/\/keys$/, (route) => route.fulfill({ status, contentType: "text/html", body: "<h1>No</h1>" }));
      const dialog = page.getByRole("dialog");
      await page.getByRole("button", { name: "New key" }).click();
      await dialog.getByRole("button", { name: "Create" }).click();
      await dialog.getByRole("alert").getByText(words, { exact: true }).waitFor();
      expect(await dialog.getByRole("link", { name: "Log in" }).count()).toBe(status === 401 ? 1 : 0);
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await page.unrouteAll();
    }
    expect(await page.getByRole("banner").textContent()).toContain("not logged in");
    await page.close();
  });

  it("shows the user of another login in the same browser after a change, after a return and after a new login", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    const page = await open();
    const shows = (name: string): Promise<void> => page.getByRole("banner").getByText(name, { exact: true }).waitFor();
    const create = page.getByRole("button", { name: "New key" });
    const pause = async (): Promise<void> => {
      await press(page, "Pause team-a");
      await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
    };
    const comeBack = (): Promise<boolean> => page.evaluate(() => dispatchEvent(new Event("focus")));
    await shows("ann");
    user = { name: "bob" };
    await pause();
    await shows("bob");
    await page.getByText("team-a is paused.").waitFor();
    user = { name: "reader", readOnly: true };
    await press(page, "Revoke team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("You may not change anything.").waitFor();
    await shows("reader (read-only)");
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await create.count()).toBe(0);
    user = { name: "ann" };
    await comeBack();
    await shows("ann");
    await create.waitFor();
    user = undefined;
    await comeBack();
    await page.getByRole("status").getByText("You are not logged in.").waitFor();
    expect(await page.getByRole("row").count()).toBe(0);
    user = { name: "bob" };
    await page.getByRole("link", { name: "Budgets" }).click();
    await shows("bob");
    await page.close();
  });

  it("shows the way back to a user whose session has ended, and says what could not be loaded", async () => {
    const page = await open();
    await page.getByText("There is no key yet.").waitFor();
    const { href } = new URL(url);
    expect(await page.getByRole("link", { name: "Log out" }).getAttribute("href")).toBe("https://sso.example/logout");
    expect(await page.getByRole("button", { name: "Load again" }).count()).toBe(0);
    user = undefined;
    await page.getByRole("link", { name: "Spend" }).click();
    await page.getByText("You are not logged in.").waitFor();
    // The login leads back to the report as it is chosen now, and stands first.
    const here = new URL(page.url());
    expect(here.search).toMatch(/^\?part=spend&by=group&since=/);
    expect(await page.locator(".way-back > *").allTextContents()).toEqual(["Log in", "Load again"]);
    expect(await page.getByRole("link", { name: "Log in" }).getAttribute("href")).toBe(
      `/login?from=admin&next=${encodeURIComponent(here.pathname + here.search)}`,
    );
    expect(await page.getByRole("banner").textContent()).not.toContain("ann");
    expect(await page.getByRole("banner").textContent()).toContain("not logged in");
    expect(await page.getByRole("link", { name: "Log out" }).count()).toBe(0);
    expect(await page.getByText("Loading…").count()).toBe(0);
    expect(await page.getByText("This could not be loaded.").count()).toBe(1);
    expect(await barriers(page)).toEqual([]);
    user = { name: "ann" };
    await page.getByRole("button", { name: "Load again" }).click();
    await page.getByText("No call is recorded in these days.").waitFor();
    expect(page.url()).toContain(`${href}?part=spend&by=`);
    await page.close();
    expect(problems).toEqual([]);
  });

  it.each([
    "//evil.example",
    "/\\evil.example",
    "/\t/evil.example",
    "javascript:alert(1)",
    "login",
    "ftp://host/",
    "http://",
  ])("takes no link to %j", (address) => {
    const message = "must be a path, such as /login, or an absolute http or https address.";
    for (const name of ["loginUrl", "logoutUrl"])
      expect(() => pageIn(pathToFileURL("/"), { [name]: address })).toThrow(`adminPage: ${name} ${message}`);
  });

  it("writes the amounts of a revoked key as small as the others of the table", async () => {
    for (const id of ["team-a", "team-b"]) await stores.ports.quotas.add({ id, granted: 1_000_000 });
    await stores.ports.quotas.revoke("team-b");
    const page = await open("?part=keys", { viewport: { width: 1280, height: 900 } });
    const sizes = async (id: string): Promise<string[]> =>
      rowOf(page, id)
        .locator(".amount")
        .evaluateAll((all) => all.map((one) => getComputedStyle(one).fontSize));
    await rowOf(page, "team-b").waitFor();
    for (const id of ["team-a", "team-b"]) expect(new Set(await sizes(id))).toEqual(new Set(["13px"]));
    await page.close();
  });

  it.each<[string, () => Response]>([
    ["a redirect", () => new Response(null, { status: 303, headers: { location: "/admin/style.css" } })],
    ["a page", () => new Response("<h1>Log in</h1>", { headers: { "content-type": "text/html" } })],
  ])("does not take %s of the login for a success", async (_what, answer) => {
    await stores.ports.quotas.add({ id: "team-a" });
    const page = await open();
    await rowOf(page, "team-a").waitFor();
    login = answer;
    await press(page, "Revoke team-a");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("You are not logged in any more.").waitFor();
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({ revoked: false });
    await page.close();
  });

  it("is served with a policy that lets no other code in, and nothing beside its files", async () => {
    const { headers } = await fetch(url);
    expect(headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; script-src 'self';.*frame-ancestors 'none'/,
    );
    expect((await fetch(`${url}/app.js`)).headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    for (const name of ["index.html", "app.licenses.txt", "..%2Fapp.js", "toString"])
      expect((await fetch(`${url}/${name}`)).status).toBe(404);
  });

  it("shows characters that people take for others in the lists of keys and budgets", async () => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "r\u0435d", name: "Bl\u043eck", amount: 5 });
    await quotas.add({ id: "t\u0435am", name: "a\u200bb", budget: "r\u0435d", models: ["gpt-\uff11"] });
    const page = await open();
    const text = await rowOf(page, String.raw`t\u0435am`).textContent();
    for (const shown of [String.raw`a\u200bb`, String.raw`Bl\u043eck`, String.raw`r\u0435d`, String.raw`gpt-\uff11`])
      expect(text).toContain(shown);
    await page.getByRole("link", { name: "Budgets" }).click();
    await rowOf(page, String.raw`r\u0435dBl\u043eck`).waitFor();
    await page.close();
  });

  it("shows hostile texts as texts in every part, and lets no request leave", async () => {
    const { quotas } = stores.ports;
    const texts = HOSTILE_TEXTS.filter((text) => text.length < 120 && isPlain(text));
    for (const [at, text] of texts.entries()) {
      const metadata = { group: text, note: text };
      await quotas.add({ id: `k${at}`, name: text, apiKey: `sk-k${at}`, models: [text], metadata, granted: 1 });
      await quotas.addBudget({ id: `b${at}`, name: text, amount: 1 });
    }
    await Promise.all([EVIL, `"><script>document.title='taken'</script>`].map((model) => call("k0", model)));
    const page = await open();
    for (const part of ["Keys", "Budgets", "Live", "Spend", "Calls", "Health", "Changes"]) {
      await page.getByRole("link", { name: part, exact: true }).click();
      await page.getByRole("heading", { level: 2, name: part }).waitFor();
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      expect(
        await page.locator("#app :is(img, script, iframe, object, embed, link, style, base, form[action])").count(),
      ).toBe(0);
      expect(
        await page
          .locator(
            "a:not([href^='/admin?part=']):not([href^='usage?']):not([href^='audit?']):not([href^='https://sso.example/'])",
          )
          .count(),
      ).toBe(0);
    }
    await page.getByRole("link", { name: "Keys" }).click();
    for (const [at, text] of texts.entries())
      expect(
        await page.locator("tbody tr", { has: page.getByText(`k${at}`, { exact: true }) }).textContent(),
      ).toContain(withEscapes(text));
    expect(await page.title()).toBe(`Keys · <Models> & "more"`);
    await page.close();
  });

  it("gives nothing to a page of another origin, also when its user is logged in", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    const stolen = (await (await fetch(url)).text()).replace('href="/admin/"', `href="${url}/"`);
    expect(stolen).toContain(`href="${url}/"`);
    const trial = `<title>evil</title><iframe src="${url}"></iframe><iframe src="${url}/keys"></iframe>
      <script src="${url}/app.js" onload="loaded=true"></script><script src="${url}/keys" onload="loaded=true"></script>
      <form method="post" enctype="text/plain" action="${url}/keys/team-a/revoke" target="hidden"><input name="{}//"></form>
      <iframe name="hidden"></iframe>`;
    const evil = createServer((req, res) => {
      res.setHeader("content-type", "text/html").end(req.url === "/stolen" ? stolen : trial);
    }).listen(0, "127.0.0.1");
    await once(evil, "listening");
    const home = `http://127.0.0.1:${(evil.address() as AddressInfo).port}`;
    const page = await browser.newPage();
    await page.goto(home);
    const tries = await page.evaluate(async (root) => {
      const post = { method: "POST", credentials: "include", body: "{}" } as const;
      const json = { "content-type": "application/json" };
      const asked: Record<string, () => Promise<Response>> = {
        read: () => fetch(`${root}/keys`, { credentials: "include" }),
        blind: () => fetch(`${root}/keys`, { credentials: "include", mode: "no-cors" }),
        text: () => fetch(`${root}/keys/team-a/revoke`, { ...post, mode: "no-cors" }),
        json: () => fetch(`${root}/keys/team-a/revoke`, { ...post, headers: json }),
        remove: () => fetch(`${root}/budgets/x`, { method: "DELETE", credentials: "include" }),
      };
      const told: Record<string, string> = {};
      for (const [name, ask] of Object.entries(asked))
        told[name] = await ask().then(
          ({ type, status }) => `${type} ${status}`,
          () => "refused",
        );
      document.forms[0]?.submit();
      told["loaded"] = String("loaded" in window);
      return told;
    }, url);
    expect(tries).toMatchObject({
      read: "refused",
      blind: "refused",
      json: "refused",
      remove: "refused",
      loaded: "false",
    });
    // A no-cors request may be sent, and is refused: its answer tells nothing.
    expect(tries["text"]).toMatch(/^(?:opaque 0|refused)$/);
    for (const frame of page.frames().slice(1)) expect(await frame.content()).not.toMatch(/team-a|polygate|id="app"/);
    const [opened] = await Promise.all([
      page.waitForEvent("popup"),
      page.evaluate((root) => void globalThis.open(root, "admin"), url),
    ]);
    await opened.getByRole("heading", { level: 2 }).waitFor();
    expect(await opened.evaluate(() => window.opener === null)).toBe(true);
    await opened.close();
    await page.goto(`${home}/stolen`);
    expect(await page.locator("#app").innerText()).toBe("Loading… If this stays, load the page again.");
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({ revoked: false });
    await page.close();
    evil.close();
    evil.closeAllConnections();
  });

  it("saves again after the server has refused a part of what was written", async () => {
    await stores.ports.quotas.add({ id: "team-a" });
    const page = await open();
    await page.getByRole("button", { name: "Edit team-a" }).click();
    await page.getByLabel("Name").fill("Team A");
    await page.getByRole("dialog").getByLabel("Budget").fill("none");
    await page.getByLabel("Quota from now on").fill("5");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").filter({ hasText: "none" }).waitFor();
    await page.getByRole("dialog").getByLabel("Budget").fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("team-a is changed.").waitFor();
    const quota =
      (await page.getByLabel("Quota from now on").count()) === 0 ? await rowOf(page, "Team A").textContent() : "";
    expect(quota).toContain("5");
    expect(await stores.ports.quotas.report("team-a")).toMatchObject({ name: "Team A", unlimited: false });
    await page.getByRole("button", { name: "Edit team-a" }).click();
    await page.getByRole("dialog").waitFor();
    expect(await page.getByLabel("Quota from now on").count()).toBe(0);
    await page.close();
  });

  it.each([390, 768, 1000, 1280])("shows every row as a whole on a screen of %i pixels", async (width) => {
    const { quotas } = stores.ports;
    await quotas.addBudget({ id: "company", amount: 5_000_000, period: "month" });
    await quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1, models: ["m".repeat(60)], metadata: { group: "a" } });
    await quotas.add({ id: "rich", apiKey: "sk-rich", budget: "company" });
    const group = "g".repeat(90);
    const name = "The department of long words and of sentences without an end";
    await quotas.addBudget({ id: "b".repeat(100), name, amount: 1, period: "month", parent: "company" });
    const [id, budget] = ["k".repeat(100), "b".repeat(100)];
    await quotas.add({ id, name, apiKey: "sk-long", granted: 1_000_000, budget, metadata: { group } });
    await quotas.add({ id: "over", apiKey: "sk-over", granted: 4 });
    await quotas.reserve({ id: "hold", keyId: "over", atLeast: 1, atMost: 4, leaseMs: 60_000 });
    await quotas.settle("hold", { used: 7, certainty: "exact" });
    for (const keyId of ["poor", "rich", "long"]) await call(keyId, "claude-sonnet-4-5-20250929");
    const backend = {
      async *chat() {
        yield "Rain.";
        await new Promise(() => {});
      },
    };
    live = createGateway({ backend, ...stores.ports });
    await live.fetch(asked("rich", "claude-sonnet-4-5-20250929", true));
    // What helps after such a call names its request id.
    await call("rich", "claude-sonnet-4-5-20250929", "usd", {
      chat() {
        throw new GatewayError("backend_refused", "The credential is wrong.");
      },
    });
    user = { name: "the.one.with.a.long.name@department.of.long.words.example.com" };
    const json = { "content-type": "application/json" };
    await fetch(`${url}/keys/rich`, { method: "PATCH", headers: json, body: '{"metadata":{"group":"red"}}' });
    const page = await open("?part=calls&outcome=failed", { viewport: { width, height: 844 } });
    for (const part of ["failed", "Keys", id, "Budgets", "Live", "Calls", "Health", "Spend", "Changes"]) {
      if (part !== "failed") await page.getByRole("link", { name: part, exact: true }).click();
      await page.getByRole("heading", { level: 2, name: part === "failed" ? "Failed calls" : part }).waitFor();
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      await page.getByRole("row").nth(1).waitFor();
      const cut = await page.evaluate(() =>
        [...document.querySelectorAll("tbody tr, tbody tr *")]
          .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth)
          .map((one) => one.outerHTML.slice(0, 100)),
      );
      expect([part, cut, await isWiderThanScreen(page)]).toEqual([part, [], false]);
      // No column is out of sight at the side.
      const hidden = await page
        .locator(".scroll")
        .evaluateAll((all) =>
          all.filter((one) => getComputedStyle(one).overflowX === "auto" && one.scrollWidth > one.clientWidth),
        );
      expect([part, hidden.length]).toEqual([part, 0]);
      // Buttons wrap, and none is hidden below another.
      const buttons = page.locator("tbody button:not([popover] *)");
      await Promise.all((await buttons.all()).map((button) => button.click({ trial: true })));
    }
    await page.close();
    await live.close({ deadlineMs: 0 });
  });

  it.each<[string, BrowserContextOptions]>([
    ["in the light", { colorScheme: "light" }],
    ["in the dark", { colorScheme: "dark" }],
    ["on a phone", { viewport: { width: 390, height: 844 } }],
  ])("has no barriers %s", async (_look, options) => {
    await stores.ports.quotas.addBudget({ id: "company", amount: 5_000_000, period: "day" });
    await stores.ports.quotas.add({ id: "x".repeat(150), granted: 5_000_000, metadata: { plan: "y".repeat(200) } });
    await stores.ports.quotas.add({ id: "old", expiresAt: 1_000 });
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1, metadata: { group: "z".repeat(150) } });
    await call("poor", "m".repeat(200));
    const page = await open("", options);
    for (const part of ["Keys", "poor", "Budgets", "Live", "Spend", "Calls", "Health", "Changes"]) {
      await page.getByRole("link", { name: part, exact: true }).click();
      await page.getByRole("heading", { level: 2, name: part }).waitFor();
      await page.getByText("Loading…").first().waitFor({ state: "detached" });
      expect([part, await barriers(page), await isWiderThanScreen(page)]).toEqual([part, [], false]);
    }
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "New key" }).click();
    expect(await barriers(page)).toEqual([]);
    await page.close();
  });
});
