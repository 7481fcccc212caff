/** The docs as the page shows them: their Markdown is read whole, and each of their links leads somewhere. */

import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { groupsOf, headingsOf } from "../../playground/page/app/docs/contents.ts";
import { addressOf, type Block, blocksOf, piecesOf } from "../../playground/page/app/docs/markdown.ts";
import { searchIn } from "../../playground/page/app/docs/search.ts";
import { pageFiles } from "../../playground/page/files.ts";

const ROOT = new URL("../../", import.meta.url);
const FILES = [
  ...readdirSync(new URL("docs/", ROOT), { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".md")),
  "../SECURITY.md",
  "../CHANGELOG.md",
];
const pages = new Map(
  FILES.map((file) => [basename(file, ".md"), blocksOf(readFileSync(new URL(`docs/${file}`, ROOT), "utf8"))]),
);

/** All texts of a block that may have links. */
function textsIn(block: Block): readonly string[] {
  if (block.type === "list") return block.items;
  if (block.type === "table") return block.rows.flat();
  return block.type === "code" ? [] : [block.text];
}

const served = pageFiles(new URL("playground/page/app/", ROOT), ROOT);

const texts = JSON.parse(served.find("/page/docs/pages.json")?.text ?? "") as Readonly<Record<string, string>>;

function isServed(address: string): boolean {
  const [, name = "", heading] = address.split("/");
  if (name.endsWith(".ts")) return texts[name]?.startsWith(`# ${name}\n\n\`\`\`ts\n// ${name}\n`) ?? false;
  const ids = (pages.get(name) ?? []).flatMap((block) => (block.type === "heading" ? block.id : []));
  const file = served.find(`/page/docs/${name}.md`);
  return file?.type === "text/markdown; charset=utf-8" && (heading === undefined || ids.includes(heading));
}

it("has no two pages of one name, because addresses name them", () => {
  expect(pages.size).toBe(FILES.length);
});

describe.each([...pages])("%s", (page, blocks) => {
  it("begins with its heading, and all its rows are as long as their head", () => {
    expect(blocks[0]?.type).toBe("heading");
    const tables = blocks.filter((block) => block.type === "table");
    for (const { rows } of tables) expect(new Set(rows.map(({ length }) => length)).size).toBe(1);
  });

  it("leads to pages and headings that are served, and says the rest in words", () => {
    const links = blocks.flatMap(textsIn).flatMap(piecesOf);
    expect(links.filter(({ text }) => text === "")).toEqual([]);
    const addresses = links.flatMap(({ type, href = "" }) => (type === "link" ? (addressOf(href, page) ?? []) : []));
    const own = addresses.filter((address) => address.startsWith("#"));
    expect(own.filter((address) => !isServed(address))).toEqual([]);
  });
});

it("reads each kind of block", () => {
  const markdown = `# A \`title\`, twice

<!-- options: Limits -->
One line
goes on.

- first
- second
  goes on

1. one

| A | B |
| - | - |
| a \\| b | c |

\`\`\`ts
# no heading

- no list
\`\`\`
The end.`;
  expect(blocksOf(markdown)).toEqual([
    { type: "heading", level: 1, text: "A `title`, twice", id: "a-title-twice" },
    { type: "paragraph", text: "One line goes on." },
    { type: "list", isOrdered: false, items: ["first", "second goes on"] },
    { type: "list", isOrdered: true, items: ["one"] },
    {
      type: "table",
      rows: [
        ["A", "B"],
        ["a | b", "c"],
      ],
    },
    { type: "code", text: "# no heading\n\n- no list" },
    { type: "paragraph", text: "The end." },
  ]);
  expect(piecesOf("Read **[the `x`](a.md#b)** and `c`.")).toEqual([
    { type: "text", text: "Read " },
    { type: "strong", text: "[the `x`](a.md#b)" },
    { type: "text", text: " and " },
    { type: "code", text: "c" },
    { type: "text", text: "." },
  ]);
});

it("ends, whatever it reads", () => {
  for (const odd of ["", "```", "|", "- ", "#", "[", "<!--", "``` \n| \n- \n#", "\n\n"])
    expect(blocksOf(odd).flatMap(textsIn).flatMap(piecesOf)).toBeDefined();
});

it("leads nowhere but to pages and to the web", () => {
  for (const href of ["", "javascript:alert(1)", "picture.png", "../src/index.ts", "//elsewhere.example"])
    expect(addressOf(href, "quota")).toBeUndefined();
  expect(addressOf("#sql", "quota")).toBe("#docs/quota/sql");
  expect(addressOf("../SECURITY.md", "quota")).toBe("#docs/SECURITY");
  expect(addressOf("examples/company.ts", "company-gateway")).toBe("#docs/company.ts");
});

describe("the contents", () => {
  it("have each page in its group, in the order of the index", () => {
    const groups = groupsOf(pages.get("README") ?? []);
    expect(groups.length).toBeGreaterThan(4);
    const listed = groups.flatMap(({ entries }) => entries.map(({ href }) => href));
    expect(listed.filter((address) => !isServed(address))).toEqual([]);
    const own = FILES.filter((file) => !file.includes("/")).map((file) => `#docs/${basename(file, ".md")}`);
    expect(listed).toEqual(expect.arrayContaining(own.filter((address) => address !== "#docs/README")));
  });

  it("have the headings of a page", () => {
    expect(headingsOf("quota", blocksOf("# A\n\n## One `b`\n\n### Two\n\n## Three\n"))).toEqual([
      { name: "One b", href: "#docs/quota/one-b" },
      { name: "Three", href: "#docs/quota/three" },
    ]);
  });
});

describe("the search", () => {
  const find = searchIn(texts);

  it.each([
    ["maxJsonBytes", "polygate", "limits"],
    ["budget of a team", "budgets", ""],
    ["x-should-retry", "errors-by-format", ""],
    ["trust proxy", "mounting", "express"],
    ["grace period", "production", "the-grace-period"],
  ])("finds %s", (query, page, heading) => {
    expect(find(query).slice(0, 4)).toContainEqual(expect.objectContaining({ page, heading }));
  });

  it("takes the name of a member of every object for a word", () => {
    const page = "made-up";
    expect(searchIn({ [page]: "# Made up\n\nThe constructor of a class." })("constructor")).toMatchObject([{ page }]);
    expect(find("the constructor of a budget")).not.toEqual([]);
  });

  // Questions as people ask them, and the sections that answer them.
  it.each([
    ["why was this refused", ["usage/why-a-call-was-refused"]],
    ["upgrade", ["upgrading/"]],
    ["rotate a key", ["keys-and-limits/keys"]],
    ["database is down", ["production/when-the-database-is-down"]],
    ["delete old calls", ["usage/the-recorder"]],
    ["cors", ["mounting/pages-in-a-browser"]],
    ["body parser", ["mounting/"]],
    ["prometheus", ["telemetry/prometheus"]],
    ["two processes", ["production/several-processes-or-replicas", "keys-and-limits/counters-for-a-fleet"]],
    ["timeout", ["options/limits", "polygate/limits"]],
    ["streaming behind nginx", ["production/proxies"]],
    ["bun", ["mounting/bun"]],
    ["cost of a call", ["quota/the-price-of-a-call", "prices/"]],
    ["limit a team", ["budgets/"]],
    ["stop a running call", ["admin/live-calls"]],
    ["docker", ["production/a-server-from-one-file", "production/a-host-to-start-from"]],
    ["test my integration", ["testing/"]],
    ["azure", ["credentials/azure"]],
    ["hide secrets in prompts", ["hooks/the-redactor"]],
    ["fallback provider", ["routes/when-an-upstream-fails", "routes/"]],
    ["alert when budget is used up", ["budgets/be-told"]],
    ["websocket", ["mounting/websockets", "responses/websockets"]],
  ])("answers %s", (question, sections) => {
    const found = find(question).slice(0, 3);
    const addresses = found.map(({ page, heading }) => `${page}/${heading}`);
    expect(addresses).toSatisfy(() => sections.some((section) => addresses.includes(section)));
  });

  it("forgives a slip, and leads to headings that are there", () => {
    expect(find("idempotancy")[0]?.page).toBe("retries");
    const addresses = ["quota", "route", "error", "stream"].flatMap((query) =>
      find(query).map(({ page, heading }) => (heading === "" ? `#docs/${page}` : `#docs/${page}/${heading}`)),
    );
    expect(addresses.filter((address) => !isServed(address))).toEqual([]);
  });

  it("finds a dozen sections at most, whatever is asked", () => {
    for (const odd of ["", " ", "a", "*", "(", "`", "---", "the ".repeat(1_000), "ẞ", "\u0000"])
      expect(find(odd).length).toBeLessThanOrEqual(12);
  });
});

it("serves the docs for language models, with links to the pages that it serves", () => {
  const llms = served.find("/llms.txt");
  expect(llms).toMatchObject({ type: "text/plain; charset=utf-8", text: expect.stringMatching(/^# polygate\n\n> /) });
  const links = Array.from(llms?.text.matchAll(/\]\(([^)]+)\)/g) ?? [], ([, link = ""]) => link);
  expect(links.length).toBeGreaterThan(30);
  expect(links.filter((link) => !served.find(link))).toEqual([]);
  expect(served.find("/llms-full.txt")?.text).toContain("# Quota stores");
});
