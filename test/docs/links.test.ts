/** Every link of the pages leads to a file that users have, and to a heading that exists. */

import { existsSync } from "node:fs";
import { basename, dirname, normalize } from "node:path/posix";
import { describe, expect, it } from "vitest";
import { ROOT } from "./entries.ts";
import { pages, proseOf } from "./pages.ts";

/** The anchors of each page, as GitHub makes them from headings. */
const anchors = new Map(
  pages.map((page) => [
    page.path,
    Array.from(proseOf(page).matchAll(/^#+ (.+)$/gm), ([, heading = ""]) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  ]),
);

/** The linked files of an installed package outside `docs`. */
const PACKED = ["CHANGELOG.md", "SECURITY.md"];

describe.each(pages.map((page) => [page.path, page] as const))("%s", (path, page) => {
  const links = Array.from(proseOf(page).matchAll(/\]\(([^)\s]+)\)/g), ([, link = ""]) => link);
  const own = links.filter((link) => !/^https?:/.test(link));

  it("links to files that are there, and to headings in them", () => {
    const broken = own.filter((link) => {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? path : normalize(`${dirname(path)}/${file}`);
      if (!existsSync(`${ROOT}${target}`)) return true;
      return anchor !== undefined && !anchors.get(target)?.includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  it("links to nothing that an installed package lacks", () => {
    const outside = own.filter((link) => {
      const target = normalize(`${dirname(path)}/${link.split("#")[0]}`);
      return !target.startsWith("docs/") && !PACKED.includes(target) && !link.startsWith("#");
    });
    expect(outside).toEqual([]);
  });

  it("has no two headings of one name", () => {
    const all = anchors.get(path) ?? [];
    expect(all.length).toBe(new Set(all).size);
  });
});

it.each(["docs/README.md", "docs/reference/reference.md"])("finds each page of its folder from %s", (path) => {
  const index = pages.find((page) => page.path === path)?.text ?? "";
  const beside = pages.filter((page) => dirname(page.path) === dirname(path) && page.path !== path);
  const missing = beside.filter((page) => !index.includes(`(${basename(page.path)})`));
  expect(missing.map((page) => page.path)).toEqual([]);
});

/** The columns of the longest line of a table: 140 fit a terminal. These pages have longer ones. */
const WIDER: Readonly<Record<string, number>> = {
  "SECURITY.md": 224,
};

it.each(pages.map((page) => [page.path, page] as const))("%s has tables that fit a terminal", (path, page) => {
  const lines = proseOf(page)
    .split("\n")
    .filter((line) => line.startsWith("|"));
  const widest = Math.max(0, ...lines.map(({ length }) => length));
  expect(widest).toBeLessThanOrEqual(WIDER[path] ?? 140);
});

it("installs in the README what its examples import, as ES modules", () => {
  const readme = pages.find(({ path }) => path === "README.md")?.text ?? "";
  const [, installed = ""] = /type=module && npm install (.+)/.exec(readme) ?? [];
  const imports = Array.from(readme.matchAll(/^import .* from "((?:@[\w-]+\/)?[\w-]+)/gm), ([, name = ""]) => name);
  expect(new Set(installed.split(" "))).toEqual(new Set(imports));
});

it("keeps the README to two screens", () => {
  const readme = pages.find(({ path }) => path === "README.md")?.text ?? "";
  expect(readme.split("\n").length).toBeLessThan(150);
});
