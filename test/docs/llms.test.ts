/** The docs for language models: `llms.txt` leads to every page, and `llms-full.txt` has every page whole. */

import { existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { docsPaths, llmsFullTxt, llmsTxt } from "../../playground/docs.ts";
import { ROOT } from "./entries.ts";
import { pages } from "./pages.ts";

const FOLDER = pathToFileURL(ROOT);

it("llms.txt has the form of llmstxt.org: a name, a summary, and sections of links", () => {
  const text = llmsTxt(FOLDER, (path) => path);
  const [name, , summary, , ...rest] = text.trimEnd().split("\n");
  expect([name, summary]).toEqual(["# polygate", expect.stringMatching(/^> polygate is /)]);
  // Nothing but headings, links with notes, and the empty lines between them.
  expect(rest.filter((line) => !/^(?:## \S.*|- \[[^\]]+\]\([^)]+\)(?:[:,.] ?.*)?|)$/.test(line))).toEqual([]);
  expect(text).toContain("\n## Optional\n");
});

it("llms.txt leads to every page, and to nothing else", () => {
  const links = Array.from(llmsTxt(FOLDER, (path) => path).matchAll(/\]\(([^)]+)\)/g), ([, link = ""]) => link);
  expect(links.filter((link) => !existsSync(`${ROOT}${link}`))).toEqual([]);
  const own = docsPaths(FOLDER).filter((path) => !path.startsWith("docs/reference/") && path !== "docs/README.md");
  expect(new Set(links)).toEqual(new Set([...own, "docs/reference/reference.md"]));
});

it("llms-full.txt has every page whole, in the order of the index", () => {
  const text = llmsFullTxt(FOLDER);
  const shown = pages.filter(({ path }) => path !== "README.md");
  expect(shown.filter((page) => !text.includes(`<!-- ${page.path} -->\n\n${page.text}`))).toEqual([]);
  const order = ["docs/README.md", "docs/getting-started.md", "docs/operations.md", "docs/reference/polygate.md"];
  const places = order.map((path) => text.indexOf(`<!-- ${path} -->`));
  expect(places).toEqual(places.toSorted((one, other) => one - other));
});
