/** The docs for language models (https://llmstxt.org): `llms.txt` leads to the pages, and `llms-full.txt` has all of them. */

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** The pages outside `docs`. */
const BESIDE = ["SECURITY.md", "CHANGELOG.md"];

const SUMMARY =
  "polygate is a TypeScript library: a model gateway that you mount into your own server. It speaks the wire formats of Anthropic, " +
  "Google and OpenAI, keeps quota by API key, meters every call, and translates between the formats.";

/**
 * The paths of all pages: the index of the docs, the pages in the order of the index, the reference, and those beside the docs.
 *
 * @param root The folder of the package.
 */
export function docsPaths(root: URL): string[] {
  const index = read(root, "docs/README.md");
  const placeOf = (path: string): number => index.indexOf(`(${path.slice("docs/".length)})`);
  const pages = pathsOf(root, "docs/*.md");
  return [
    ...pages.toSorted((one, other) => placeOf(one) - placeOf(other)),
    ...pathsOf(root, "docs/reference/*.md"),
    ...BESIDE,
  ];
}

const pathsOf = (root: URL, pattern: string): string[] =>
  globSync(pattern, { cwd: fileURLToPath(root) })
    .map((path) => path.replaceAll("\\", "/"))
    .toSorted();

const read = (root: URL, path: string): string => readFileSync(new URL(path, root), "utf8");

/** Returns `llms.txt`. `addressOf` returns the address of a page by its path from the root of the package. */
export function llmsTxt(root: URL, addressOf: (path: string) => string): string {
  // The sections of the index with their lists. The paragraph behind the last list is for people.
  const sections = read(root, "docs/README.md").matchAll(/^## .+\n\n(?:- .+\n)+/gm);
  const lists = Array.from(sections, ([section]) =>
    section.replaceAll(/\]\(([^)]+)\)/g, (_link, href: string) => {
      const { pathname } = new URL(href, "http://docs/docs/");
      return `](${addressOf(pathname.slice(1))})`;
    }),
  );
  const optional = `## Optional\n\n- [Changelog](${addressOf("CHANGELOG.md")}): every change\n`;
  return [`# polygate\n\n> ${SUMMARY}\n`, ...lists, optional].join("\n");
}

/** Returns each example that fills a file as a page, by the file's name. */
export const examplePages = (root: URL): Readonly<Record<string, string>> =>
  Object.fromEntries(
    pathsOf(root, "docs/examples/*.{ts,sql}").map((path) => {
      const name = path.slice("docs/examples/".length);
      return [name, `# ${name}\n\n\`\`\`${name.split(".").at(-1)}\n${read(root, path)}\`\`\`\n`];
    }),
  );

/** Returns `llms-full.txt`: each page behind a line with its path, and then the examples. It lacks the changelog. */
export function llmsFullTxt(root: URL): string {
  const pages = docsPaths(root).filter((path) => path !== "CHANGELOG.md");
  const parts = pages.map((path) => `<!-- ${path} -->\n\n${read(root, path)}`);
  return [...parts, ...Object.values(examplePages(root))].join("\n");
}
