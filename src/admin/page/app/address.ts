/**
 * The address of the page. Its query names the part and the choices of its user, so that a link to them also survives the redirects of a login,
 * which lose a fragment.
 */

/** Returns the address of a part with choices. An empty choice is left out. */
export function addressOf(part: string, choices: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams({ part });
  for (const [name, value] of Object.entries(choices)) if (value !== "") query.set(name, value);
  // Keep the commas legible.
  return `${location.pathname}?${String(query).replaceAll("%2C", ",")}`;
}

/** Writes the choices of a part into the address, unless the user has gone to another part meanwhile. */
export function noteChoices(part: string, choices: Readonly<Record<string, string>>): void {
  const asked = new URLSearchParams(location.search);
  if ((asked.get("part") ?? "keys") === part) history.replaceState(null, "", addressOf(part, choices));
}

/** Goes to an address of this page, which tells the listeners of `popstate`. */
export function go(address: string): void {
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Follows a link without loading the page again, unless the user asks for another tab or window. */
export function follow(event: MouseEvent): void {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go((event.currentTarget as HTMLAnchorElement).href);
}

/** Turns an address of an earlier version, such as `#spend?by=model`, into one with a query. */
export function renewAddress(isPart: (name: string) => boolean): void {
  const [part = "", choices = ""] = location.hash.slice(1).split("?");
  if (isPart(part)) history.replaceState(null, "", addressOf(part, Object.fromEntries(new URLSearchParams(choices))));
}
