/** The docs for language models (https://llmstxt.org): `llms.txt` leads to the pages, and `llms-full.txt` has all of them. */

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The pages outside `docs`. */
const BESIDE = ["SECURITY.md", "CHANGELOG.md"];

const SUMMARY =
  "polygate is a TypeScript library: a model gateway that you mount into your own server. It speaks the wire formats of Anthropic, " +
  "Google and OpenAI, keeps quota by API key, meters every call, and translates between the formats.";

/** The paths of all pages: the index of the docs, the pages in the order of the index, the reference, and those beside the docs. */
export function docsPaths(): string[] {
  const index = read("docs/README.md");
  const placeOf = (path: string): number => index.indexOf(`(${path.slice("docs/".length)})`);
  const pages = globSync("docs/*.md", { cwd: ROOT }).map((path) => path.replaceAll("\\", "/"));
  const reference = globSync("docs/reference/*.md", { cwd: ROOT }).map((path) => path.replaceAll("\\", "/"));
  return [...pages.toSorted((one, other) => placeOf(one) - placeOf(other)), ...reference.toSorted(), ...BESIDE];
}

const read = (path: string): string => readFileSync(ROOT + path, "utf8");

/** Returns `llms.txt`. `addressOf` returns the address of a page by its path from the root of the package. */
export function llmsTxt(addressOf: (path: string) => string): string {
  // The sections of the index with their lists. The paragraph behind the last list is for people.
  const sections = read("docs/README.md").matchAll(/^## .+\n\n(?:- .+\n)+/gm);
  const lists = Array.from(sections, ([section]) =>
    section.replaceAll(/\]\(([^)]+)\)/g, (_link, href: string) => {
      const { pathname } = new URL(href, "file:///docs/");
      return `](${addressOf(pathname.slice(1))})`;
    }),
  );
  const optional = `## Optional\n\n- [Changelog](${addressOf("CHANGELOG.md")}): every change\n`;
  return [`# polygate\n\n> ${SUMMARY}\n`, ...lists, optional].join("\n");
}

/** Returns `llms-full.txt`: each page behind a line with its path, without the changelog. */
export const llmsFullTxt = (): string =>
  docsPaths()
    .filter((path) => path !== "CHANGELOG.md")
    .map((path) => `<!-- ${path} -->\n\n${read(path)}`)
    .join("\n");
