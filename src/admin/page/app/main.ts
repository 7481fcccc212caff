/** Starts the page: asks who the user is, and shows the view that the address names. */

import { signal } from "@preact/signals";
import { render } from "preact";
import type { AdminPart, AdminUser } from "../../http/operations.ts";
import { attempt, isLoggedIn, mayChange, notice, read } from "./api.ts";
import { Budgets, loadBudgets } from "./budgets.ts";
import { Changes, Health, loadChanges, loadHealth } from "./changes.ts";
import { Keys, loadKeys } from "./keys.ts";
import { Live, loadLive } from "./live.ts";
import { Dialogs, html, type View } from "./parts.ts";
import { loadRefusals, Refusals } from "./refusals.ts";
import { openSpend, Spend } from "./spend.ts";

/** The user, and the parts of the admin that this host has. */
type Me = Required<AdminUser> & Readonly<Record<AdminPart, boolean>>;

interface Tab {
  readonly name: string;
  readonly view: (has: Me) => View;
  readonly load: () => Promise<unknown>;
  /** The part of the host that it needs. */
  readonly needs?: AdminPart;
}

const TABS: Readonly<Record<string, Tab>> = {
  keys: { name: "Keys", view: Keys, load: () => loadKeys() },
  budgets: { name: "Budgets", view: Budgets, load: loadBudgets, needs: "budgets" },
  live: { name: "Live", view: Live, load: () => loadLive(me.value?.calls ?? false), needs: "live" },
  spend: { name: "Spend", view: Spend, load: () => openSpend(me.value?.budgets ?? false), needs: "calls" },
  refusals: { name: "Refusals", view: Refusals, load: () => loadRefusals(), needs: "calls" },
  health: { name: "Health", view: Health, load: loadHealth, needs: "health" },
  changes: { name: "Changes", view: Changes, load: () => loadChanges() },
};

const NOBODY: Me = { name: "", readOnly: true, budgets: false, health: false, live: false, calls: false };

const me = signal<Me | undefined>(undefined);
const shown = signal("keys");

function follow(): void {
  const [wanted = ""] = location.hash.slice(1).split("?");
  shown.value = Object.hasOwn(TABS, wanted) ? wanted : "keys";
  notice.value = undefined;
  void TABS[shown.value]?.load();
}

function App({ title }: { title: string }): View {
  const { name, readOnly, ...has } = me.value ?? NOBODY;
  const part = TABS[shown.value];
  return html`
    <header class="top">
      <h1>${title}</h1>
      <nav aria-label="Parts">
        ${Object.entries(TABS)
          .filter(([, { needs }]) => !needs || has[needs])
          .map(
            ([id, one]) =>
              html`<a href=${`${location.pathname}#${id}`} aria-current=${id === shown.value ? "page" : undefined}
                >${one.name}</a
              >`,
          )}
      </nav>
      <span class="quiet">${name}${name !== "" && readOnly && " (may look only)"}</span>
    </header>
    <p class=${`notice ${notice.value?.isError ? "bad" : ""}`} role="status">${notice.value?.text}</p>
    <main hidden=${!isLoggedIn.value}>${part && html`<${part.view} ...${has} />`}</main>
    <${Dialogs} />
  `;
}

const root = document.getElementById("app");
if (root) render(html`<${App} title=${root.dataset["title"]} />`, root);
addEventListener("hashchange", follow);
await attempt(async () => {
  me.value = (await read<Me>("me")).body;
  mayChange.value = !me.value.readOnly;
});
follow();
