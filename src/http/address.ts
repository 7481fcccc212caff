/** Reads addresses as they were written: not by URL, which cannot read every address that comes, and rewrites those that it can. */

/** The path of an address, as it was written, without its query. */
export function pathOf(url: string): string {
  const from = pathStart(url);
  const end = url.slice(from).search(/[?#]/);
  const path = end < 0 ? url.slice(from) : url.slice(from, from + end);
  return path === "" ? "/" : path;
}

/** What stands before the path of an address: `https://example.com`. */
export function originOf(url: string): string {
  return url.slice(0, pathStart(url));
}

/** Where an address's path begins. Without a usable `host` header, a runtime may tell the path alone. */
function pathStart(url: string): number {
  if (url.startsWith("/")) return 0;
  const host = url.indexOf("://") + 3;
  const length = url.slice(host).search(/[/?#]/);
  return length < 0 ? url.length : host + length;
}

/** The parameters of an address's query. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf("?");
  return new URLSearchParams(from < 0 ? "" : (url.slice(from + 1).split("#", 1)[0] ?? ""));
}
