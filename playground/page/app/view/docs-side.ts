/** The side bar of the docs: the search, the pages by group, and the headings of the page that is shown. */

import { useEffect, useRef, useState } from "preact/hooks";
import { headingsOf } from "../docs/contents.ts";
import type { Found, Hit } from "../docs/search.ts";
import { doc, found, groups, keepQuery, query, recallQuery } from "../state/docs.ts";
import { docHeading, docPage, docRow } from "../state/place.ts";
import { html, type View } from "./html.ts";

export function DocsSide(): View {
  const [isOpen, setOpen] = useState(false);
  const side = useRef<HTMLElement>(null);
  const [page, heading, row, shown] = [docPage.value, docHeading.value, docRow.value, doc.value];
  // The chosen page is shown in place of the list, and of the results, which would cover a narrow screen. The way back leads to the results.
  useEffect(() => {
    setOpen(false);
    recallQuery();
    if (query.value !== "") side.current?.querySelector("input")?.focus({ preventScroll: true });
  }, [page, heading, row]);
  useEffect(() => {
    if (side.current) showCurrent(side.current);
  }, [page, heading, shown]);
  return html`
    <aside ref=${side} class="docs-side" aria-label="Contents">
      <${Search} />
      <button
        type="button"
        class="docs-menu"
        aria-expanded=${isOpen}
        aria-controls="docs-pages"
        onClick=${() => setOpen(!isOpen)}
      >
        Pages
      </button>
      <nav id="docs-pages" class=${isOpen ? "is-open" : ""} aria-label="Pages of the docs">
        <a href="#docs" aria-current=${page === "README" ? "page" : undefined}>All pages</a>
        ${groups.value.map(
          ({ name, entries }) => html`
            <h2>${name}</h2>
            <ul>
              ${entries.map((entry) => {
                const isShown = entry.href === `#docs/${page}`;
                return html`
                  <li>
                    <a href=${entry.href} aria-current=${isShown ? "page" : undefined}>${entry.name}</a>
                    ${isShown && html`<${Headings} />`}
                  </li>
                `;
              })}
            </ul>
          `,
        )}
      </nav>
    </aside>
  `;
}

/** Scrolls the side bar to the link of the current heading, or else of the page, unless it is visible. */
function showCurrent(side: HTMLElement): void {
  const link = [...side.querySelectorAll("[aria-current]")].at(-1)?.getBoundingClientRect();
  const { top, bottom, height } = side.getBoundingClientRect();
  if (link && (link.top < top || link.bottom > bottom)) side.scrollTop += link.top - top - height / 3;
}

function Headings(): View {
  if (typeof doc.value !== "object") return null;
  const headings = headingsOf(docPage.value, doc.value);
  const shown = `#docs/${docPage.value}/${docHeading.value}`;
  return html`
    <ul>
      ${headings.map(
        ({ name, href, level }) => html`
          <li class=${`is-level-${level}`}>
            <a href=${href} aria-current=${href === shown ? "location" : undefined}>${name}</a>
          </li>
        `,
      )}
    </ul>
  `;
}

/** The search, with its results below. The key `/` leads to it, the arrows lead through the results, and Escape ends it. */
function Search(): View {
  const field = useRef<HTMLInputElement>(null);
  const results = useRef<HTMLUListElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const { target } = event;
      const isTyping = target instanceof HTMLElement && target.matches("input, select, textarea");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const links = (): HTMLElement[] => Array.from(results.current?.querySelectorAll("a") ?? []);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      query.value = "";
      keepQuery("");
      field.current?.focus();
    } else if (event.key === "Enter" && event.target === field.current) links()[0]?.click();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all: (HTMLElement | null)[] = [field.current, ...links()];
      const at = all.indexOf(event.target as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
      all[at]?.focus();
    } else return;
    event.preventDefault();
  };
  const { hits } = found.value;
  const isAsked = query.value.trim() !== "";
  return html`
    <search class="docs-search" tabindex="-1" onKeyDown=${onKeyDown}>
      <label for="docs-query">Search the docs</label>
      <input
        ref=${field}
        id="docs-query"
        type="search"
        autocomplete="off"
        spellcheck=${false}
        aria-keyshortcuts="/"
        value=${query.value}
        onInput=${({ currentTarget }: { readonly currentTarget: HTMLInputElement }) =>
          (query.value = currentTarget.value)}
      />
      <p role="status" class=${isAsked ? "hint" : "unseen"}>${isAsked && countOf(found.value)}</p>
      ${
        hits.length > 0 &&
        html`
          <ul ref=${results} aria-label="Results">
            ${hits.map((hit) => html`<${Result} key=${`${hit.page}/${hit.heading}`} hit=${hit} />`)}
          </ul>
        `
      }
    </search>
  `;
}

function countOf({ hits: { length }, missing }: Found): string {
  if (length === 0) return "No section has these words.";
  const count = length === 1 ? "1 section" : `${length} sections`;
  return missing.length === 0 ? count : `${count}. None has ${missing.map((word) => `“${word}”`).join(", ")}.`;
}

/** Ends the search until the user goes back. Keeps the focus in the side bar, from which the page takes it: the link that has it goes away. */
function closeResults({ currentTarget }: { readonly currentTarget: HTMLElement }): void {
  currentTarget.closest("search")?.focus({ preventScroll: true });
  keepQuery(query.value);
  query.value = "";
}

const Result = ({ hit: { page, heading, row, title, excerpt } }: { readonly hit: Hit }): View => html`
  <li>
    <a href=${`#${["docs", page, heading, row].join("/").replace(/\/+$/, "")}`} onClick=${closeResults}>
      <strong>${title}</strong>
      <span>${excerpt}</span>
    </a>
  </li>
`;
