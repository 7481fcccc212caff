/** The page of the admin, as the handler of the admin serves it. */

/** A file of the page. */
export interface AdminPageFile {
  /** The value of `content-type`. */
  readonly type: string;
  readonly text: string;
}

/** The files of a page, such as `adminPage()` of `polygate/admin/page`. */
export interface AdminPage {
  /**
   * Returns the file of a name; the page itself for an empty one. Undefined for a name without a file.
   *
   * @param base The path of the mount as the browser sees it, with a slash at its end.
   */
  file(name: string, base: string): Promise<AdminPageFile | undefined>;
}

/** The headers of the page's files, beside those of every answer. The page loads nothing from elsewhere, and no page frames it. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "referrer-policy": "no-referrer",
};
