/** Starts the page: asks who the user is, and shows the view that the address names. */

import { render } from "preact";
import type { AdminPart } from "../../http/operation.ts";
import { addressOf, follow, here, loginAddress, renewAddress } from "./address.ts";
import { recordedCurrency, wrongCurrency } from "./amounts.ts";
import {
  attempt,
  hasFailed,
  isLoggedIn,
  type Me,
  me,
  notice,
  pendingLoads,
  readMe,
  renewMe,
  shownPart,
} from "./api.ts";
import { Budget, openBudget } from "./budget.ts";
import { Budgets, openBudgets } from "./budgets.ts";
import { Changes, Health, loadChanges, loadHealth } from "./changes.ts";
import { Key, openKey } from "./key.ts";
import { Keys, openKeys } from "./keys.ts";
import { Live, loadLive } from "./live.ts";
import { Dialogs, html, type View } from "./parts.ts";
import { openRefusals, Refusals } from "./refusals.ts";
import { openSpend, Spend } from "./spend.ts";

interface Tab {
  readonly name: string;
  readonly view: (has: Me) => View;
  /** Shows what the address asks for. */
  readonly load: (asked: URLSearchParams) => Promise<unknown>;
  /** The part of the host that it needs. */
  readonly needs?: AdminPart;
  /** The part that leads to it. Absent for a part of the header. */
  readonly within?: string;
}

const TABS: Readonly<Record<string, Tab>> = {
  keys: { name: "Keys", view: Keys, load: (asked) => openKeys(asked, me.value?.budgets ?? false) },
  key: { name: "Key", view: Key, load: (asked) => openKey(asked, me.value ?? NOBODY), within: "keys" },
  budgets: { name: "Budgets", view: Budgets, load: openBudgets, needs: "budgets" },
  budget: {
    name: "Budget",
    view: Budget,
    load: (asked) => openBudget(asked, me.value ?? NOBODY),
    needs: "budgets",
    within: "budgets",
  },
  live: { name: "Live", view: Live, load: () => loadLive(me.value?.calls ?? false), needs: "live" },
  spend: { name: "Spend", view: Spend, load: (asked) => openSpend(asked, me.value?.budgets ?? false), needs: "calls" },
  calls: {
    name: "Calls",
    view: Refusals,
    load: (asked) => openRefusals(asked, me.value?.budgets ?? false),
    needs: "calls",
  },
  health: { name: "Health", view: Health, load: loadHealth, needs: "health" },
  changes: { name: "Changes", view: Changes, load: loadChanges },
};

const NOBODY: Me = { name: "", readOnly: true, budgets: false, health: false, live: false, calls: false };

/** An address whose names are noted as soon as a part asks for their values. */
class NotedParams extends URLSearchParams {
  readonly known: Set<string> = new Set(["part"]);
  override get(name: string): string | null {
    return this.has(name) ? super.get(name) : null;
  }
  override has(name: string): boolean {
    this.known.add(name);
    return super.has(name);
  }
}

const isTab = (name: string): boolean => Object.hasOwn(TABS, name);

/** Returns the parts that the host has. */
const shownTabs = (): readonly [id: string, tab: Tab][] =>
  Object.entries(TABS).filter(([, { needs, within }]) => !within && (!needs || (me.value ?? NOBODY)[needs]));

async function showTab(): Promise<void> {
  renewAddress(isTab);
  const asked = new NotedParams(location.search);
  const wanted = asked.get("part") ?? "";
  shownPart.value = isTab(wanted) ? wanted : "keys";
  here.value = location.pathname + location.search;
  document.title = `${TABS[shownPart.value]?.name} · ${TITLE}`;
  // Without an answer about the user and the host's parts, the notice stays, and the part offers to try again.
  hasFailed.value = me.value === undefined;
  if (me.value === undefined) return;
  notice.value = undefined;
  const tab = shownPart.value;
  const name = TABS[tab]?.name;
  await TABS[tab]?.load(asked);
  const unknown = [...asked.keys()].find((one) => !asked.known.has(one));
  const words = isTab(wanted)
    ? unknown !== undefined && `${name} has no filter ${unknown}.`
    : wanted !== "" &&
      `There is no part ${wanted}. This is ${name}. The parts are ${shownTabs()
        .map(([id]) => id)
        .join(", ")}.`;
  if (words && tab === shownPart.value) notice.value ??= { text: words, isError: true };
}

/** Shows what a link of this page leads to. The keyboard goes on at the heading where the link is gone. */
async function followLink(): Promise<void> {
  await showTab();
  if (document.activeElement === null || document.activeElement === document.body)
    document.querySelector<HTMLElement>("main h2")?.focus();
}

const root = document.getElementById("app");
const TITLE = root?.dataset["title"] ?? "";
const { logout: LOGOUT = "", hint: HINT = "" } = document.documentElement.dataset;

/** The way back for a user whose session has ended. */
const WayBack = (): View =>
  html`<span class="way-back">
    ${loginAddress() && html`<a class="button main" href=${loginAddress()}>Log in</a>`}
    <button type="button" onClick=${() => location.reload()}>Load again</button>
  </span>`;

function App(): View {
  const { name, readOnly, ...has } = me.value ?? NOBODY;
  const part = TABS[shownPart.value];
  return html`
    <header class="top">
      <h1>${TITLE}</h1>
      <nav aria-label="Parts">
        ${shownTabs().map(
          ([id, one]) =>
            html`<a
              href=${addressOf(id)}
              onClick=${follow}
              aria-current=${id === shownPart.value ? "page" : id === part?.within ? "true" : undefined}
              >${one.name}</a
            >`,
        )}
      </nav>
      ${
        isLoggedIn.value
          ? html`<span class="quiet">${name}${name !== "" && readOnly && " (read-only)"}</span>
              ${LOGOUT && html`<a class="button" href=${LOGOUT}>Log out</a>`}`
          : html`<span class="quiet">not logged in</span>`
      }
    </header>
    ${HINT && !readOnly && html`<p class="hint quiet">${HINT}</p>`}
    <div class=${`notice ${notice.value?.isError ? "bad" : ""}`}>
      <span role="status">${notice.value?.text}</span> ${!isLoggedIn.value && html`<${WayBack} />`}
    </div>
    ${wrongCurrency.value && html`<p class="hint">${wrongCurrency.value}</p>`}
    <main hidden=${!isLoggedIn.value} aria-busy=${pendingLoads.value > 0}>
      ${part && html`<${part.view} ...${has} />`}
    </main>
    <${Dialogs} />
  `;
}

// The sentence in the place of the page goes: it is for a page whose files do not come.
root?.replaceChildren();
if (root) render(html`<${App} />`, root);
// Also a change of the fragment. The browser's own events, such as for its button back, bring their place on the page with them.
addEventListener("popstate", ({ isTrusted }) => void (isTrusted ? showTab() : followLink()));
// The user comes back from another tab, or is logged in again.
addEventListener("focus", () => void renewMe());
isLoggedIn.subscribe((is) => is && void renewMe());
await attempt(async () => {
  await readMe();
  // The currency stays as long as the page: an open dialog may have an amount in it.
  recordedCurrency.value = me.value?.currency;
});
await showTab();
