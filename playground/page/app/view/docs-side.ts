/** The side bar of the docs: the search, the pages by group, and the headings of the page that is shown. */

import { useEffect, useRef, useState } from "preact/hooks";
import { type Entry, headingsOf } from "../docs/contents.ts";
import { markedIn } from "../docs/excerpts.ts";
import type { Found, Hit } from "../docs/search.ts";
import {
  clearQuery,
  doc,
  followResult,
  found,
  groups,
  query,
  recallQuery,
  referenceGroups,
  results,
} from "../state/docs.ts";
import { docHeading, docPage, docRow, revisits } from "../state/place.ts";
import { html, type View } from "./html.ts";

export function DocsSide(): View {
  const [isOpen, setOpen] = useState(false);
  const side = useRef<HTMLElement>(null);
  const [page, heading, row, shown] = [docPage.value, docHeading.value, docRow.value, doc.value];
  // The chosen page is shown in place of the list, which would cover a narrow screen. The way back leads to the results.
  useEffect(() => {
    setOpen(false);
    recallQuery();
    if (results.value === "open") side.current?.querySelector("input")?.focus({ preventScroll: true });
  }, [page, heading, row]);
  const areClosed = results.value === "closed";
  useEffect(() => {
    // Who is searching keeps the field in sight.
    if (side.current && areClosed && !document.activeElement?.closest("search")) showCurrent(side.current);
  }, [page, heading, shown, areClosed, isOpen]);
  const isReference = referenceGroups.value.some(({ entries }) => entries.some(isShown));
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
            <${Pages} entries=${entries} />
          `,
        )}
        <details open=${isReference}>
          <summary>Pages of the reference</summary>
          ${referenceGroups.value.map(
            ({ name, entries }) => html`
              <h3>${name}</h3>
              <${Pages} entries=${entries} />
            `,
          )}
        </details>
      </nav>
    </aside>
  `;
}

const isShown = ({ href }: Entry): boolean => href === `#docs/${docPage.value}`;

/** The links to some pages, with the headings of the page that is shown. */
const Pages = ({ entries }: { readonly entries: readonly Entry[] }): View => html`
  <ul>
    ${entries.map(
      (entry) => html`
        <li>
          <a href=${entry.href} aria-current=${isShown(entry) ? "page" : undefined}>${entry.name}</a>
          ${isShown(entry) && html`<${Headings} key=${entry.href} />`}
        </li>
      `,
    )}
  </ul>
`;

/** Scrolls the side bar to the link of the current heading, or else of the page, unless it is visible. */
function showCurrent(side: HTMLElement): void {
  const link = [...side.querySelectorAll("[aria-current]")].at(-1)?.getBoundingClientRect();
  const { top, bottom, height } = side.getBoundingClientRect();
  if (link && (link.top < top || link.bottom > bottom)) side.scrollTop += link.top - top - height / 3;
}

/** The most headings that are found at a glance. A longer list has a filter. */
const MOST_UNFILTERED = 15;

function Headings(): View {
  const [filter, setFilter] = useState("");
  if (typeof doc.value !== "object") return null;
  const headings = headingsOf(docPage.value, doc.value);
  const wanted = filter.trim().toLowerCase();
  const found = headings.filter(({ name }) => name.toLowerCase().includes(wanted));
  const shown = `#docs/${docPage.value}/${docHeading.value}`;
  return html`
    ${
      headings.length > MOST_UNFILTERED &&
      html`
        <input
          class="docs-filter"
          type="search"
          autocomplete="off"
          spellcheck=${false}
          aria-label="Filter the headings of this page"
          placeholder=${`Filter ${headings.length} headings`}
          value=${filter}
          onInput=${({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => setFilter(currentTarget.value)}
        />
      `
    }
    ${found.length === 0 && html`<p class="hint" role="status">No heading has this text.</p>`}
    <ul>
      ${found.map(
        ({ name, href, level }) => html`
          <li class=${`is-level-${level}`}>
            <a href=${href} aria-current=${href === shown ? "location" : undefined}>${name}</a>
          </li>
        `,
      )}
    </ul>
  `;
}

const open = (): void => void (results.value = "open");

/** The search, with its results below. The key `/` leads to it, the arrows lead through the results, and Escape ends it. */
function Search(): View {
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
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
  const links = (): HTMLElement[] => Array.from(list.current?.querySelectorAll("a") ?? []);
  const clear = (): void => {
    clearQuery();
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") clear();
    else if (event.key === "Enter" && event.target === field.current) links()[0]?.click();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all: (HTMLElement | null)[] = [field.current, ...links()];
      const at = all.indexOf(event.target as HTMLElement) + (event.key === "ArrowDown" ? 1 : -1);
      all[at]?.focus();
    } else return;
    event.preventDefault();
  };
  const { hits } = found.value;
  const isAsked = query.value.trim() !== "";
  const shown = isAsked && hits.length > 0 ? results.value : "open";
  return html`
    <search class="docs-search" tabindex="-1" onKeyDown=${onKeyDown}>
      <label for="docs-query">Search the docs</label>
      <div class="docs-field">
        <input
          ref=${field}
          id="docs-query"
          type="search"
          autocomplete="off"
          spellcheck=${false}
          aria-keyshortcuts="/"
          value=${query.value}
          onFocus=${open}
          onInput=${({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
            query.value = currentTarget.value;
            open();
          }}
        />
        ${query.value !== "" && html`<button type="button" class="docs-clear" aria-label="Clear the search" onClick=${clear}>×</button>`}
      </div>
      <p role="status" class=${isAsked ? "hint" : "unseen"}>${isAsked && countOf(found.value)}</p>
      ${
        shown !== "open" &&
        html`
          <button
            type="button"
            class=${`docs-again is-${shown}`}
            aria-label="Show the results"
            onClick=${() => field.current?.focus()}
          >
            Results
          </button>
        `
      }
      ${
        hits.length > 0 &&
        shown !== "closed" &&
        html`
          <ul ref=${list} class=${`is-${shown}`} aria-label="Results">
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

/** Keeps the focus in the side bar, from which the page takes it: a narrow screen hides the link that has it. */
function follow({ currentTarget }: { readonly currentTarget: HTMLAnchorElement }): void {
  currentTarget.closest("search")?.focus({ preventScroll: true });
  followResult(currentTarget.hash);
  if (currentTarget.hash === location.hash) revisits.value++;
}

function Result({ hit: { page, heading, row, title, excerpt, stems } }: { readonly hit: Hit }): View {
  const isFollowed = page === docPage.value && heading === docHeading.value && row === docRow.value;
  return html`
    <li>
      <a
        href=${`#${["docs", page, heading, row].join("/").replace(/\/+$/, "")}`}
        aria-current=${isFollowed ? "true" : undefined}
        onClick=${follow}
      >
        <strong><${MarkedText} text=${title} stems=${stems} /></strong>
        <span><${MarkedText} text=${excerpt} stems=${stems} /></span>
      </a>
    </li>
  `;
}

const MarkedText = ({ text, stems }: { readonly text: string; readonly stems: ReadonlySet<string> }): View =>
  html`<span
    >${markedIn(text, stems).map((piece) => (piece.isMarked ? html`<mark>${piece.text}</mark>` : piece.text))}</span
  >`;
