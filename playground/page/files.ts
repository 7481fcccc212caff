/** The files of the page by their paths: its own modules and styles, the libraries that they import, and the docs. */

import { createHash, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, extname } from "node:path";
import { fileURLToPath } from "node:url";
import type { transformSync } from "amaro";
import { docsPaths, examplePages, llmsFullTxt, llmsTxt } from "../docs.ts";

/** A file as it is sent. */
export interface PageFile {
  readonly type: string;
  readonly text: string;
  readonly etag: string;
}

/** What the page is made of. Only what is listed here is ever sent, so no path can lead out of it. */
export interface PageFiles {
  readonly find: (path: string) => PageFile | undefined;
  /** Whether what is at this path stays as it is, so that a browser need not ask again. */
  readonly isLasting: (path: string) => boolean;
  /** The Content-Security-Policy source that lets the page's import map through. */
  readonly importMapHash: string;
}

/** Where the page's own files, those of the reference, the libraries and the docs stand. */
const OWN = "/page/";
const REFERENCE = "/page/reference/";
const LIBRARIES = "/page/lib/";
const DOCS = "/page/docs/";

/** The two pages by their addresses. */
const PAGES: Readonly<Record<string, string>> = { "/": `${OWN}index.html`, "/reference": `${REFERENCE}index.html` };

/** What the reference is made of: it comes with its styles. */
const REFERENCE_LIBRARY = "swagger-ui-dist";
const REFERENCE_FILES = ["swagger-ui-bundle.js", "swagger-ui.css"];

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".md": "text/markdown; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  // A browser runs what is left of a module when its types are blanked out.
  ".ts": "text/javascript; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
};

/** The files that are made of the docs when they are first asked for: all pages by their names, and those for language models. */
const MADE: Readonly<Record<string, () => string>> = {
  [`${DOCS}pages.json`]: () =>
    JSON.stringify({
      ...Object.fromEntries(docsFiles().map(([path, source]) => [nameOf(path), readFileSync(source, "utf8")])),
      ...examplePages(),
    }),
  "/llms.txt": () => llmsTxt((path) => `${DOCS}${basename(path)}`),
  "/llms-full.txt": llmsFullTxt,
};

const nameOf = (path: string): string => basename(path, ".md");

/** The libraries by the names under which the page's modules import them. */
const IMPORTED = [
  "@preact/signals",
  "@preact/signals-core",
  "eventsource-parser",
  "htm",
  "htm/preact",
  "minisearch",
  "preact",
  "preact/hooks",
];

/** Finds the page's files once; each is read when it is first asked for, and kept. */
export function findPageFiles(): PageFiles {
  // The pages ask for their files at addresses that are others for each start, after which a file may be another.
  const lasting = `${OWN}${randomUUID()}/`;
  const sources = new Map<string, URL>();
  const imports: Record<string, string> = {};
  const app = new URL("app/", import.meta.url);
  for (const name of filesIn(app)) sources.set(OWN + name, new URL(name, app));
  for (const specifier of IMPORTED) {
    const entry = new URL(import.meta.resolve(specifier));
    const folder = new URL(".", entry);
    // A library's entry may import its neighbours.
    for (const name of filesIn(folder).filter((name) => extname(name) === extname(entry.pathname)))
      sources.set(`${LIBRARIES}${specifier}/${name}`, new URL(name, folder));
    const path = `${LIBRARIES}${specifier}/${entry.pathname.slice(folder.pathname.length)}`;
    imports[specifier] = path.replace(OWN, lasting);
  }

  const importMap = JSON.stringify({ imports });
  const own = [...sources.keys()].filter((path) => path.endsWith(".ts")).map((path) => path.replace(OWN, lasting));
  const modules = [...own, ...Object.values(imports)];
  for (const [path, source] of [...referenceFiles(), ...docsFiles()]) sources.set(path, source);
  const preloads = modules.map((path) => `<link rel="modulepreload" href="${path}" />`);
  const head = `<script type="importmap">${importMap}</script>\n${preloads.join("\n")}`;

  const kept = new Map<string, PageFile>();
  const find = (asked: string): PageFile | undefined => {
    const path = Object.hasOwn(PAGES, asked) ? (PAGES[asked] ?? asked) : asked.replace(lasting, OWN);
    const source = sources.get(path);
    const made = Object.hasOwn(MADE, path) ? MADE[path] : undefined;
    if (!source && !made) return undefined;
    const completed = (html: string): string => html.replaceAll(`"${OWN}`, `"${lasting}`).replace(MODULES, () => head);
    const file = kept.get(path) ?? (source ? read(source, completed) : fileOf(extname(path), made?.() ?? ""));
    kept.set(path, file);
    return file;
  };
  const isLasting = (path: string): boolean => path.startsWith(lasting);
  return { find, isLasting, importMapHash: `'sha256-${createHash("sha256").update(importMap).digest("base64")}'` };
}

/** The files of the reference by their paths. */
function referenceFiles(): [path: string, source: URL][] {
  const own = new URL("reference/", import.meta.url);
  const library = new URL(".", import.meta.resolve(`${REFERENCE_LIBRARY}/package.json`));
  return [
    ...filesIn(own).map((name): [string, URL] => [REFERENCE + name, new URL(name, own)]),
    ...REFERENCE_FILES.map((name): [string, URL] => [
      `${LIBRARIES}${REFERENCE_LIBRARY}/${name}`,
      new URL(name, library),
    ]),
  ];
}

/** The pages of the docs, and those that they lead to. No two pages have the same name. */
function docsFiles(): [path: string, source: URL][] {
  const root = new URL("../../", import.meta.url);
  return docsPaths().map((path) => [`${DOCS}${basename(path)}`, new URL(path, root)]);
}

const filesIn = (folder: URL): string[] =>
  readdirSync(fileURLToPath(folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && extname(entry.name) in TYPES)
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(fileURLToPath(folder).length))
    .map((name) => name.replaceAll("\\", "/").replace(/^\//, ""));

/** Stands in the page for its import map and its modules. */
const MODULES = "<!-- modules -->";

function read(source: URL, completed: (html: string) => string): PageFile {
  const extension = extname(source.pathname);
  const text = readFileSync(source, "utf8");
  return fileOf(extension, extension === ".ts" ? withoutTypes(text) : extension === ".html" ? completed(text) : text);
}

const fileOf = (extension: string, text: string): PageFile => ({
  type: TYPES[extension] ?? "text/plain",
  text,
  etag: `"${createHash("sha256").update(text).digest("base64url")}"`,
});

const require = createRequire(import.meta.url);

/** Loads the compiler, which is large, when the first module of the page is asked for: most starts never need it. */
function withoutTypes(code: string): string {
  const amaro = require("amaro") as { readonly transformSync: typeof transformSync };
  return amaro.transformSync(code, { mode: "strip-only" }).code;
}
