/** Reads addresses as they were written: not by URL, which cannot read every address that comes, and rewrites those that it can. */

const SLASH = 0x2f;
const QUERY = 0x3f;
const FRAGMENT = 0x23;

/** The path of an address, as it was written, without its query. */
export function pathOf(url: string): string {
  const from = pathStart(url);
  let end = from;
  while (end < url.length && url.charCodeAt(end) !== QUERY && url.charCodeAt(end) !== FRAGMENT) end++;
  return end === from ? "/" : url.slice(from, end);
}

/** What stands before the path of an address: `https://example.com`. */
export function originOf(url: string): string {
  return url.slice(0, pathStart(url));
}

/** Where an address's path begins. Without a usable `host` header, a runtime may tell the path alone. */
function pathStart(url: string): number {
  if (url.startsWith("/")) return 0;
  let at = url.indexOf("://") + 3;
  while (at < url.length && !endsHost(url.charCodeAt(at))) at++;
  return at;
}

const endsHost = (code: number): boolean => code === SLASH || code === QUERY || code === FRAGMENT;

/** The parameters of an address's query. */
export function queryOf(url: string): URLSearchParams {
  const from = url.indexOf("?");
  return new URLSearchParams(from < 0 ? "" : (url.slice(from + 1).split("#", 1)[0] ?? ""));
}
