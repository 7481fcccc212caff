/** Scrolls to new results, which a narrow screen shows below the visible part. */

/** Scrolls to the element with an id, unless its beginning is visible. */
export function bringIntoView(id: string): void {
  const element = document.getElementById(id);
  if (element && element.getBoundingClientRect().top > innerHeight / 2) element.scrollIntoView({ block: "start" });
}
