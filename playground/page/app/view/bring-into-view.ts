/** On a narrow screen what a button brings about stands below, where nobody would see it come. */

/** Scrolls to an element, by its id, unless its beginning is well in sight. */
export function bringIntoView(id: string): void {
  const element = document.getElementById(id);
  if (element && element.getBoundingClientRect().top > innerHeight / 2) element.scrollIntoView({ block: "start" });
}
