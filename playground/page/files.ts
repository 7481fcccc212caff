/** Finds the files of the page by their paths: bundled files, the docs, and the library of the reference. */

import { createHash, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { basename, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { docsPaths, examplePages, llmsFullTxt, llmsTxt } from "../docs.ts";

/** A file to send. */
export interface PageFile {
  readonly type: string;
  readonly text: string;
  readonly etag: string;
}

/** The files of the page. Only listed files are sent, so that no path can reach other files. */
export interface PageFiles {
  readonly find: (path: string) => PageFile | undefined;
  /** Tells whether the file at a path never changes, so that a browser can cache it. */
  readonly isLasting: (path: string) => boolean;
}

/** The folders of the page's own files, the library of the reference, and the docs. */
const OWN = "/page/";
const LIBRARIES = "/page/lib/";
const DOCS = "/page/docs/";

/** The pages by their addresses. */
const PAGES: Readonly<Record<string, string>> = { "/": `${OWN}index.html`, "/reference": `${OWN}reference/index.html` };

/** The library of the reference, and its files. */
const REFERENCE_LIBRARY = "swagger-ui-dist";
const REFERENCE_FILES = ["swagger-ui-bundle.js", "swagger-ui.css"];

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".md": "text/markdown; charset=utf-8",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
};

/**
 * The files that are generated from the docs with their first request: all pages by name with what people search for, and the files for language
 * models.
 */
const MADE: Readonly<Record<string, (root: URL) => string>> = {
  [`${DOCS}pages.json`]: (root) =>
    JSON.stringify({
      pages: {
        ...Object.fromEntries(docsFiles(root).map(([path, source]) => [nameOf(path), readFileSync(source, "utf8")])),
        ...examplePages(root),
      },
      phrases: readFileSync(new URL("docs/search-phrases.txt", root), "utf8"),
    }),
  "/llms.txt": (root) => llmsTxt(root, (path) => `${DOCS}${basename(path)}`),
  "/llms-full.txt": llmsFullTxt,
};

const nameOf = (path: string): string => basename(path, ".md");

/**
 * Lists the page's files once. Reads each file with its first request, and keeps its text.
 *
 * @param folder The folder with the built page.
 * @param root The folder with the docs.
 */
export function pageFiles(folder: URL, root: URL): PageFiles {
  // The addresses of files differ for each start, because files may change between starts.
  const lasting = `${OWN}${randomUUID()}/`;
  const reference = referenceFiles();
  const own = filesIn(folder).map((name): [string, URL] => [OWN + name, new URL(name, folder)]);
  const sources = new Map([...own, ...reference, ...docsFiles(root)]);
  // The reference needs its library.
  if (reference.length === 0) sources.delete(PAGES["/reference"] ?? "");
  const completed = (html: string): string =>
    html.replaceAll(`"${OWN}`, `"${lasting}`).replace("{reference}", String(reference.length > 0));

  const kept = new Map<string, PageFile>();
  const find = (asked: string): PageFile | undefined => {
    const path = Object.hasOwn(PAGES, asked) ? (PAGES[asked] ?? asked) : asked.replace(lasting, OWN);
    const source = sources.get(path);
    const made = Object.hasOwn(MADE, path) ? MADE[path] : undefined;
    if (!source && !made) return undefined;
    const file = kept.get(path) ?? (source ? read(source, completed) : fileOf(extname(path), made?.(root) ?? ""));
    kept.set(path, file);
    return file;
  };
  return { find, isLasting: (path) => path.startsWith(lasting) };
}

/** Returns the files of the reference's library, if installed. */
function referenceFiles(): [path: string, source: URL][] {
  try {
    const library = new URL(".", import.meta.resolve(`${REFERENCE_LIBRARY}/package.json`));
    return REFERENCE_FILES.map((name) => [`${LIBRARIES}${REFERENCE_LIBRARY}/${name}`, new URL(name, library)]);
  } catch {
    return [];
  }
}

/** Returns the pages of the docs, and the pages that they link to. All names differ. */
const docsFiles = (root: URL): [path: string, source: URL][] =>
  docsPaths(root).map((path) => [`${DOCS}${basename(path)}`, new URL(path, root)]);

const filesIn = (folder: URL): string[] =>
  readdirSync(fileURLToPath(folder), { recursive: true, withFileTypes: true })
    // The licences of the libraries are texts too, and stand in the package alone.
    .filter((entry) => entry.isFile() && extname(entry.name) in TYPES && extname(entry.name) !== ".txt")
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(fileURLToPath(folder).length))
    .map((name) => name.replaceAll("\\", "/").replace(/^\//, ""));

function read(source: URL, completed: (html: string) => string): PageFile {
  const extension = extname(source.pathname);
  const text = readFileSync(source, "utf8");
  return fileOf(extension, extension === ".html" ? completed(text) : text);
}

const fileOf = (extension: string, text: string): PageFile => ({
  type: TYPES[extension] ?? "text/plain",
  text,
  etag: `"${createHash("sha256").update(text).digest("base64url")}"`,
});
